"""The command `python -m spacy bcrf rank`."""

import gzip
import json
import re
from pathlib import Path

import pytest
import spacy
from commands import command
from spacy.tokens import DocBin

from bcrf.io.text import MAX_LINE
from spacy_bcrf.corpora.text_docs import Texts

run, convert = command("rank"), command("convert")
TEXTS = ["Ann saw Rome .", " ", "Why on earth not ?", "Bob saw Oslo .", "Ann saw Rome ."]


@pytest.fixture
def folder(here):
    lines = [json.dumps({"text": text, "id": i}) for i, text in enumerate(TEXTS)]
    (here / "texts.jsonl").write_text("\n".join(lines) + "\n\n")
    return here


def test_ranks_by_entropy_per_token(pipeline, folder):
    result = run(pipeline / "model", "texts.jsonl", "--pipe", "ner")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert "5 documents ranked by entropy per token, 5 written" in result.stderr
    assert sorted(record["id"] for record in records) == [0, 1, 2, 3, 4]
    assert records[0]["text"] == "Why on earth not ?"
    config = {"components": {"ner": {"annotate": ["entropy"]}}}
    nlp = spacy.load(pipeline / "model", config=config)
    for record in records:
        assert record["text"] == TEXTS[record["id"]]
        expected = nlp(record["text"])._.entropy_per_token
        assert record["uncertainty"] == pytest.approx(expected, abs=1e-5)
    uncertainty = [record["uncertainty"] for record in records]
    assert uncertainty == sorted(uncertainty, reverse=True)
    same = [record["id"] for record in records if record["text"] == TEXTS[0]]
    assert same == [0, 4]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("by, per", [("confidence", "token"), ("margin", "entity")])
def test_other_measures(pipeline, folder, by, per):
    options = ("--by", by, "--per", per, "-o", "out.jsonl")
    result = run(pipeline / "model", "texts.jsonl", "-p", "ner", *options)
    assert f"ranked by {by} per {per}" in result.stderr
    nlp = spacy.load(pipeline / "model")
    records = read(folder / "out.jsonl")
    assert len(records) == len(TEXTS)
    for record in records:
        doc = nlp.make_doc(record["text"])
        (expected,) = nlp.get_pipe("ner").uncertainty([doc], by, per=per)
        assert record["uncertainty"] == pytest.approx(expected, abs=1e-5)


def test_predictions_have_scores_and_alternatives(pipeline, folder):
    run(pipeline / "model", "texts.jsonl", "-p", "ner", "-o", "out.jsonl")
    nlp = spacy.load(
        pipeline / "model", config={"components": {"ner": {"annotate": ["confidence"]}}}
    )
    found = []
    for record in read(folder / "out.jsonl"):
        ents = nlp(record["text"]).ents
        spans = [(e.start_char, e.end_char, e.start, e.end, e.label_) for e in ents]
        predicted = record["predictions"]
        assert [tuple(span.values())[:5] for span in predicted] == spans
        scores = [ent._.confidence for ent in ents]
        assert [span["score"] for span in predicted] == pytest.approx(scores, abs=1e-4)
        (candidates,) = nlp.get_pipe("ner").entity_candidates([nlp.make_doc(record["text"])], 0.01)
        p = {(c.span.start, c.span.end, c.span.label_): c.probability for c in candidates}
        for span in record["alternatives"]:
            key = span["token_start"], span["token_end"], span["label"]
            assert span["score"] == pytest.approx(p.pop(key), abs=1e-4)
            assert record["text"][span["start"] : span["end"]]
        found += record["alternatives"]
    assert found


