"""The command `python -m spacy bcrf calibrate`."""

import shutil
import sys
from pathlib import Path

import pytest
import spacy
from commands import command
from sentences import repeat
from spacy.tokens import Doc, DocBin

run = command("calibrate")
PNG = b"\x89PNG"


@pytest.fixture
def folder(pipeline, here):
    shutil.copytree(pipeline, here, dirs_exist_ok=True)
    return here


def test_calibrate_stores_the_temperature_with_the_pipeline(folder):
    before = {p: p.read_bytes() for p in (folder / "model").rglob("*") if p.is_file()}
    result = run("model", "dev.spacy", "-p", "ner", "--inplace")
    first, header, raw, fitted, *_ = result.stdout.splitlines()
    assert header.endswith("  expected calibration error")
    assert first == "ner: 18 predictions, 66.67% right"
    assert "18 predictions are few to fit a temperature, which may be far off" in result.stderr
    assert raw.startswith("before, temperature 1.00") and raw.split()[-1].startswith("0.3")
    assert float(fitted.split()[-1]) < 0.15
    nlp = spacy.load("model")
    temperature = nlp.get_pipe("ner").temperature
    assert fitted.startswith(f"after, temperature {temperature:.2f} ") and temperature > 2
    assert f"the new temperature is {temperature:.2f} times that of the pipeline" in result.stderr
    assert nlp.get_pipe("tagger").temperature == 1
    after = {p: p.read_bytes() for p in (folder / "model").rglob("*") if p.is_file()}
    changed = {path.name for path in after if after[path] != before.get(path)}
    assert changed == {"cfg"}


def test_confidences_after_calibration(folder):
    text = "Ann saw Rome ."
    config = {"components": {"ner": {"annotate": ["confidence"]}}}
    assert spacy.load("model", config=config)(text).ents[0]._.confidence > 0.9
    run("model", "dev.spacy", "-p", "ner", "-o", "calibrated", "--plot", "x.png")
    assert (folder / "x.png").read_bytes().startswith(PNG)
    assert spacy.load("model").get_pipe("ner").temperature == 1
    (ent, _) = spacy.load("calibrated")(text).ents  # `calibrate` turns confidences on
    assert ent._.confidence == pytest.approx(2 / 3, abs=0.1)
    again = run("calibrated", "dev.spacy", "-p", "ner", "--inplace")
    temperatures = {line.split()[2] for line in again.stdout.splitlines()[2:4]}
    assert len(temperatures) == 1


@pytest.mark.parametrize(
    "name, options",
    [("calibrate", ("-o", "new")), ("report", ("-o", "page.html"))],
)
def test_documents_of_the_training_corpus_are_a_note(folder, name, options):
    config, run = folder / "model/config.cfg", command(name)
    arguments = "model", "dev.spacy", "--pipe", "ner", *options
    set_train = 'train = "{}"'.format
    config.write_text(config.read_text().replace("train = null", set_train("gone.spacy"), 1))
    assert " are in " not in run(*arguments).output
    shutil.rmtree(folder / "new", ignore_errors=True)
    text = config.read_text().replace(set_train("gone.spacy"), set_train("dev.spacy"))
    config.write_text(text)
    output = " ".join(run(*arguments).output.split())
    assert "9 of 9 documents of dev.spacy are in dev.spacy too" in output


def test_labels_that_the_component_lacks_are_named(folder):
    vocab = spacy.blank("xx").vocab
    docs = [*DocBin().from_disk("dev.spacy").get_docs(vocab)]
    docs.append(Doc(vocab, words=["Soup"], ents=["B-FOOD"]))
    DocBin(docs=docs).to_disk("more.spacy")
    result = run("model", "more.spacy", "-p", "ner", "-o", "calibrated")
    note = "Note: ner of model does not have the labels FOOD: all their gold spans are errors."
    assert note in result.stderr.splitlines()


def test_calibration_by_label(folder):
    """With few predictions, all labels share one map."""
    options = ("-p", "ner", "-o", "calibrated")
    result = run("model", "dev.spacy", "--by", "label", *options)
    *_, by_label, _stored = result.stdout.splitlines()
    assert by_label.startswith("by label, temperature ")
    pipe = spacy.load("calibrated").get_pipe("ner")
    assert pipe.calibration.by == "label" and pipe.temperature > 2
    assert not pipe.calibration.groups
    again = run("calibrated", "dev.spacy", "-p", "ner", "--inplace")
    assert again.stdout.splitlines()[2].split()[-1] == by_label.split()[-1]
    assert spacy.load("calibrated").get_pipe("ner").calibration is None


def test_calibration_of_a_tagger(folder):
    doc = Doc(spacy.blank("xx").vocab, words=["Ann", "saw", "it"], tags=["N", "", "V"])
    DocBin(docs=repeat([doc], 5)).to_disk("tags.spacy")
    result = run("model", "tags.spacy", "-p", "tagger", "-o", "calibrated")
    assert result.stdout.startswith("tagger: 10 predictions, ")


def test_preset_entities_count_as_predictions(folder):
    nlp = spacy.load("model")
    ruler = nlp.add_pipe("entity_ruler", before="ner")
    ruler.add_patterns([{"label": "LOC", "pattern": "saw"}])
    nlp.to_disk("ruled")
    result = run("ruled", "dev.spacy", "-p", "ner", "--inplace")
    assert result.stdout.startswith("ner: 27 predictions, 44.44% right")


