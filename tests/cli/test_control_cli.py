"""The command `python -m spacy bcrf control`."""

import shutil

import pytest
import spacy
from commands import command
from sentences import make_docs, repeat
from spacy.cli.find_threshold import find_threshold
from spacy.tokens import Doc, DocBin

run = command("control")


@pytest.fixture
def folder(pipeline, here):
    shutil.copytree(pipeline, here, dirs_exist_ok=True)
    docs = repeat(make_docs(spacy.blank("xx").vocab), 20)
    DocBin(docs=docs).to_disk("many.spacy")
    return here


def test_precision_is_stored_in_place(folder):
    before = {p: p.read_bytes() for p in (folder / "model").rglob("*") if p.is_file()}
    result = run("model", "many.spacy", "-p", "ner", "--precision", "0.9", "--inplace")
    header, row, *_ = result.stdout.splitlines()
    assert header.endswith("  measured  predictions kept")
    assert row.split()[:6] == ["LOC,", "PERSON", "precision", "0.9", "0", "180"]
    nlp = spacy.load("model")
    control = nlp.get_pipe("ner").control
    assert (control.promise, control.labels) == ("precision", ("LOC", "PERSON"))
    assert len(nlp("Ann saw Rome .").ents) == 2
    after = {p: p.read_bytes() for p in (folder / "model").rglob("*") if p.is_file()}
    assert {path.name for path in after if after[path] != before.get(path)} == {"cfg"}


def test_a_controlled_pipeline_is_not_calibrated_again(folder):
    run("model", "many.spacy", "-p", "ner", "--precision", "0.9", "-o", "controlled")
    args = ("controlled", "many.spacy", "-p", "ner", "-o", "calibrated")
    result = command("calibrate")(*args, exit_code=1)
    assert "Calibrate a pipeline first, then run `control`" in result.stderr
    assert not (folder / "calibrated").exists()


def test_recall_of_labels_writes_candidates(folder):
    args = ("--recall", "0.8", "--label", "LOC=0.9", "--confidence", "0.9", "-o", "controlled")
    result = run("model", "many.spacy", *args)  # the tagger has no recall
    header, first, second, candidates, stored = result.stdout.splitlines()
    assert header.endswith("  measured  gold spans kept")
    assert first.split()[:3] == ["LOC", "recall", "0.9"]
    assert second.split()[:3] == ["PERSON", "recall", "0.8"]
    assert float(candidates.split()[0]) > 0 and stored == "stored in controlled"
    doc = spacy.load("controlled")("Ann saw Rome .")
    assert [span.text for span in doc.spans["candidates"]] == ["Ann", "Rome"]
    assert spacy.load("model").get_pipe("ner").control is None


def test_too_many_candidates_are_noted(folder, monkeypatch):
    args = "model", "many.spacy", "-p", "ner", "--recall", "0.8"
    assert "candidates for" not in run(*args, "-o", "few").stderr
    monkeypatch.setattr("spacy_bcrf.promises.control.MANY_CANDIDATES", 0)
    noted = run(*args, "-o", "many").stderr
    assert "gold spans: the component finds too few" in noted and "promise less" in noted


def test_precision_of_tags(folder):
    doc = Doc(spacy.blank("xx").vocab, words=["Ann", "saw", "Rome", "."], tags=["N", "V", "N", "P"])
    DocBin(docs=repeat([doc], 100)).to_disk("tags.spacy")
    run("model", "tags.spacy", "-p", "tagger", "--precision", "0.9", "-o", "controlled")
    assert spacy.load("controlled").get_pipe("tagger").control.labels == ("N", "P", "V")


def test_document_promises_of_a_group_of_labels(folder):
    args = (
        "--recall",
        "0.9",
        "--label",
        "LOC,PERSON=0.95",
        "--unit",
        "document",
        "-o",
        "controlled",
    )
    result = run("model", "many.spacy", "-p", "ner", *args)
    assert "\nLOC, PERSON  recall 0.95 a document  " in result.stdout
    assert "Note: The promise holds for new documents from the same source" in result.stderr
    control = spacy.load("controlled").get_pipe("ner").control
    assert (control.values, control.groups) == ((0.95, 0.95), (0, 0))
    assert (control.unit, control.max_units, control.confidence) == ("document", 1, 0.95)


def test_a_covered_promise_says_so_everywhere(folder):
    table = run("model", "many.spacy", "-p", "ner", "--covered").stdout
    assert "recall 0.5 (covered)" in table and "precision" not in table.split("\nAll hold")[0]
    args = ("--recall", "0.8", "--covered", "--confidence", "0.9", "-o", "safe")
    assert "recall 0.8 (covered)" in run("model", "many.spacy", "-p", "ner", *args).stdout
    assert spacy.load("safe").get_pipe("ner").control.covered
    options = ("--pipe", "ner", "-o", "r.html", "-o", "r.md", "-o", "r.json")
    assert (
        "recall 0.8 (covered) promised" in command("report")("safe", "dev.spacy", *options).stdout
    )
    for name in ("r.html", "r.md", "r.json"):
        assert "recall 0.8 (covered)" in (folder / name).read_text("utf8")


