"""Conversion of JSON lines and of annotation tools' exports: documents, counts, problems."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest
import spacy

from bcrf.io.json_objects import read_objects
from bcrf.io.text import CorpusError
from spacy_bcrf.corpora import convert as conversion
from spacy_bcrf.corpora.counts import MAX_REPORTS
from spacy_bcrf.readers.doc_files import find_files, read_docs

EXPORTS = Path(__file__).parent / "exports"
VOCAB = spacy.blank("xx").vocab

ADA = {"text": "Ada Lovelace lived in Rome", "spans": [{"start": 0, "end": 12, "label": "PER"}]}


def convert(folder, *sources, name="in.jsonl", output="out.spacy", **options):
    """Convert lists of objects, texts of files, or paths. Return Docs, counts and problems."""
    paths = []
    for source in sources:
        if isinstance(source, list):
            source = "".join(json.dumps(record) + "\n" for record in source)
        if isinstance(source, str):
            (folder / name).write_text(source, encoding="utf8", newline="")
            source = folder / name
        paths.append(source)
    problems = []
    output = folder / output
    options = {"skip_malformed": True, **options}
    counts = conversion.convert(paths, output, report=problems.append, **options)
    return list(read_docs(output, VOCAB)), counts, problems


def spans(doc, key=None):
    group = doc.ents if key is None else doc.spans.get(key, [])
    return [(span.text, span.label_) for span in group]


def iob(doc):
    return "".join(token.ent_iob_ or "-" for token in doc)


def change(**fields):
    return {**ADA, **fields}


def token_span(first, last, tokens, text=None):
    span = {"token_start": first, "token_end": last, "label": "PER"}
    fields = {"tokens": tokens, "text": text, "spans": [span]}
    return {key: value for key, value in fields.items() if value is not None}


def at(start=0, end=12, label="PER", **more):
    return {"start": start, "end": end, "label": label, **more}


def span(*args, **fields):
    return change(spans=[at(*args, **fields)])


def test_all_fields_of_a_record(tmp_path):
    ambiguous = {"start": 13, "end": 18, "label": ["LOC", "ORG"]}
    anything = {"start": 22, "end": 26, "label": None}
    partial = {
        **ADA,
        "spans": [*ADA["spans"], ambiguous, anything],
        "rejected": [{"start": 0, "end": 3, "label": ["ORG", "LOC"]}],
        "annotated_labels": ["PER", "ORG"],
        "complete": False,
        "meta": {"source": "an unknown field"},
    }
    (full, doc), counts, problems = convert(tmp_path, [ADA, partial])
    assert (iob(full), spans(full)) == ("BIOOO", [("Ada Lovelace", "PER")])
    assert full._.annotated_labels is None
    assert (iob(doc), spans(doc)) == ("BI---", spans(full))
    assert spans(doc, "ambiguous_spans") == [("lived", "LOC"), ("lived", "ORG"), ("Rome", "")]
    assert spans(doc, "incorrect_spans") == [("Ada", "LOC"), ("Ada", "ORG")]
    assert list(doc._.annotated_labels) == ["PER", "ORG"]
    assert str(counts) == (
        "2 records read = 2 in 2 docs; 5 spans = 2 entities + 2 ambiguous + 1 rejected; "
        "10 tokens, 3 of them without entity annotation"
    )
    assert not problems


def test_a_record_without_spans_has_missing_annotation(tmp_path):
    text = {"text": "Ada left"}
    empty, complete = {**text, "spans": []}, {**text, "complete": True}
    rejected = {**text, "rejected": [{"start": 0, "end": 3, "label": "PER"}]}
    null = {**text, "spans": None, "uncertainty": 0.5}
    docs, counts, _ = convert(tmp_path, [text, empty, complete, rejected, null])
    assert [iob(doc) for doc in docs] == ["--", "OO", "OO", "--", "--"]
    assert spans(docs[3], "incorrect_spans") == [("Ada", "PER")]
    assert counts.unannotated == 2 and str(counts).endswith(
        "10 tokens, 6 of them without entity annotation; 2 docs without annotation"
    )


TAGS = ["O", "B-PER", "I-PER", "B-LOC"]


@pytest.mark.parametrize(
    "fields",
    [
        {"entities": [[0, 12, "PER"], [22, 26, "LOC"]]},
        {"label": [[22, 26, "LOC"], [0, 12, "PER"]], "id": 3},
        {
            "entities": [
                {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 12},
                {"id": 2, "label": "LOC", "start_offset": 22, "end_offset": 26},
            ],
            "relations": [],
        },
        {
            "ents": [
                {"start": 0, "end": 12, "label": "PER"},
                {"start": 22, "end": 26, "label": "LOC"},
            ]
        },
        {"tokens": ADA["text"].split(), "ner_tags": [1, 2, 0, 0, 3]},
        {"tokens": ADA["text"].split(), "ner_tags": ["B-PER", "I-PER", "O", "O", "B-LOC"]},
        {"tokens": ADA["text"].split(), "ner_tags": ["B-PER", "L-PER", "O", "O", "U-LOC"]},
        {"tokens": ADA["text"].split(), "tags": ["b-PER", "i-PER", "o", "O", "B-LOC"]},
        {"tokens": ADA["text"].split(), "labels": ["PER", "PER", "O", "O", "LOC"]},
        {
            "annotations": [
                {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 12, "user": 1},
                {"id": 2, "label": "LOC", "start_offset": 22, "end_offset": 26, "user": 1},
            ]
        },
        {
            "label": [
                {"start": 0, "end": 12, "text": "Ada Lovelace", "labels": ["PER"]},
                {"start": 22, "end": 26, "text": "Rome", "labels": ["LOC"]},
            ],
            "annotation_id": 2,
        },
    ],
    ids=str,
)
@pytest.mark.parametrize("with_text", [True, False])
def test_spans_under_the_names_of_other_tools(tmp_path, fields, with_text):
    if with_text or "tokens" not in fields:
        fields = {**fields, "text": ADA["text"]}
    (doc,), counts, problems = convert(tmp_path, [fields], labels=TAGS)
    assert (spans(doc), iob(doc)) == ([("Ada Lovelace", "PER"), ("Rome", "LOC")], "BIOOB")
    assert (counts.entities, counts.unannotated, problems) == (2, 0, [])


def test_names_of_tags_are_valid_labels(tmp_path):
    good = {"tokens": ["Ada", "left"], "ner_tags": [1, 0]}
    records = [good, {**good, "ner_tags": [4, 0]}, {**good, "ner_tags": ["B-ORG", "O"]}]
    docs, counts, problems = convert(tmp_path, records, labels=TAGS)
    assert len(docs) == 1 and counts.skipped == {"unknown label": 2} and counts.skipped_spans == 1
    assert problems[0].endswith(
        'in.jsonl:2: "ner_tags" has the id 4, but `convert --labels` has 4 tags'
    )
    assert "unknown 'ORG'; expected one of LOC, PER" in problems[1]


def test_a_record_with_tokens(tmp_path):
    words = {"tokens": ["New", "York-based", "Ann"], "spans": [at(1, 3, "X")]}
    prodigy = {**words, "spans": [{"token_start": 1, "token_end": 2, "label": "X"}]}
    both = {"text": "New  York-based", "tokens": ["New", "York-based"], "spans": []}
    (one, other, text), _, _ = convert(tmp_path, [words, prodigy, both])
    assert spans(one) == spans(other) == [("York-based Ann", "X")]
    assert one.has_unknown_spaces and not text.has_unknown_spaces
    assert [token.text for token in text] == ["New", " ", "York-based"]
    (doc,), _, _ = convert(tmp_path, [words], lang="zh")
    assert doc.text == "NewYork-basedAnn"


def test_token_spans_in_a_text(tmp_path):
    record = {
        "text": " New  York-based\tAnn",
        "tokens": [" ", {"text": "New"}, "York-based", "\n", "Ann"],
        "spans": [{"token_start": 1, "token_end": 2, "label": "X", "text": "New York-based"}],
        "rejected": [{"token_start": 3, "token_end": 4, "label": None}],
    }
    (doc,), _, problems = convert(tmp_path, [record])
    assert (spans(doc), doc.text, problems) == ([("New  York-based", "X")], record["text"], [])
    assert spans(doc, "incorrect_spans") == [("Ann", "")]


def test_prodigys_manual_interface(tmp_path):
    (uber, pearl), counts, problems = convert(tmp_path, EXPORTS / "prodigy_manual.jsonl")
    assert spans(uber) == [("Uber", "ORG"), ("Silicon Valley", "GPE")]
    assert iob(uber) == "BOOOBIOOOOOOO" and uber.text.startswith("Uber\u2019s Lesson:")
    assert spans(pearl) == [("Pearl Automation", "ORG"), ("Apple", "ORG")]
    assert (counts.records, counts.docs, counts.spans, counts.entities) == (4, 2, 5, 4)
    assert counts.ignored == {"ignored by the annotator": 1, "rejected as a whole": 1}
    assert (counts.ignored_spans, problems) == (1, [])


def test_a_rejected_prodigy_span_among_plain_records_is_no_entity(tmp_path):
    plain = {"text": "Ada Lovelace wrote", "spans": []}
    rejected = {"text": "Uber", "spans": [{"start": 0, "end": 4, "label": "ORG"}]}
    docs, counts, problems = convert(tmp_path, [plain, rejected | {"answer": "reject"}])
    assert (len(docs), counts.skipped_spans) == (1, 1)
    assert '"answer" is a field of Prodigy' in problems[0]


def test_prodigys_binary_interface(tmp_path):
    (doc,), counts, _ = convert(tmp_path, EXPORTS / "prodigy_teach.jsonl")
    assert (spans(doc), iob(doc)) == ([("Apple", "ORG")], "B------")
    assert spans(doc, "incorrect_spans") == [("Berlin", "ORG")]
    assert (counts.used - counts.docs, counts.repeated, counts.rejected, counts.ignored_spans) == (
        2,
        1,
        1,
        1,
    )
    assert counts.records == 4 and counts.spans == 4


def test_prodigy_without_the_name_of_its_interface(tmp_path):
    task = {"text": "Ann left", "spans": [at(0, 3)], "answer": "accept"}
    by_hand = {**task, "tokens": [{"text": "Ann"}, {"text": "left"}]}
    assert iob(convert(tmp_path, [task])[0][0]) == "B-"
    assert iob(convert(tmp_path, [by_hand])[0][0]) == "BO"
    assert iob(convert(tmp_path, [{**by_hand, "_is_binary": True}])[0][0]) == "B-"


def test_prodigys_answers_are_merged_across_files(tmp_path):
    full = json.loads((EXPORTS / "prodigy_manual.jsonl").read_text().splitlines()[0])
    yes = {"text": full["text"], "_view_id": "ner", "answer": "accept", "spans": full["spans"][:1]}
    no = {**yes, "answer": "reject", "spans": [{**full["spans"][1], "label": "ORG"}]}
    docs, counts, _ = convert(tmp_path, [yes, no], EXPORTS / "prodigy_manual.jsonl")
    assert spans(docs[0], "incorrect_spans") == [("Silicon Valley", "ORG")]
    assert iob(docs[0]) == "BOOOBIOOOOOOO" and (counts.used - counts.docs, counts.repeated) == (
        2,
        1,
    )
    unseen = {**yes, "spans": [{"start": 7, "end": 13, "label": "ORG"}]}
    docs, counts, (problem,) = convert(tmp_path, [unseen], EXPORTS / "prodigy_manual.jsonl")
    assert len(docs) == 1 and counts.skipped == {"contradiction": 2} and counts.skipped_spans == 3
    assert problem == (
        f"{tmp_path}/in.jsonl:1, {EXPORTS}/prodigy_manual.jsonl:1: span 7:13 'Lesson' ORG is not "
        f"in {EXPORTS}/prodigy_manual.jsonl:1, which is annotated in full"
    )


def test_label_studio(tmp_path):
    (jackson, lima), counts, problems = convert(tmp_path, EXPORTS / "label_studio.json")
    assert spans(jackson) == [("George Jackson", "PER")]
    assert spans(jackson, "ambiguous_spans") == [("Jamaica", "LOC"), ("Jamaica", "ORG")]
    assert (spans(lima), lima.text) == ([("Lima", "LOC")], "🎉🎉 Lima wins")
    assert counts.ignored == {"cancelled": 1, "not annotated": 1} and not problems
    assert str(counts).endswith(
        "1 span trimmed of white space; 1 further annotations left out; "
        "1 results without text labels left out"
    )
    docs, again, _ = convert(tmp_path, json.loads((EXPORTS / "label_studio.json").read_text()))
    assert (len(docs), str(again)) == (2, str(counts))


def test_label_studios_offsets_in_utf16_or_hypertext(tmp_path):
    task = json.loads((EXPORTS / "label_studio.json").read_text())[2]
    value = task["annotations"][1]["result"][0]["value"]
    value.update(start=3, end=7)
    assert spans(convert(tmp_path, [task])[0][0]) == [("Lima", "LOC")]
    value.update(start=4, end=8)
    _, counts, (problem,) = convert(tmp_path, [task, ADA_TASK])
    assert problem.endswith("""in.jsonl:1: span 4:8 is 'ima ', but its "text" is 'Lima'""")
    assert (counts.skipped_spans, counts.docs) == (1, 1)
    task["annotations"][1]["result"][0] = {
        "type": "hypertextlabels",
        "value": {"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]", "hypertextlabels": ["X"]},
    }
    _, _, (problem,) = convert(tmp_path, [task, ADA_TASK])
    assert 'in.jsonl:1: "start" of a span must be an integer, got "/p[1]/text()[1]"' in problem


ADA_TASK = {"id": 1, "data": {"body": "Ada left"}, "annotations": [{"result": []}]}


@pytest.mark.parametrize(
    "suffix, pack, form",
    [
        ("", bytes, "lines"),
        ("", bytes, "one line"),
        (".xz", lzma.compress, "indented"),
        (".gz", gzip.compress, "lines"),
        (".bz2", bz2.compress, "one line"),
    ],
)
def test_line_breaks_blank_lines_byte_order_marks_and_compression(tmp_path, suffix, pack, form):
    records = [ADA, {"text": "a\u2028b ü"}]
    if form == "lines":
        text = "\r\n\r\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    else:
        text = json.dumps(records, indent=1 if form == "indented" else None, ensure_ascii=False)
        text = text.replace("\n", "\r\n")
    path = tmp_path / f"in.json{suffix}"
    path.write_bytes(pack(b"\xef\xbb\xbf" + text.encode()))
    steps = []
    items = list(read_objects(path, steps.append))
    assert [item.value for item in items] == records
    numbers = {"lines": [1, 3], "one line": [1, 1], "indented": [2, 12]}[form]
    assert [item.place for item in items] == [f"{path}:{n}" for n in numbers]
    assert sum(steps) == path.stat().st_size
    docs, _, _ = convert(tmp_path, path)
    assert [doc.text for doc in docs] == [record["text"] for record in records]


@pytest.mark.parametrize(
    "more",
    [
        {"relations": [{"from_id": 1, "to_id": 2}], "Comments": ["O"]},
        {"chunk_tags": ["B-NP"], "meta": {"authors": ["Ann"]}, "sents": [{"start": 0, "end": 1}]},
        {"topic": {"choices": ["news", "sport"]}, "mentions": [], "label": "news"},
    ],
)
@pytest.mark.parametrize("name", ["spans", "entities", "ents"])
def test_lists_beside_the_spans_that_are_no_entities(tmp_path, name, more):
    spans = [{"start": 0, "end": 1, "label": "PER"}]
    (doc,), _, problems = convert(tmp_path, json.dumps({"text": "a", name: spans, **more}))
    assert [ent.label_ for ent in doc.ents] == ["PER"] and not problems


@pytest.mark.parametrize(
    "record, reason, message",
    [
        ('{"text": "a"', "no JSON", "no JSON: Expecting ',' delimiter at column 13"),
        ("[" * 100_000, "no JSON", "no JSON that can be read: nested too deep"),
        ('{"text": ' + "1" * 5000, "no JSON", "no JSON that can be read: "),
        ('"a"', "no object", 'expected an object, got "a"'),
        ({"raw": "a"}, "no text", 'no "tokens"; expected "text" with a string; found ["raw"]'),
        ({"text": ""}, "empty", '"text" is empty'),
        (
            {"text": "a", "entities": [[0, 1, "PER"]], "label": [[0, 1, "LOC"]]},
            "several annotations",
            "found entities and label; expected one of them",
        ),
        (
            {"text": "a", "spans": [], "entities": [[0, 1, "PER"]]},
            "several annotations",
            "found spans and entities; expected one of them",
        ),
        ({"text": "a", "label": [[0, 1]]}, "wrong type", "a span must be an object, got [0, 1]"),
        (
            {"tokens": ["a", "b"], "ner_tags": ["O"]},
            "wrong type",
            '"ner_tags" has 1 tags, but there are 2 tokens',
        ),
        (
            {"text": "a", "ner_tags": ["O"]},
            "wrong type",
            '"ner_tags" has 1 tags, but there are no list "tokens"',
        ),
        (
            {"tokens": ["a", "b"], "ner_tags": ["PER", "B-PER"]},
            "no tag",
            "\"ner_tags\", token 0: 'PER' is not a tag; expected O or one of",
        ),
        ({"text": "a", "entity": [[0, 1, "PER"]]}, "unread annotation", '"entity" is not read'),
        ({"text": "a", "Spans": [{"start": 0}]}, "unread annotation", '"Spans" is not read'),
        ({"tokens": ["a"], "iob": ["B-PER"]}, "unread annotation", '"iob" is not read'),
        (
            {"text": "a", "entities": [], "mentions": [{"start": 0}]},
            "unread annotation",
            '"mentions" is not read',
        ),
        (
            {"text": "a", "spans": [], "labels2": [[0, 1, "LOC"]]},
            "unread annotation",
            '"labels2" is not read',
        ),
        (
            {"text": "a", "ents": [], "spans": {}, "entities": [[0, 1, "LOC"]]},
            "unread annotation",
            '"entities" is not read',
        ),
        ({"text": "a", "x": {"y": [1]}}, "unread annotation", '"x" is not read'),
        (
            {"text": "a", "annotations": [{"label": 2, "start_offset": 0, "end_offset": 1}]},
            "label ids",
            "the label of the span 0:1 is the id 2; export the names of labels",
        ),
        (
            {"tokens": ["a"], "ner_tags": [1]},
            "ids without names",
            '"ner_tags" has the id 1; expected `convert --labels` with all tags in the order of ',
        ),
        ({"tokens": []}, "empty", '"tokens" is empty'),
        ({"tokens": ["a", ""]}, "empty", 'each of "tokens" is empty'),
        ({"tokens": "a b"}, "wrong type", '"tokens" must be a list, got "a b"'),
        ({"text": 3}, "wrong type", '"text" must be a string, got 3'),
        ({"text": "a\ud83d"}, "wrong type", '"text" has half a surrogate pair at character 1'),
        ({"text": "ab", "tokens": ["b"]}, "not tokenized", "[E194] Unable to align"),
        (change(complete=1), "wrong type", '"complete" must be true or false, got 1'),
        (change(spans={}), "wrong type", '"spans" must be a list, got {}'),
        (change(spans=[3]), "wrong type", "a span must be an object, got 3"),
        (change(rejected=[None]), "wrong type", "a rejected span must be an object, got null"),
        (change(spans=[{"start": 0, "end": 3}]), "wrong type", "has no label; expected one, or"),
        (change(annotated_labels="PER"), "wrong type", '"annotated_labels" must be a list'),
        (change(annotated_labels=["PER", 1]), "wrong type", '"annotated_labels" must be a string'),
        (change(annotated_labels=["PSN"]), "unknown label", "unknown 'PSN'; expected one of LOC"),
        (span(label="psn"), "unknown label", "the label of the span 0:12: unknown 'psn'"),
        (span(label="O"), "unknown label", "the label of the span 0:12 is O, which is no label"),
        (span(label=""), "empty", "the label of the span 0:12 is empty"),
        (span(label=[]), "wrong type", "span 0:12 has no labels; expected some, or null"),
        (span(start=True), "wrong type", '"start" of a span must be an integer, got true'),
        (span(end=12.0), "wrong type", '"end" of a span must be an integer, got 12.0'),
        (span(end=27), "outside the text", 'span 0:27 "PER" is not in the text, which has 26 char'),
        (span(start=-1), "outside the text", 'span -1:12 "PER" is not in the text'),
        (span(start=12), "outside the text", "expected 0 <= start < end <= 26"),
        ({"tokens": ["a"], "spans": [at(0, 2)]}, "outside the text", "which has 1 tokens"),
        (token_span(1, 2, ["a", "b"], "a b"), "outside the text", 'span 1:3 "PER" is not in the'),
        (token_span(1, 1, ["a", "b"], "a c b"), "not tokenized", "'b' is not next in the text"),
        (token_span(1, 1, None, "a b"), "wrong type", '"start" of a span must be'),
        (span(text="Ada L."), "another text", "is 'Ada Lovelace', but its \"text\" is 'Ada L.'"),
    ],
)
def test_a_bad_record_is_reported_skipped_and_counted(tmp_path, record, reason, message):
    line = record if isinstance(record, str) else json.dumps(record)
    text = f"{json.dumps(ADA)}\n\n{line}\n{json.dumps(ADA)}\n"
    docs, counts, (problem,) = convert(tmp_path, text, labels=["PER", "LOC"])
    assert len(docs) == counts.docs == 2 and counts.records == 3
    assert counts.skipped == {reason: 1}
    assert problem.startswith(f"{tmp_path}/in.jsonl:3: ") and message in problem
    n_spans = 0
    if isinstance(record, dict):
        lists = [record.get(key) for key in ("spans", "rejected")]
        if reason != "several annotations":
            lists += [record.get("label"), record.get("annotations")]
        n_spans = sum(len(found) for found in lists if isinstance(found, list))
    assert counts.skipped_spans == n_spans and counts.spans == 2 + n_spans
    (tmp_path / "out.spacy").unlink()
    for skip_malformed in (False, None):  # one of three records is more than a tenth
        with pytest.raises(CorpusError) as caught:
            convert(tmp_path, text, labels=["PER", "LOC"], skip_malformed=skip_malformed)
        assert str(caught.value).startswith(f"{problem}\n{tmp_path}/out.spacy: not written, ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    "task, message",
    [
        ({"answer": "maybe", "text": "a"}, 'must be accept, reject or ignore, got "maybe"'),
        ({"answer": "accept", "text": "a", "_view_id": "choice"}, '"_view_id" "choice"; expected'),
        ({"data": {"text": "a"}}, 'expected "data" and "annotations"'),
        ({"data": {"text": "a"}, "annotations": [1]}, 'each of "annotations" must be an object'),
        ({"data": {"text": "a"}, "annotations": [{}]}, '"result" of the annotation must be a list'),
        ({"data": {"text": "a"}, "annotations": [{"result": [1]}]}, "must be an object, got 1"),
        ({"data": {"text": 1}, "annotations": [{"result": []}]}, '"text" in "data" must be a str'),
        ({"data": {"a": "b", "c": "d"}, "annotations": [{"result": []}]}, "found a, c"),
    ],
)
def test_a_bad_task(tmp_path, task, message):
    good = {"answer": "accept", "text": "b"} if "answer" in task else ADA_TASK
    docs, counts, (problem,) = convert(tmp_path, [good, task])
    assert len(docs) == 1 and counts.records == 2
    assert f"{tmp_path}/in.jsonl:2: " in problem and message in problem


def test_unusable_rejections_are_ignored(tmp_path):
    task = {"answer": "reject", "text": "a b", "spans": [], "_view_id": "ner"}
    good, two = {"answer": "accept", "text": "b"}, [at(0, 1), at(2, 3)]
    _, counts, _ = convert(tmp_path, [good, task, {**task, "spans": two}])
    assert counts.ignored == {
        "rejected with 0 spans instead of one": 1,
        "rejected with 2 spans instead of one": 1,
    }
    assert counts.ignored_spans == counts.spans == 2


@pytest.mark.parametrize(
    "text, message",
    [
        ('[{"text": "a"},\n{"text": }]', "in.jsonl:2: no JSON: Expecting value"),
        ('[{"text": "a"}\n\n{"text": "b"}]', "in.jsonl:3: no JSON: expected a comma or the end"),
        ('[{"text": "a"}\n', "in.jsonl:1: no JSON: expected a comma or the end"),
        ('[{"text": "a"}]\n[]', "in.jsonl:2: no JSON: more text after the end of the list"),
        ("[", "in.jsonl:1: no JSON: Expecting value"),
        ("[]", "in.jsonl: no records; expected at least one"),
        ("\n\n", "in.jsonl: no records; expected at least one"),
        ("no\nno", "in.jsonl: no record is left: 2 records read = 0 in 0 docs + 2 left out"),
    ],
)
def test_unreadable_files(tmp_path, text, message):
    with pytest.raises(CorpusError) as caught:
        convert(tmp_path, text)
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_only_the_first_problems_are_reported(tmp_path):
    n = MAX_REPORTS + 5
    lines = "".join(f'{{"text": {i}}}\n' for i in range(n))
    _, counts, problems = convert(tmp_path, lines + json.dumps(ADA))
    assert counts.skipped.total() == n and len(problems) == MAX_REPORTS + 1
    assert problems[-1] == "and 5 more problems"


def test_spans_left_out_for_one_reason_are_named_five_times(tmp_path):
    cut = "".join(
        json.dumps({"text": f"Ada{i}", "spans": [{"start": 0, "end": 2, "label": "X"}]}) + "\n"
        for i in range(30)
    )
    _, counts, problems = convert(tmp_path, cut)
    assert counts.left_out == {"cut tokens": 30} and len(problems) == 6
    assert problems[-1] == "and 25 more problems"


def test_equal_problems_are_one_with_their_places(tmp_path):
    _, _, (problem,) = convert(tmp_path, "no\n" * 30 + json.dumps(ADA))
    assert problem.startswith(f"{tmp_path / 'in.jsonl'}:1, ") and " and 25 more: " in problem


def test_shards_are_all_written_or_none(tmp_path):
    convert(tmp_path, [ADA] * 5, shard=2)
    files = find_files(tmp_path / "out.spacy")
    assert [len(list(read_docs(file, VOCAB))) for file in files] == [2, 2, 1]
    for folder in ("new", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(CorpusError, match="no record is left"):
            convert(tmp_path, [ADA], output=folder, labels=["X"], shard=2)
        assert not (tmp_path / "new").exists() and not any((tmp_path / "empty").iterdir())
    (tmp_path / "bad.jsonl").write_text((tmp_path / "in.jsonl").read_text() + "no")
    with pytest.raises(CorpusError, match="--skip-malformed"):
        convert(tmp_path, tmp_path / "bad.jsonl", output="empty", shard=2, skip_malformed=False)
    assert not any((tmp_path / "empty").iterdir())


def test_spans_of_bad_tasks_are_counted(tmp_path):
    region = {"type": "labels", "value": {"start": 0, "end": 1, "text": "a", "labels": ["PER"]}}
    tasks = [
        {"data": {"other": 1}, "annotations": [{"result": [region, region]}]},
        {"data": {"text": "a"}, "annotations": [{"was_cancelled": True, "result": [region]}]},
        {"data": {"text": "a"}, "annotations": [{"result": [region]}]},
    ]
    path = tmp_path / "in.json"
    path.write_text(json.dumps(tasks))
    _, counts, _ = convert(tmp_path, path)
    assert counts.skipped_spans == 2
    assert counts.ignored_spans == 1


def test_missing_tags(tmp_path):
    tokens = ["[CLS]", "Ada", "Love", "##lace", "left"]
    records = [
        {"tokens": tokens, "ner_tags": [-100, 1, 2, -100, 0]},
        {
            "text": "  ".join(tokens),
            "tokens": tokens,
            "ner_tags": [None, "B-PER", "I-PER", "_", "O"],
        },
        {"tokens": tokens, "tags": [-100] * 5},
    ]
    (ids, names, none), counts, problems = convert(tmp_path, records, labels=TAGS)
    assert (iob(ids), iob(none), problems) == ("-BI-O", "-----", [])
    assert [(t.text, t.ent_iob_) for t in names if not t.is_space] == list(
        zip(tokens, ["", "B", "I", "", "O"], strict=True)
    )
    assert (counts.entities, counts.spans) == (2, 2)


def test_what_to_json_writes(tmp_path):
    doc = spacy.blank("en")(ADA["text"])
    doc.ents = [doc.char_span(0, 12, "PER")]
    doc.spans["sc"] = [doc.char_span(0, 12, "PER"), doc.char_span(4, 12, "NAME")]
    (read,), _, problems = convert(tmp_path, [doc.to_json()])
    assert (spans(read), problems) == ([("Ada Lovelace", "PER")], [])
    (read,), _, _ = convert(tmp_path, [doc.to_json()], spans_key="sc")
    assert spans(read, "sc") == [("Ada Lovelace", "PER"), ("Lovelace", "NAME")]
    doc.ents = []
    _, _, (problem,) = convert(tmp_path, [doc.to_json(), ADA])
    assert "has the span groups sc; see `convert --spans-key`" in problem


PAIR = [ADA["text"], {"entities": [[0, 12, "PER"]]}]
GLINER = {"tokenized_text": ADA["text"].split(), "ner": [[0, 1, "PER"]]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([PAIR, PAIR]),
        f"{json.dumps(PAIR)}\n{json.dumps(PAIR)}\n",
        json.dumps({"classes": ["PER"], "annotations": [PAIR, None, PAIR]}),
        json.dumps([GLINER, GLINER]),
    ],
)
def test_lists_of_spacy_2_ner_annotator_and_gliner(tmp_path, text):
    docs, counts, problems = convert(tmp_path, text)
    assert [spans(doc) for doc in docs] == [[("Ada Lovelace", "PER")]] * 2 and not problems
    assert counts.records == 2 + text.count("null") == 2 + counts.ignored["null"]


def test_the_ground_truth_of_label_studio(tmp_path):
    def annotate(start, end, **more):
        value = {"start": start, "end": end, "labels": ["PER"]}
        return {"result": [{"type": "labels", "value": value}], **more}

    task = {"data": {"text": "Ada met Bob"}}
    task["annotations"] = [annotate(0, 3), annotate(8, 11, ground_truth=True)]
    (doc,), counts, _ = convert(tmp_path, [task])
    assert spans(doc) == [("Bob", "PER")] and counts.others["further annotations"] == 1