def test_tags_have_scores_and_alternatives(pipeline, folder):
    run(pipeline / "model", "texts.jsonl", "-p", "tagger", "-o", "out.jsonl")
    nlp = spacy.load(pipeline / "model")
    tagger = nlp.get_pipe("tagger")
    n_alternatives = 0
    for record in read(folder / "out.jsonl"):
        doc = nlp.make_doc(record["text"])
        (marginals,) = tagger.token_marginals([doc])
        assert [span["label"] for span in record["predictions"]] == [t.tag_ for t in nlp(doc)]
        best = {(i, span["label"]) for i, span in enumerate(record["predictions"])}
        for span in record["predictions"] + record["alternatives"]:
            assert span["token_end"] == span["token_start"] + 1
            p = marginals[span["token_start"], tagger.tags.index(span["label"])]
            assert span["score"] == pytest.approx(p, abs=1e-3)
        others = {(span["token_start"], span["label"]) for span in record["alternatives"]}
        assert best.isdisjoint(others) and all(s["score"] > 0.009 for s in record["alternatives"])
        n_alternatives += len(others)
    assert n_alternatives


SIMILAR = ["Ann saw Rome on 3 May .", "ANN saw Rome, on 4 May", "Bob left Kiel ."]


def test_near_duplicates_are_left_out_and_counted(pipeline, folder):
    (folder / "similar.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in SIMILAR))
    options = ("-p", "ner", "--max-similarity", 0.8, "-o", "out.jsonl")
    result = run(pipeline / "model", "similar.jsonl", *options)
    assert "3 documents ranked by entropy per token, 2 written; left out 1 near" in result.stderr
    texts = [record["text"] for record in read(folder / "out.jsonl")]
    assert len(texts) == 2 and "Bob left Kiel ." in texts


def test_diverse_documents(pipeline, folder):
    texts = ["Ann saw Rome ."] * 6 + ["Why on earth not ?"] * 2
    (folder / "many.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    run(pipeline / "model", "many.jsonl", "-p", "ner", "-n", 2, "--diverse", "-o", "out.jsonl")
    assert {record["text"] for record in read(folder / "out.jsonl")} == set(texts)
    run(pipeline / "model", "many.jsonl", "-p", "ner", "-n", 2, "-o", "out.jsonl")
    assert len({record["text"] for record in read(folder / "out.jsonl")}) == 1
    result = run(pipeline / "model", "many.jsonl", "-p", "ner", "--diverse", exit_code=1)
    assert "a diverse choice needs --n from 1 to 4,096; got 0" in result.output


def spans_of(doc):
    return doc.text, [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents]


def test_prodigy_round_trip(pipeline, folder):
    """Accepted tasks convert to the documents that the pipeline predicts."""
    options = ("-p", "ner", "--format", "prodigy", "-o", "tasks.jsonl")
    (folder / "texts.jsonl").write_text('{"text": "Ann  saw Kiel .", "meta": {"id": 7}}\n')
    run(pipeline / "model", "texts.jsonl", *options)
    nlp = spacy.load(pipeline / "model")
    (task,) = read(folder / "tasks.jsonl")
    assert task["meta"] == {"id": 7, "uncertainty": pytest.approx(task["meta"]["uncertainty"])}
    doc = nlp(task["text"])
    for token, described in zip(doc, task["tokens"], strict=True):
        assert described == {
            "text": token.text,
            "start": token.idx,
            "end": token.idx + len(token),
            "id": token.i,
            "ws": bool(token.whitespace_),
        }
    keys = ("start", "end", "token_start", "token_end", "label")
    assert [tuple(span[key] for key in keys) for span in task["spans"]] == [
        (ent.start_char, ent.end_char, ent.start, ent.end - 1, ent.label_) for ent in doc.ents
    ]
    assert all(0 < span["score"] <= 1 for span in task["spans"])
    answered = {**task, "answer": "accept", "_view_id": "ner_manual"}
    (folder / "answers.jsonl").write_text(json.dumps(answered))
    convert("answers.jsonl", "out.spacy")
    (converted,) = DocBin().from_disk("out.spacy").get_docs(nlp.vocab)
    assert spans_of(converted) == spans_of(doc) and len(doc.ents) == 2


def test_label_studio_round_trip(pipeline, folder):
    """Tasks whose predictions became annotations convert to what the pipeline predicts."""
    options = ("-p", "ner", "--format", "label-studio", "-o", "tasks.json")
    result = run(pipeline / "model", "texts.jsonl", *options)
    assert 'toName="text"><Label value="LOC"/><Label value="PERSON"/></Labels>' in result.stderr
    tasks = json.loads((folder / "tasks.json").read_text())
    assert sorted(task["data"]["id"] for task in tasks) == [0, 1, 2, 3, 4]
    nlp = spacy.load(pipeline / "model")
    exported = []
    for i, task in enumerate(tasks):
        best, *others = task["predictions"]
        assert best["model_version"] == "ner"
        assert [other["model_version"] for other in others] in ([], ["ner alternatives"])
        for region in best["result"]:
            value = region["value"]
            assert (region["from_name"], region["to_name"]) == ("label", "text")
            assert region["type"] == "labels" and region["score"] == value["score"]
            assert task["data"]["text"][value["start"] : value["end"]] == value["text"]
        annotation = {"id": i, "was_cancelled": False, "result": best["result"]}
        exported.append({"id": i, **task, "annotations": [annotation]})
    (folder / "export.json").write_text(json.dumps(exported))
    convert("export.json", "out.spacy")
    docs = list(DocBin().from_disk("out.spacy").get_docs(nlp.vocab))
    assert [spans_of(doc) for doc in docs] == [spans_of(nlp(doc.text)) for doc in docs]
    assert len(docs) == 5


def test_no_documents_for_label_studio(pipeline, folder):
    (folder / "texts.jsonl").write_text("\n")
    run(pipeline / "model", "texts.jsonl", "-p", "ner", "-f", "label-studio", "-o", "tasks.json")
    assert json.loads((folder / "tasks.json").read_text()) == []


def test_tags_are_no_tasks_of_annotation_tools(pipeline, folder):
    options = ("-p", "tagger", "--format", "prodigy", "-o", "tasks.jsonl")
    result = run(pipeline / "model", "texts.jsonl", *options, exit_code=1)
    message = "tagger predicts no spans; expected a component bcrf_ner, bcrf_spans or bcrf_chunker"
    assert message in " ".join(result.output.split())
    assert not (folder / "tasks.jsonl").exists()


def test_n_limits_the_output(pipeline, folder):
    run(pipeline / "model", "texts.jsonl", "-p", "tagger", "-n", 2, "-o", "out.jsonl")
    assert len((folder / "out.jsonl").read_text().splitlines()) == 2


BAD = {
    "{": "no JSON: Expecting property name enclosed in double quotes at column 2",
    '{"txt": "x"}': 'no "text"',
    '["text"]': 'expected an object, got ["text"]',
    "[" * 100_000: "no JSON that can be read: nested too deep",
    '{"text": "x", "score": 1e400}': "1e400 is not a finite number",
    '{"text": "x", "text": "y"}': 'an object has 2 values of "text"; expected one',
    " " * (2 * MAX_LINE + 3) + '{"text": "x"}': "more than 16,777,216 characters",
    r'{"text": "\ud800 x"}': '"text" has half a surrogate pair at character 0',
    json.dumps({"text": "a " * 600_000}): "[E088] Text of length 1200000 exceeds",
}


@pytest.mark.parametrize("line", BAD, ids=lambda line: line[:30])
def test_bad_lines_are_errors_unless_skipped(tmp_path, line):
    path = tmp_path / "texts.jsonl"
    path.write_text(f'{{"text": "a"}}\n\n{line}\n{line}\n{{"text": "b"}}\n')
    with pytest.raises(ValueError) as caught:
        list(Texts(path, spacy.blank("xx"), False))
    assert str(caught.value).startswith(f"{path}:3: {BAD[line]}")
    reader = Texts(path, spacy.blank("xx"), True)
    assert [doc.text for doc in reader] == ["a", "b"]
    assert reader[1].text == "b" and reader.fields(0) == {"text": "a"}
    assert [problem.split(": ")[0] for problem in reader.problems] == [f"{path}:3", f"{path}:4"]
    assert reader.problems[0].startswith(f"{path}:3: {BAD[line]}")


def test_skip_bad(pipeline, folder):
    path = folder / "texts.jsonl"
    path.write_text(f"{path.read_text()}{{\n")
    args = (pipeline / "model", "texts.jsonl", "-p", "ner", "-o", "out.jsonl")
    stopped = run(*args, exit_code=1)
    assert "texts.jsonl:7: no JSON: " in stopped.output
    assert not list(folder.glob("*out.jsonl*"))
    skipped = run(*args, "--skip-bad")
    assert "skipped 1 bad text, the first: texts.jsonl:7: no JSON: " in skipped.output
    assert len((folder / "out.jsonl").read_text().splitlines()) == len(TEXTS)


def write_texts(path):
    """Write TEXTS without the blank one in the format of the extension."""
    texts = [text for text in TEXTS if text.strip()]
    if path.suffix == ".spacy":
        nlp = spacy.blank("xx")
        DocBin(docs=[nlp.make_doc(text) for text in texts]).to_disk(path)
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"text": texts, "note": list("abcd")}), path)
    elif path.suffix == ".csv":
        path.write_text("note,text\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress("\n".join(texts).encode()))
    else:
        path.write_text("\n".join(texts) + "\n")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.csv", "a.spacy", "a.parquet"])
def test_all_formats_of_annotate_are_ranked(pipeline, here, name):
    write_texts(here / name)
    run(pipeline / "model", name, "-p", "ner", "-o", "out.jsonl")
    (here / "folder").mkdir()
    (here / name).rename(here / "folder" / name)
    (here / "folder/b.jsonl").write_text('{"text": "Why on earth not ?", "id": 7}\n')
    run(pipeline / "model", "folder", "-p", "ner", "-o", "both.jsonl")
    records, both = read(here / "out.jsonl"), read(here / "both.jsonl")
    assert sorted(r["text"] for r in records) == sorted(text for text in TEXTS if text.strip())
    assert records[0]["text"] == "Why on earth not ?" and len(both) == 5
    assert [r.get("id") for r in both if r["text"] == records[0]["text"]] == [None, 7]
    assert all(("note" in r) == (name in ("a.csv", "a.parquet")) for r in records)


def test_unreadable_inputs_are_named(here):
    (here / "folder").mkdir()
    (here / "texts.doc").touch()
    for name, message in [
        ("nope.jsonl", "nope.jsonl: there is no such file or folder"),
        ("folder", "folder: the folder has no file with one of .txt, .jsonl"),
        ("texts.doc", "texts.doc: unknown extension '.doc'; expected one of .txt, .jsonl"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            list(Texts(Path(name), spacy.blank("xx"), True))


def test_earlier_components_annotate_first(pipeline, folder):
    nlp = spacy.load(pipeline / "model")
    ruler = nlp.add_pipe("entity_ruler", before="ner")
    ruler.add_patterns([{"label": "LOC", "pattern": "earth"}])
    nlp.to_disk(folder / "ruled")
    run(folder / "ruled", "texts.jsonl", "-p", "ner", "-o", "out.jsonl")
    nlp.get_pipe("ner").annotate = ["entropy"]
    for line in (folder / "out.jsonl").read_text().splitlines():
        record = json.loads(line)
        expected = nlp(record["text"])._.entropy_per_token
        assert record["uncertainty"] == pytest.approx(expected, abs=1e-5)


def test_a_disabled_component(pipeline, folder):
    nlp = spacy.load(pipeline / "model")
    nlp.disable_pipe("ner")
    nlp.to_disk(folder / "disabled")
    result = run(folder / "disabled", "texts.jsonl", "-p", "ner", exit_code=1)
    assert "disabled: ner is disabled; remove it from disabled in [nlp]" in result.output


def test_half_a_surrogate_pair_in_meta_data_is_kept(pipeline, here):
    line = r'{"text": "x", "note": "\udfff"}'
    (here / "texts.jsonl").write_text(f"{line}\n")
    run(pipeline / "model", "texts.jsonl", "-p", "ner", "-o", "out.jsonl")
    assert read(here / "out.jsonl")[0]["note"] == json.loads(line)["note"]
