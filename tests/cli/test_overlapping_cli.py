"""Every command on a pipeline of `bcrf_spans`, as a user types them."""

import json
import random
import re
from pathlib import Path

import pytest
import spacy
from commands import command
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy_commands import run_spacy

PLACES = ("Oslo", "Bergen", "Paris", "Rome")
VERBS = ("grows", "sleeps", "sings", "opens")


def make_docs(vocab, n, seed=0):
    """Return documents whose places are parts of organizations, or stand alone, or are names."""
    rng, docs = random.Random(seed), []
    for _ in range(n):
        place, verb = rng.choice(PLACES), rng.choice(VERBS)
        kind = rng.randrange(3)
        if kind == 0:
            words, spans = ["University", "of", place, verb], [(0, 3, "ORG"), (2, 3, "LOC")]
        elif kind == 1:
            words, spans = ["in", place, "it", verb], [(1, 2, "LOC")]
        else:
            words, spans = ["Ms", place, verb], []
        if rng.random() < 0.1:
            spans = spans[1:]
        doc = Doc(vocab, words=words)
        doc.spans["sc"] = [Span(doc, *span) for span in spans]
        docs.append(doc)
    return docs


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a trained pipeline and corpora."""
    path = tmp_path_factory.mktemp("overlapping")
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_spans")
    docs = make_docs(nlp.vocab, 300)
    examples = [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in docs]
    nlp.initialize(lambda: examples)
    for _ in range(3):
        nlp.update(examples)
    nlp.to_disk(path / "model")
    for name, found in (("train", docs), ("dev", make_docs(nlp.vocab, 200, seed=1))):
        DocBin(docs=found).to_disk(path / f"{name}.spacy")
    lines = [json.dumps({"text": " ".join(t.text for t in doc)}) for doc in docs[:20]]
    (path / "texts.jsonl").write_text("\n".join(lines))
    return path


def run(folder, name, *arguments):
    """Run a command whose paths start with the folder at DIR. Return its output."""
    return command(name)(*(str(x).replace("DIR", str(folder)) for x in arguments)).output


def test_annotate_writes_overlapping_spans_with_probabilities(folder):
    options = "-o", "DIR/annotated", "--alternatives", 2
    run(folder, "annotate", "DIR/model", "DIR/texts.jsonl", *options)
    files = sorted((folder / "annotated" / "shards").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    rows = [row for row in rows if "spans" in row]
    overlapping = [row for row in rows if len(row["spans"]) == 2]
    assert overlapping
    for row in overlapping:
        first, second = row["spans"]
        assert {first["label"], second["label"]} == {"LOC", "ORG"}
        assert 0.5 < first["probability"] <= 1 and 0.5 < second["probability"] <= 1
        assert len(row["alternatives"]) == 2


def test_report_calibrate_and_control(folder):
    run(folder, "report", "DIR/model", "DIR/dev.spacy", "--output", "DIR/report.html")
    page = (folder / "report.html").read_text()
    assert "<h2>Overlapping" in page and ">nested</th>" in page and ">crossing</th>" not in page
    run(folder, "calibrate", "DIR/model", "DIR/dev.spacy", "--output", "DIR/calibrated")
    nlp = spacy.load(folder / "calibrated")
    doc = nlp("University of Oslo grows")
    scores = doc.spans["sc"].attrs["scores"]
    assert ((scores > 0) & (scores <= 1)).all()
    promise = "--precision", 0.6, "-o", "DIR/controlled"
    assert "LOC" in run(folder, "control", "DIR/model", "DIR/dev.spacy", *promise)


def test_audit_names_removed_places(folder):
    run(folder, "audit", "DIR/dev.spacy", "DIR/model", "--output", "DIR/audit.jsonl")
    rows = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert rows


def test_rank_explain_debug_and_review(folder):
    run(folder, "rank", "DIR/model", "DIR/texts.jsonl", "--output", "DIR/ranked.jsonl")
    output = run(folder, "explain", "DIR/model", "--corpus", "DIR/train.spacy")
    assert "U-LOC" in output and "B-ORG" in output
    run(folder, "explain", "DIR/model", "--text", "University of Oslo", "--output", "DIR/x.html")
    page = (folder / "x.html").read_text()
    assert "U-LOC" in page and "O-ORG" in page
    tasks = "--format", "label-studio", "-o", "DIR/t.json"
    run(folder, "rank", "DIR/model", "DIR/texts.jsonl", *tasks)
    assert "University of" in (folder / "t.json").read_text()
    run(folder, "review", "DIR/model", "DIR/texts.jsonl", "--output", "DIR/review.html")
    page = (folder / "review.html").read_text()
    assert re.search(r'"overlap": ?true', page)


def test_combine_distill_and_extend(folder):
    run(folder, "combine", "DIR/model", "DIR/model", "--dev", "DIR/dev.spacy", "-o", "DIR/sum")
    run(folder, "distill", "DIR/model", "DIR/texts.jsonl", "--output", "DIR/student")
    for name in ("sum", "student"):
        doc = spacy.load(folder / name)("University of Oslo grows")
        assert len(doc.spans["sc"]) == 2


def test_extend_adds_chains_and_keeps_the_old_ones(folder):
    """A verb gets two layers of a new label. Old labels are not annotated."""
    nlp = spacy.load(folder / "model")
    docs = make_docs(nlp.vocab, 100, seed=2)
    for doc in docs:
        n = len(doc)
        doc.spans["sc"] = [Span(doc, n - 1, n, "VERB"), Span(doc, n - 2, n, "VERB")]
    DocBin(docs=docs).to_disk(folder / "verbs.spacy")
    arguments = ["extend", "DIR/model", "DIR/verbs.spacy", "--labels", "VERB"]
    output = run(folder, *arguments, "--output", "DIR/more")
    assert "learned VERB from 100 documents" in output
    more = spacy.load(folder / "more")
    assert more.get_pipe("bcrf_spans").codec.n_chains == 4
    for doc in docs:
        n = len(doc)
        before, after = (
            {(s.start, s.end, s.label_) for s in annotated.spans["sc"]}
            for annotated in (nlp(doc.text), more(doc.text))
        )
        assert after == before | {(n - 1, n, "VERB"), (n - 2, n, "VERB")}


def test_tune_tries_no_second_order(folder):
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_spans")
    nlp.config.to_disk(folder / "tuned.cfg")
    paths = ("--paths.train", "DIR/train.spacy", "--paths.dev", "DIR/dev.spacy")
    run(folder, "tune", "DIR/tuned.cfg", "-o", "DIR/best.cfg", "-n", "6", *paths)
    files = folder.glob("best.cfg.trials/*[!h].json")
    trials = [json.loads(file.read_text()) for file in files]
    assert {trial["settings"].get("order", 1) for trial in trials} == {1}
    assert not any(trial["problem"] for trial in trials)


@pytest.mark.slow
def test_a_config_trains_and_evaluates_from_spacys_command_line(folder):
    config = folder / "config.cfg"
    run_spacy("init", "config", str(config), "--lang", "en", "--pipeline", "bcrf_spans")
    paths = [f"--paths.{part}={folder / f'{part}.spacy'}" for part in ("train", "dev")]
    output = run(folder, "debug", "DIR/config.cfg", *paths)
    assert "[components.bcrf_spans]" in output and "overlap an earlier span" in output
    steps = ["--training.max_epochs=2", "--training.eval_frequency=10"]
    run_spacy("train", str(config), "--output", str(folder / "trained"), *paths, *steps)
    best = folder / "trained" / "model-best"
    output = run_spacy(
        "evaluate", str(best), str(folder / "dev.spacy"), "--output", f"{folder}/s.json"
    )
    scores = json.loads((folder / "s.json").read_text())
    assert scores["spans_sc_f"] > 0.8 and set(scores["spans_sc_per_type"]) == {"LOC", "ORG"}


def test_debug_names_spans_that_no_layer_holds(folder):
    nlp = spacy.blank("en")
    docs = make_docs(nlp.vocab, 20)
    (doc, *_) = docs
    doc.spans["sc"] = [*doc.spans["sc"], Span(doc, 0, 3, "LOC"), Span(doc, 0, 2, "LOC")]
    DocBin(docs=docs).to_disk(folder / "deep.spacy")
    config = folder / "deep.cfg"
    nlp.add_pipe("bcrf_spans", config={"layers": 1})
    nlp.config.to_disk(config)
    paths = [f"--paths.{part}={folder}/deep.spacy" for part in ("train", "dev")]
    output = run(folder, "debug", "DIR/deep.cfg", *paths)
    assert "are in no layer. Training leaves them out. The first:" in output
    assert "is in layer 2, but the label has 1" in output


def test_an_exclusive_label_without_spans_is_named():
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_spans", config={"exclusive": [["LOC", "CITY"]]})
    docs = make_docs(nlp.vocab, 20)
    with pytest.raises(ValueError, match=r"exclusive has the label CITY, but the labels are .*LOC"):
        nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc) for doc in docs])