@pytest.mark.parametrize(
    "args, message",
    [
        (("model", "dev.spacy", "-p", "ner"), "expected either --output, a folder to save"),
        (
            ("model", "dev.spacy", "-p", "ner", "--inplace", "-o", "x"),
            "expected either --output, a folder to save the pipeline to, or --inplace",
        ),
        (
            ("model", "dev.spacy", "--inplace"),
            "pipe is missing; expected pipe to be one of tagger, ner",
        ),
        (("model", "dev.spacy", "-p", "lemma", "--inplace"), "no component 'lemma' of spacy-bcrf"),
        (
            ("model", "dev.spacy", "-p", "tagger", "--by", "length", "--inplace"),
            "[tagger] calibration by length needs spans, but the component predicts",
        ),
        (("model", "nope.spacy", "-p", "ner", "--inplace"), "nope.spacy: found no such file"),
        (
            ("model", "model/config.cfg", "-p", "ner", "--inplace"),
            "config.cfg: expected a .spacy file",
        ),
        (
            ("model", "dev.spacy", "-p", "ner", "-o", "dev.spacy"),
            "dev.spacy: expected a new or empty folder",
        ),
        (("no_model", "dev.spacy", "--inplace"), "no_model: the pipeline cannot be loaded"),
        (
            ("model", "empty.spacy", "-p", "ner", "--inplace"),
            "[ner] no prediction has gold annotation to compare with in 1 documents",
        ),
        (
            ("model", "damaged.spacy", "-p", "ner", "--inplace"),
            "damaged.spacy: cannot be read as a .spacy file: it is empty",
        ),
        (
            ("model", "labels.spacy", "-p", "ner", "--inplace"),
            "[ner] the gold documents have the labels FOOD, but the component has LOC, PERSON: no",
        ),
        (
            ("model", "wrong.spacy", "-p", "ner", "--inplace"),
            "[ner] none of its 2 predictions is correct",
        ),
        (
            ("model", "right.spacy", "-p", "ner", "--inplace"),
            "[ner] all of its 2 predictions are correct: use more gold documents",
        ),
        (
            # A uniform distribution over three tags is still too confident.
            ("model", "tags.spacy", "-p", "tagger", "--inplace"),
            "[tagger] no temperature fits: the loss is smallest at the bound 1000. 1 of 8",
        ),
    ],
)
def test_wrong_input_changes_nothing(folder, args, message):
    words = ["Ann", "saw", "Rome", "."]
    corpora = {
        "empty": None,
        "labels": ["B-FOOD", "O", "O", "O"],
        "wrong": ["B-LOC", "O", "B-PERSON", "O"],
        "right": ["B-PERSON", "O", "B-LOC", "O"],
    }
    for name, ents in corpora.items():
        doc = Doc(spacy.blank("xx").vocab, words=words, ents=ents)
        DocBin(docs=[doc]).to_disk(f"{name}.spacy")
    tags = (["V", "N", "P", "N"], ["N", "N", "P", "N"])
    vocab = spacy.blank("xx").vocab
    first, second = (Doc(vocab, words=words, tags=of_doc) for of_doc in tags)
    docs = [first, *repeat([second], 1)]  # no copies
    DocBin(docs=docs).to_disk("tags.spacy")
    Path("damaged.spacy").touch()
    before = (folder / "model/config.cfg").read_bytes()
    result = run(*args, exit_code=1)
    assert message in result.output
    assert (folder / "model/config.cfg").read_bytes() == before
    assert not list(folder.rglob("*.png"))


def test_missing_matplotlib_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    options = "-p", "ner", "--inplace", "--plot", "new.png"
    result = run("model", "dev.spacy", *options, exit_code=1)
    assert "pip install 'matplotlib'" in result.output


@pytest.mark.parametrize("plot", ["dev.spacy", "model"])
def test_a_diagram_replaces_no_input_and_fails_before_the_fit(folder, plot):
    before = Path("dev.spacy").read_bytes()
    options = "-p", "ner", "-o", "calibrated", "--plot", plot
    result = run("model", "dev.spacy", *options, exit_code=1)
    assert "would replace" in result.output or "a folder" in result.output
    assert Path("dev.spacy").read_bytes() == before and not Path("calibrated").exists()


def test_predictions_on_tokens_that_gold_lacks_are_a_note(folder):
    vocab = spacy.load("model").vocab
    words, spaces = ["An", "n", "saw", "Rome", "."], [False, *[True] * 4]
    ents = ["O", "B-PER", "O"]
    docs = [
        Doc(vocab, words=[*words, "\n" * i], spaces=[*spaces, False], ents=[*ents, tag, "O", "O"])
        for i, tag in enumerate(["B-LOC"] * 8 + ["O"], 1)
    ]
    DocBin(docs=docs).to_disk(folder / "other.spacy")
    output = " ".join(run("model", "other.spacy", "-p", "ner", "-o", "new").output.split())
    note = "9 predictions of ner are left out: gold has no annotation or other tokens there, or is "
    assert f"{note}open" in output
