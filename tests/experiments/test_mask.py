"""`python -m experiments.partial.mask` makes partial annotation from full annotation."""

import pytest
import spacy
from spacy.tokens import Doc

from experiments.partial.mask import main
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.readers.doc_files import read_docs, write_all

set_extensions()
VOCAB = spacy.blank("xx").vocab
WORDS = ["Ann", "saw", "Rome"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function that runs the command beside the corpus full.spacy and returns its output."""
    monkeypatch.chdir(tmp_path)
    write_all([Doc(VOCAB, words=WORDS, ents=["B-PER", "O", "B-LOC"])] * 20, tmp_path / "full.spacy")

    def run(*arguments):
        main(list(map(str, arguments)))
        return capsys.readouterr().out

    return run


def fail(run, *arguments):
    """Return what the command says as it fails."""
    with pytest.raises(SystemExit) as raised:
        run(*arguments)
    assert raised.value.code
    return str(raised.value.code)


def test_by_label(run, tmp_path):
    assert run("full.spacy", "masked", "--by-label").splitlines() == [
        "masked/LOC.spacy: 10 docs, 10 of 20 entities",
        "masked/PER.spacy: 10 docs, 10 of 20 entities",
    ]
    for doc in read_docs(tmp_path / "masked/PER.spacy", VOCAB):
        assert list(doc._.annotated_labels) == ["PER"] and doc.ents[0].label_ == "PER"


def test_drop_and_forget_are_seeded(run, tmp_path):
    outputs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        output = run("full.spacy", f"{name}.spacy", "--drop", "0.5", "--seed", seed)
        assert "20 docs, " in output and " of 40 entities, 0 of 60 tokens" in output
        docs = read_docs(tmp_path / f"{name}.spacy", VOCAB)
        outputs.append([[ent.text for ent in doc.ents] for doc in docs])
    assert outputs[0] == outputs[1] != outputs[2]
    output = run("full.spacy", "d.spacy", "--forget", "1")
    assert "20 docs, 0 of 40 entities, 60 of 60 tokens missing" in output


@pytest.mark.parametrize(
    "args, message",
    [
        (("nope.spacy", "x.spacy", "--drop", "0.5"), "nope.spacy: found no such file"),
        (("full.spacy", "x.txt", "--drop", "0.5"), "x.txt: expected a file with the suffix .spacy"),
        (("full.spacy", "full.spacy", "--drop", "0.5"), "would replace the input"),
        (("holes.spacy", "x.spacy", "--drop", "0.5"), "document 0, 'Ann saw Rome ', has missing"),
    ],
)
def test_wrong_input_is_an_error_without_output(run, tmp_path, args, message):
    write_all([Doc(VOCAB, words=WORDS, ents=["B-PER", "", "O"])], tmp_path / "holes.spacy")
    assert message in fail(run, *args)
    assert not list(tmp_path.glob("*x.*"))


def test_by_label_needs_a_new_folder_and_writes_it_atomically(run, tmp_path):
    run("full.spacy", "masked", "--by-label")
    assert "masked: expected a new or empty folder" in fail(
        run, "full.spacy", "masked", "--by-label"
    )
    write_all([Doc(VOCAB, words=WORDS, ents=["B-PER", "O", "B-LOC/C"])], tmp_path / "slash.spacy")
    message = fail(run, "slash.spacy", "other", "--by-label")
    assert "label 'LOC/C' cannot be the name of a file" in message
    assert {path.name for path in tmp_path.iterdir()} == {"full.spacy", "slash.spacy", "masked"}


@pytest.mark.parametrize(
    "args, message",
    [
        ((), "one of the arguments --by-label --drop --forget is required"),
        (("--forget", "0.5", "--others", "missing"), "--others is only for --drop"),
        (("--drop", "1.5"), "1.5 is not from 0 to 1"),
    ],
)
def test_wrong_options_are_errors_without_output(run, tmp_path, capsys, args, message):
    with pytest.raises(SystemExit) as raised:
        run("full.spacy", "x.spacy", *args)
    assert raised.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "x.spacy").exists()
