"""The command `python -m spacy bcrf review`."""

import json
import re
import shlex
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
import spacy
import srsly
from commands import command
from spacy.tokens import Doc, Span

from spacy_bcrf.corpora.text_docs import read_text_docs
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.privacy.redact import redact
from spacy_bcrf.readers.doc_files import read_docs, write_all
from spacy_bcrf.serve.review import fill_page, review
from spacy_bcrf.serve.suspects import read_annotation

run = command("review")
TEXTS = ["Ann saw Rome .", "👩‍👧 met  Bob 😀 in Oslo", "Why on earth not ?"]


@pytest.fixture
def folder(here):
    (here / "texts.txt").write_text("\n".join([*TEXTS, "", "  "]), encoding="utf8")
    return here


def read_data(page):
    """Return the data of a page."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(data)


@pytest.fixture(scope="module")
def data(pipeline, tmp_path_factory):
    """The data of a page about TEXTS."""
    folder = tmp_path_factory.mktemp("review")
    (folder / "texts.txt").write_text("\n".join(TEXTS), encoding="utf8")
    run(pipeline / "model", folder / "texts.txt", "--pipe", "ner", "-o", folder / "page.html")
    return read_data((folder / "page.html").read_text(encoding="utf8"))


@pytest.fixture(scope="module")
def nlp(pipeline):
    config = {"components": {"ner": {"annotate": ["confidence", "entropy"]}}}
    return spacy.load(pipeline / "model", config=config)


def test_predictions_and_their_probabilities(data, nlp):
    assert data["labels"] == list(nlp.get_pipe("ner").labels)
    assert [document["text"] for document in data["documents"]] == TEXTS
    n_predicted = 0
    for document in data["documents"]:
        doc = nlp(document["text"])
        words = zip(document["starts"], document["ends"], strict=True)
        assert [doc.text[start:end] for start, end in words] == [token.text for token in doc]
        predicted = (span for span in document["spans"] if span[4])
        found = {(start, end, data["labels"][label]): p for start, end, label, p, _ in predicted}
        assert set(found) == {(ent.start, ent.end, ent.label_) for ent in doc.ents}
        for ent in doc.ents:
            p = found[ent.start, ent.end, ent.label_]
            assert p == pytest.approx(ent._.confidence, abs=1e-4)
        assert document["entropy"] == pytest.approx(doc._.entropy_per_token, abs=1e-4)
        n_predicted += len(found)
    assert n_predicted >= 2


def test_candidates_are_suggestions_or_alternatives(data, nlp):
    ner, n_suggestions, n_alternatives = nlp.get_pipe("ner"), 0, 0
    for document in data["documents"]:
        (candidates,) = ner.entity_candidates([nlp.make_doc(document["text"])], threshold=0.01)
        expected = {(c.span.start, c.span.end, c.span.label_): c.probability for c in candidates}
        spans, others = document["spans"], document["alternatives"]
        for start, end, label, p, *_ in [*spans, *others]:
            key = (start, end, data["labels"][label])
            assert p == pytest.approx(expected[key], abs=1e-4)
        for (_, end, *_), (start, *_) in pairwise(spans):
            assert end <= start
        for start, end, *_ in others:
            assert any(start < span[1] and span[0] < end for span in spans)
        best = {(s, e, data["labels"][label]) for s, e, label, _, best in spans if best}
        errors = sum(1 - p if key in best else p for key, p in expected.items())
        assert document["errors"] == pytest.approx(errors, abs=1e-3)
        n_suggestions += len(spans) - len(best)
        n_alternatives += len(others)
    assert n_suggestions and n_alternatives


@pytest.mark.parametrize("n", [0, 1])
def test_max_alternatives(pipeline, folder, n):
    nlp = spacy.load(pipeline / "model")
    page, _ = review(nlp, Path("texts.txt"), "ner", max_alternatives=n)
    data = read_data(page)
    for document in data["documents"]:
        assert len(document["alternatives"]) <= n * len(document["spans"])


def test_sources_have_the_same_texts(folder):
    nlp = spacy.blank("xx")
    records = [{"text": text, "spans": "ignored"} for text in TEXTS]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, records)))
    docs = [nlp.make_doc(text) for text in TEXTS]
    docs[0].set_ents([docs[0][0:1]], default="outside")
    write_all(docs, folder / "texts.spacy")
    for name in ("texts.txt", "texts.jsonl", "texts.spacy"):
        found = list(read_text_docs(folder / name, nlp))
        assert [doc.text for doc in found] == TEXTS
        assert [len(doc) for doc in found] == [len(doc) for doc in docs]
        assert not any(doc.has_annotation("ENT_IOB") for doc in found)


def test_given_tokens_stay(folder):
    nlp = spacy.blank("xx")
    words = ["New York", "-", "based"]
    (folder / "texts.jsonl").write_text(json.dumps({"text": "New York-based", "tokens": words}))
    write_all([Doc(nlp.vocab, words, [False] * 3)], folder / "texts.spacy")
    for name in ("texts.jsonl", "texts.spacy"):
        (doc,) = read_text_docs(folder / name, nlp)
        assert [token.text for token in doc] == words


def test_a_page_for_another_model_or_other_texts_has_another_key(pipeline, folder, nlp):
    def key(model, texts):
        run(model, texts, "-p", "ner", "-o", "page.html")
        return read_data((folder / "page.html").read_text(encoding="utf8"))["key"]

    first = key(pipeline / "model", "texts.txt")
    assert key(pipeline / "model", "texts.txt") == first
    (folder / "other.txt").write_text(TEXTS[0])
    other = spacy.load(pipeline / "model")
    other.get_pipe("ner").temperature = 2
    other.to_disk(folder / "other")
    keys = {first, key(pipeline / "model", "other.txt"), key(folder / "other", "texts.txt")}
    assert len(keys) == 3


def test_a_text_of_brat_is_a_document(pipeline, folder):
    (folder / "brat").mkdir()
    (folder / "brat/a.txt").write_text("\n".join(TEXTS), encoding="utf8")
    (folder / "brat/a.ann").write_text("T1\tPER 0 3\tAnn\n")
    result = run(pipeline / "model", "brat", "-p", "ner", "-o", "page.html")
    assert "Note: brat: 1 text of brat without annotation" in result.stderr
    (document,) = read_data((folder / "page.html").read_text(encoding="utf8"))["documents"]
    assert document["text"] == "\n".join(TEXTS)


def test_no_text_or_label_becomes_markup():
    hostile = "</script><script>alert(1)</script><!--<b>&amp;${x}$x\u2028"
    document = {"text": hostile, "starts": [0], "ends": [len(hostile)]}
    page = fill_page({"labels": [hostile], "title": hostile, "documents": [document]})
    assert page.count("<script") == page.count("</script>") == 2
    assert "<b>" not in page and "<!--" not in page
    data = read_data(page)
    assert data["labels"][0] == data["title"] == data["documents"][0]["text"] == hostile


def test_a_page_loads_nothing():
    page = fill_page({})
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|\bsrc=|<link|@import|url\(|fetch\(|innerHTML", page)


def test_counts(pipeline, folder):
    (folder / "texts.jsonl").write_text('{"text": "Ann saw Rome ."}\n{"tokens": ["Ann"]}\n')
    write_all([Doc(spacy.blank("xx").vocab), spacy.blank("xx")(TEXTS[0])], folder / "texts.spacy")
    result = run(pipeline / "model", "texts.spacy", "-p", "ner", "-o", "page.html")
    assert re.fullmatch(
        r"page\.html: 1 doc, 2 predicted spans, \d+ suggestions; 1 empty doc left out\n",
        result.stdout,
    )


RECORDS = {
    '"a"': 'texts.jsonl:2: expected an object, got "a"',
    '{"txt": "a"}': 'texts.jsonl:2: no "text" and no "tokens"',
    '{"text": null}': 'texts.jsonl:2: no "text" (it is null) and no "tokens"',
    '{"text": 1}': 'texts.jsonl:2: "text" must be a string, got 1',
    r'{"text": "\ud800"}': 'texts.jsonl:2: "text" has half a surrogate pair at character 0',
    '{"text": "a", "tokens": ["b"]}': "texts.jsonl:2: ",
    "{": "texts.jsonl:2: no JSON: ",
}


@pytest.mark.parametrize("line", RECORDS)
def test_a_line_that_is_no_record(pipeline, folder, line):
    (folder / "texts.jsonl").write_text(f'{{"text": "a"}}\n{line}\n')
    result = run(pipeline / "model", "texts.jsonl", "-p", "ner", "-o", "page.html", exit_code=1)
    assert result.output.startswith(RECORDS[line])
    assert {path.name for path in folder.iterdir()} == {"texts.txt", "texts.jsonl"}


@pytest.mark.parametrize(
    "texts, output, pipe, message",
    [
        ("nope.txt", "page.html", "ner", "nope.txt: there is no such file or folder"),
        ("nope.spacy", "page.html", "ner", "nope.spacy: there is no such file or folder"),
        ("folder", "page.html", "ner", "folder: the folder has no file with one of .txt"),
        ("empty.txt", "page.html", "ner", "empty.txt: found no texts; expected some with at least"),
        ("texts.rtf", "page.html", "ner", "texts.rtf: there is no such file"),
        ("texts.txt", "folder", "ner", "folder: expected the name of a file to write, this is a"),
        ("texts.txt", "page.html", "tagger", "tagger predicts no spans; expected a component bcrf"),
        ("texts.txt", "page.html", "x", "no component 'x' of spacy-bcrf; expected pipe to be"),
    ],
)
def test_wrong_input_writes_nothing(pipeline, folder, texts, output, pipe, message):
    (folder / "folder").mkdir()
    (folder / "empty.txt").touch()
    before = set(folder.rglob("*"))
    result = run(pipeline / "model", texts, "-p", pipe, "-o", output, exit_code=1)
    assert message in result.output
    assert set(folder.rglob("*")) == before


def test_a_text_that_is_too_long_names_its_line(folder):
    (folder / "texts.txt").write_text("a\n" + "b " * 600_000)
    with pytest.raises(ValueError, match=r"texts\.txt:2: \[E088\]"):
        list(read_text_docs(folder / "texts.txt", spacy.blank("xx")))


def test_a_component_without_labels(folder):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner")
    nlp.to_disk(folder / "model")
    result = run("model", "texts.txt", "-o", "page.html", exit_code=1)
    assert "bcrf_ner has no labels; expected a trained component" in result.output
    assert not (folder / "page.html").exists()


@pytest.fixture
def corpus(folder, nlp):
    """Gold documents: one right, one with a wrong label, one without its entity."""
    ann = Doc(nlp.vocab, ["Ann", "saw", "Rome", "."], ents=["B-PERSON", "O", "B-LOC", "O"])
    wrong = Doc(nlp.vocab, ["Ann", "saw", "Rome", "."], ents=["B-LOC", "O", "B-LOC", "O"])
    none = Doc(nlp.vocab, ["Ann", "saw", "Rome", "."], ents=["O", "O", "O", "O"])
    write_all([ann, wrong, none], folder / "gold.spacy")
    return folder / "gold.spacy"


def test_the_annotation_of_a_corpus_takes_the_place_of_predictions(corpus, pipeline, folder, nlp):
    page = folder / "page.html"
    result = run(pipeline / "model", corpus, "-p", "ner", "--gold", "-o", page)
    assert "page.html: 3 docs, 4 gold spans, " in result.stdout
    data = read_data(page.read_text(encoding="utf8"))
    labels = nlp.get_pipe("ner").labels
    per, loc = labels.index("PERSON"), labels.index("LOC")
    gold = [[tuple(s[:3]) for s in doc["spans"] if s[4]] for doc in data["documents"]]
    assert gold == [[(0, 1, per), (2, 3, loc)], [(0, 1, loc), (2, 3, loc)], []]
    posterior = {(c.span.start, c.span.label_): c.probability for c in candidates(nlp)}
    for document in data["documents"]:
        for start, _, label, p, *_ in document["spans"]:
            assert p == pytest.approx(posterior.get((start, labels[label]), 0), abs=2e-2)


def candidates(nlp):
    doc = Doc(nlp.vocab, ["Ann", "saw", "Rome", "."])
    return nlp.get_pipe("ner").entity_candidates([doc], 0.01)[0]


def test_suspects_are_choices_between_gold_and_suggestion(corpus, pipeline, folder, nlp):
    page, suspects = folder / "page.html", folder / "audit.jsonl"
    per, loc = (nlp.get_pipe("ner").labels.index(label) for label in ("PERSON", "LOC"))
    text = "Ann saw Rome . "
    suggestion = {"start": 0, "end": 3, "label": "PERSON"}
    record = {"doc": 1, "text": text, "start": 0, "end": 3, "label": "LOC", "kind": "type"}
    record |= {"suggestion": suggestion, "p_gold": 0.1, "p_suggestion": 0.9, "score": 2.5}
    missing = {**record, "doc": 2, "label": None, "kind": "missing", "score": 1.0}
    suspects.write_text(f"{json.dumps(record)}\n{json.dumps(missing)}\n")
    arguments = (pipeline / "model", corpus, "-p", "ner", "--suspects", suspects, "-o", page)
    run(*arguments)
    first, second = read_data(page.read_text(encoding="utf8"))["documents"]
    statuses = {(start, label): status for start, _, label, _, _, status in first["spans"]}
    assert statuses == {(0, loc): "open", (0, per): "open", (2, loc): "accepted"}
    names = ["gold", "suggestion"]
    assert first["choices"] == [
        {"kind": "type", "names": names, "pair": [f"0:1:{loc}", f"0:1:{per}"]}
    ]
    assert second["choices"] == [{"kind": "missing", "names": names, "pair": [None, f"0:1:{per}"]}]
    assert (first["score"], second["score"]) == (2.5, 1.0) and first["closes"]
    for change, message in [
        ({"text": "other"}, "audit.jsonl:1: document 1 of the corpus has another text"),
        ({"doc": 7}, "audit.jsonl:1: the corpus has only 3 documents"),
        ({"doc": None}, "audit.jsonl:1: no suspect; expected a line that `audit` wrote"),
        ({"label": "NEW"}, "audit.jsonl:1: label 'NEW'; expected one of "),
        ({"label": "PERSON"}, "audit.jsonl:1: the corpus has no such annotation"),
        ({"end": 2}, "audit.jsonl:1: the suspect does not begin and end with tokens"),
    ]:
        suspects.write_text(json.dumps({**record, **change}) + "\n")
        assert message in run(*arguments, exit_code=1).output
    suspects.write_text("no JSON\n")
    assert "no suspect; expected a line that `audit` wrote" in run(*arguments, exit_code=1).output
    page.unlink()
    result = run(*arguments[:-1], suspects, exit_code=1)
    assert "would replace the input" in result.output and suspects.read_text() == "no JSON\n"
    suspects.write_text("")
    assert "audit.jsonl: has no suspects: `audit` found none" in run(*arguments, exit_code=1).output
    assert not page.exists()


@pytest.mark.parametrize("factory, key", [("bcrf_spans", "sc"), ("bcrf_chunker", "chunks")])
def test_annotation_of_span_groups_can_be_complete(folder, nlp, factory, key):
    labeler = spacy.blank("en").add_pipe(factory)
    labeler.add_label("LOC")
    docs = [Doc(nlp.vocab, ["Rome"]) for _ in range(2)]
    docs[0].spans[key] = [Span(docs[0], 0, 1, "LOC")]
    write_all(docs, folder / "groups.spacy")
    is_complete = []
    assert len(list(read_annotation(nlp, labeler, folder / "groups.spacy", is_complete))) == 2
    assert is_complete == [True, False]


def test_gold_needs_a_corpus_and_known_labels(pipeline, folder, nlp):
    page = folder / "page.html"
    texts = (pipeline / "model", folder / "texts.txt", "-p", "ner", "--gold", "-o", page)
    assert "expected a .spacy file" in run(*texts, exit_code=1).output
    doc = Doc(nlp.vocab, ["Ann"], ents=["B-NEW"])
    write_all([doc], folder / "new.spacy")
    new = (pipeline / "model", folder / "new.spacy", "-p", "ner", "--gold", "-o", page)
    result = run(*new, exit_code=1)
    assert "document 0 has the label 'NEW'" in result.output and not page.exists()


def test_the_next_step_joins_old_and_new_annotation(pipeline, folder):
    nlp = spacy.load(pipeline / "model")
    nlp.config["paths"].update(train="my train.spacy", dev="gone.spacy")
    nlp.to_disk("model")
    write_all(
        [Doc(nlp.vocab, words=["Ann"], tags=["N"], ents=["B-PER"])], folder / "my train.spacy"
    )
    step = run("model", "texts.txt", "--pipe", "ner", "-o", "page.html").step
    before, _, init = step.partition(" then python -m spacy bcrf init ")
    assert before == "open page.html in a browser;"
    parts = "--train", "my train.spacy", "--train", "SAVED.jsonl", "--dev", "DEV.spacy"
    pipes = "--pipe", "ner,tagger"  # all components of the model, so that scores compare
    assert shlex.split(init) == ["--output", "next/config.cfg", *parts, "--lang", "xx", *pipes]
    text = {"text": TEXTS[0], "spans": [{"start": 0, "end": 3, "label": "PER"}], "complete": True}
    (folder / "SAVED.jsonl").write_text(json.dumps(text))
    write_all([Doc(nlp.vocab, words=["Bo"], tags=["N"], ents=["B-PER"])], folder / "DEV.spacy")
    command("init")(*shlex.split(init))
    assert len(list(read_docs(folder / "next/train.spacy", nlp.vocab))) == 2


def test_the_next_step_does_not_train_on_the_dev_part(pipeline, folder):
    nlp = spacy.load(pipeline / "model")
    nlp.config["paths"]["dev"] = "dev.spacy"
    nlp.to_disk("model")
    write_all([Doc(nlp.vocab, words=["Ann"], ents=["B-PER"])], folder / "dev.spacy")
    step = run("model", folder / "dev.spacy", "--pipe", "ner", "-o", "page.html").step
    assert "--train SAVED.jsonl --dev DEV.spacy" in step
    step = run("model", "texts.txt", "--pipe", "ner", "-o", "page.html").step
    assert "--dev dev.spacy" in step


def test_what_redact_replaces_and_what_it_leaves(pipeline, folder, nlp):
    nlp = spacy.load(pipeline / "model")
    ner = nlp.get_pipe("ner")
    probabilities = [
        p for found in ner.entity_candidates(list(map(nlp.make_doc, TEXTS)), 0.01) for _, p in found
    ]
    threshold = 0.999 * max(probabilities)  # almost all candidates stay
    labels = tuple(ner.labels)
    ner.control = Control("recall", labels, (threshold,) * len(labels))
    nlp.to_disk(folder / "safe")
    (folder / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    run("safe", "texts.jsonl", "--pipe", "ner", "--redaction", "-o", "page.html")
    data = read_data((folder / "page.html").read_text(encoding="utf8"))
    docs = [nlp.make_doc(text) for text in TEXTS]
    redacted = list(redact(nlp, docs, "ner"))
    scores = []
    for document, one in zip(data["documents"], redacted, strict=True):
        starts, ends = document["starts"], document["ends"]
        spans = [
            (starts[a], ends[b - 1], labels[k], p)
            for a, b, k, p, is_in in document["spans"]
            if is_in
        ]
        assert [span[:3] for span in spans] == [region[:3] for region in one.regions]
        for span, region in zip(spans, one.regions, strict=True):
            assert span[3] == pytest.approx(region.score, abs=1e-4)
        left = [p for *_, p, is_in in document["spans"] if not is_in]
        assert all(p >= 0.01 for p in left)
        scores.append(document["score"])
        assert document["score"] == max(left, default=0)
    assert max(scores) > 0 and sum(len(one.regions) for one in redacted)
    wrong = run("safe", "texts.txt", "--redaction", "--gold", "-o", "x.html", exit_code=1)
    assert "--redaction is about predictions" in wrong.stderr
    args = (pipeline / "model", "texts.txt", "--pipe", "ner", "--redaction", "-o", "x.html")
    none = "[ner] has no promise of recall: run `control` with --recall and --covered\n"
    assert run(*args, exit_code=1).stderr == none
    (folder / "a.csv").write_text("body\nAnn\n")
    wrong = run(pipeline / "model", "a.csv", "-p", "ner", "-o", "x.html", exit_code=1)
    assert wrong.stderr == "a.csv: no column 'text' among body; expected one\n"


def test_the_page_has_what_redact_finds_by_earlier_components_and_a_promise(pipeline, folder):
    """The whole file is one text, as for `redact`."""
    pytest.importorskip("phonenumbers", reason="needs the extra identifiers")
    nlp = spacy.load(pipeline / "model")
    nlp.add_pipe("bcrf_identifiers", before="ner")
    ner = nlp.get_pipe("ner")
    ner.control = Control("recall", tuple(ner.labels), (1.0,) * len(ner.labels))
    promise = asdict(replace(ner.control, thresholds=(0.5,) * len(ner.labels)))
    nlp.meta["promises"] = {"ner": {"mails": srsly.json_loads(srsly.json_dumps(promise))}}
    nlp.to_disk(folder / "safe")
    text = "Ann saw Rome .\n\nx@example.org\n"
    (folder / "mail.txt").write_text(text)
    numbers = []
    for name in None, "mails":
        chosen = () if name is None else ("--promise", name)
        run("safe", "mail.txt", "-p", "ner", "--redaction", *chosen, "-o", "page.html")
        data = read_data((folder / "page.html").read_text(encoding="utf8"))
        (document,) = data["documents"]
        (one,) = redact(nlp, [nlp.make_doc(text)], "ner", promise=name)
        spans = [span for span in document["spans"] if span[4]]
        found = [(document["starts"][a], data["labels"][k]) for a, _, k, *_ in spans]
        assert found == [(region.start, region.label) for region in one.regions]
        assert (spans[-1][3], found[-1]) == (1, (16, "EMAIL_ADDRESS"))
        numbers.append((len(found), round(document["errors"])))
    assert numbers == [(1, 2), (3, 0)]
    wrong = run("safe", "mail.txt", "-p", "ner", "--promise", "x", "-o", "p.html", exit_code=1)
    assert wrong.stderr == "--promise needs --redaction\n"