def test_without_a_promise_a_table_is_printed(folder):
    result = run("model", "many.spacy", "-p", "ner", "--plot", "promises.png")
    header, *rows = [line.split() for line in result.stdout.splitlines()[:17]]
    assert header == ["promise", "threshold", "measured", "recall", "spans", "a", "document"]
    assert len(rows) == 16 and rows[0][:2] == ["precision", "0.5"] and rows[-1][2] == "none"
    assert "drawn in promises.png" in result.stdout
    assert (folder / "promises.png").read_bytes().startswith(b"\x89PNG")
    assert "with confidence 0.95, each with 0.996875. " in result.stdout
    assert result.step == (
        "the same command with a promise of the table, --confidence 0.996875, --output FOLDER"
    )
    result = run("model", "many.spacy", "-p", "ner", "--plot", "many.spacy", exit_code=1)
    assert "would replace the input" in result.output


def test_the_documents_of_the_calibration_are_refused(folder):
    docs = make_docs(spacy.blank("xx").vocab, wrong=3)
    DocBin(docs=repeat(docs, 20)).to_disk("calibration.spacy")
    calibrate = command("calibrate")
    calibrate("model", "calibration.spacy", "-p", "ner", "-o", "calibrated")
    result = run("calibrated", "calibration.spacy", "-p", "ner", exit_code=1)
    assert "have 100% of the documents that the temperature was fitted on" in result.output


def test_find_threshold_of_spacy(folder):
    best, score, scores = find_threshold(
        "model", folder / "dev.spacy", "ner", "threshold", "ents_f", n_trials=3
    )
    assert best < 1 and score > 0.5 and scores[1.0] == 0


P = ("--precision", "0.95")


def test_errors_of_options_do_not_name_the_corpus(folder):
    for options in (
        ("--label", "X=0.9"),
        ("--confidence", "0"),
        ("--max-units", "2", "--unit", "document"),
        ("--covered",),
    ):
        args = ("model", "many.spacy", "-p", "ner", *P, *options, "-o", "controlled")
        assert "many.spacy" not in run(*args, exit_code=1).stderr


@pytest.mark.parametrize(
    "args, message",
    [
        (("many.spacy",), "expected either --recall or --precision"),
        (("many.spacy", *P, "--recall", "0.9"), "expected either --recall or --precision"),
        (("many.spacy", *P, "--covered"), "covered is for promises of recall, got one of preci"),
        (
            ("many.spacy", "--recall", "0.9", "--covered", "--label", "LOC=0.8"),
            "covered promises all labels together",
        ),
        (("many.spacy", "--recall", "1.5"), "the promise must be between 0 and 1"),
        (("many.spacy", *P, "--confidence", "0"), "confidence must be between 0 and 1"),
        (("many.spacy", *P, "--label", "LOC"), "--label LOC: expected LABELS=NUMBER"),
        (("many.spacy", *P, "--unit", "document", "--max-units", "2"), "2 contradicts the unit"),
        (("many.spacy", *P, "--label", "LOC=0.9", "--label", "LOC,PERSON=0.8"), "LOC: has several"),
        (
            ("many.spacy", *P, "--label", "X=0.9"),
            "unknown labels X; the component has LOC, PERSON",
        ),
        (("dev.spacy", *P), "9 documents have predictions of these labels, too few"),
        (("one.spacy", "--recall", "0.9"), "1 document has gold spans of these labels, too few"),
        (("wrong.spacy", *P), "no threshold reaches it on these 100 documents. As far"),
        (("labels.spacy", *P), "the gold documents have the labels FOOD, but the component has"),
        (("none.spacy", "--recall", "0.9"), "the 1 gold documents have no gold spans"),
        (("none.spacy", *P), "the 1 gold documents have no predictions with gold annotation"),
        (("many.spacy", "--recall", "0.9", "-p", "tagger"), "a promise of recall is one of spans"),
    ],
)
def test_wrong_input_stores_nothing(folder, args, message):
    words = ["Ann", "saw", "Rome", "."]
    corpora = {
        "one": (["B-PERSON", "O", "B-LOC", "O"], 1),
        "wrong": (["B-LOC", "O", "B-PERSON", "O"], 100),
        "labels": (["B-FOOD", "O", "O", "O"], 1),
        "none": (None, 1),
    }
    for name, (ents, n) in corpora.items():
        doc = Doc(spacy.blank("xx").vocab, words=words, ents=ents)
        DocBin(docs=repeat([doc], n)).to_disk(f"{name}.spacy")
    component = () if "-p" in args else ("-p", "ner")
    before = (folder / "model/config.cfg").read_bytes()
    for target in (("--inplace",), ("-o", "out")):
        result = run("model", *args, *component, *target, exit_code=1)
        assert message in result.output
        assert (folder / "model/config.cfg").read_bytes() == before
        assert not (folder / "out").exists()
