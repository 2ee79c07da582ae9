"""The command `python -m spacy bcrf verify`."""

import json

import spacy
from commands import command
from spacy.tokens import DocBin, Span


def tagged(nlp):
    doc = nlp.make_doc("she saw")
    doc[0].tag_, doc[1].tag_ = "A", "B"
    return [spacy.training.Example(nlp.make_doc(doc.text), doc)]


def test_it_writes_a_line_for_each_span(here):
    nlp = spacy.blank("en")
    docs = [nlp(f"she saw Ann {i}") for i in range(90)]
    for doc in docs:
        doc.set_ents([Span(doc, 2, 3, "X")])
    nlp.add_pipe("bcrf_ner")
    examples = [spacy.training.Example(nlp.make_doc(doc.text), doc) for doc in docs[:30]]
    nlp.initialize(lambda: examples)
    nlp.update(examples)
    # A component without spans is no choice.
    nlp.add_pipe("bcrf_tagger", first=True).initialize(lambda: tagged(nlp), nlp=nlp)
    nlp.to_disk("model")
    ann = {"text": "Ann", "label": "X", "start": 8, "end": 11}
    records = [{"text": doc.text, "spans": [ann]} for doc in docs[30:]]
    (here / "spans.jsonl").write_text("\n".join(map(json.dumps, records)))
    DocBin(docs=docs[30:80]).to_disk("gold.spacy")
    args = "spans.jsonl", "model", "-o", "out.jsonl", "--gold", "gold.spacy", "--precision", "0.5"
    result = command("verify")(*args)
    lines = [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]
    assert len(lines) == 10
    assert 0 < lines[0]["probability"] < 1 and "precision 0.5 promised" in result.stdout
    # Other labels, as those of a prompt.
    other = [{"text": "she saw Ann 7", "spans": [{**ann, "label": k} for k in ("NAME", "DAY")]}]
    (here / "other.jsonl").write_text(json.dumps(other[0]))
    result = command("verify")("other.jsonl", "model", "-o", "o.jsonl", exit_code=1)
    assert "no label 'NAME'; expected one of X, or a map from it (--labels)" in result.stderr
    result = command("verify")("other.jsonl", "model", "-o", "o.jsonl", "--labels", "NAME=X,DAY=O")
    (line,) = (here / "o.jsonl").read_text().splitlines()
    assert json.loads(line)["label"] == "X" and "drops 1 span\n" in result.stdout + result.stderr
    # Once, the error did not name the file.
    for text in ("", '{"text": "a", "spans": []}'):
        (here / "empty.jsonl").write_text(text)
        result = command("verify")("empty.jsonl", "model", "-o", "none.jsonl", exit_code=1)
        assert "empty.jsonl: there are no spans to verify" in result.stderr
        assert not (here / "none.jsonl").exists()
