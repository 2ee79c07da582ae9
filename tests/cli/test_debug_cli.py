"""The command `python -m spacy bcrf debug`."""

import json
import weakref

import pytest
import spacy
from commands import command
from spacy.tokens import Doc, DocBin, Span

run = command("debug")
WORDS = ["Ann", "saw", "New", "York", "\n"]


@pytest.fixture
def folder(here):
    """A folder with a config and its two corpora."""
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_ner", name="ner")
    nlp.add_pipe("bcrf_chunker", name="chunker")
    nlp.config.to_disk("config.cfg")

    def doc(ents, **options):
        return Doc(nlp.vocab, words=WORDS, ents=ents, **options)

    complete = ["B-PER", "O", "B-LOC", "I-LOC", "O"]
    train = [
        doc(complete),
        doc(["B-PER", None, None, None, None]),
        doc(None),
        doc(["O", "O", "O", "B-LOC", "I-LOC"]),
        doc(complete),
    ]
    train[4]._.annotated_labels = ["PER"]
    train[4].ents = train[4].ents[:1]
    overlap = [Span(train[0], 0, 2, label="NP"), Span(train[0], 1, 4, label="NP")]
    train[0].spans["chunks"] = overlap
    train[1].spans["chunks"] = [Span(train[1], 0, 1, label="NP")]
    train[1].spans["incorrect_spans"] = [Span(train[1], 2, 4, label="LOC")]
    dev = [doc(["B-PER", "O", "B-ORG", "I-ORG", "O"])]
    for name, docs in (("train", train), ("dev", dev)):
        DocBin(docs=docs, store_user_data=True).to_disk(f"{name}.spacy")
    return here


PATHS = ("--paths.train", "train.spacy", "--paths.dev", "dev.spacy")


def test_counts_add_up(folder):
    result = run("config.cfg", "--json", *PATHS)
    reports = json.loads(result.stdout)
    train, dev = reports["ner"]["train"], reports["ner"]["dev"]
    docs = {name: train[name] for name in ("complete", "partial", "unannotated", "infeasible")}
    assert docs == {"complete": 2, "partial": 2, "unannotated": 1, "infeasible": 0}
    assert train["docs"] == sum(docs.values())
    tokens = {name: train[name] for name in ("annotated", "ambiguous", "missing")}
    # The tokens after PER are O or LOC in the document of one annotated label.
    assert tokens == {"annotated": 12, "ambiguous": 4, "missing": 9}
    assert train["tokens"] == sum(tokens.values())
    assert train["labels"] == {"LOC": 2, "PER": 3}
    assert train["lengths"] == {"1": 3, "2": 2}
    assert (train["whitespace"], train["overlapping"]) == (1, 0)
    (named,) = train["named"]["whitespace"]
    assert named.startswith("document 3, 'Ann saw New York") and "LOC" in named
    assert dev["labels"] == {"ORG": 1, "PER": 1}
    assert (dev["infeasible"], dev["complete"]) == (1, 0)
    assert "unknown labels ORG" in dev["named"]["infeasible"][0]
    chunks = reports["chunker"]["train"]
    assert (chunks["docs"], chunks["complete"], chunks["unannotated"]) == (5, 1, 3)
    assert (chunks["infeasible"], chunks["overlapping"]) == (1, 1)
    assert "overlaps another span" in chunks["named"]["infeasible"][0]


def test_tables_and_warnings(folder):
    result = run("config.cfg", *PATHS)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["[components.ner]"] in lines and ["[components.chunker]"] in lines
    assert ["train", "5", "2", "2", "1", "0"] in lines
    assert ["PER", "3", "1"] in lines
    assert ["ORG", "0", "1"] in lines
    assert "Warning: labels that only dev has: ORG" in result.stdout
    assert "train: spans of 1 to 2; half of them up to 1, 95% up to 2" in result.stdout
    assert "Warning: train: 1 spans start or end on whitespace" in result.stdout
    assert "- document 3, 'Ann saw New York" in result.stdout
    assert "Warning: train: 1 documents have forbidden annotation" in result.stdout


def test_tags_and_words_are_counted(here):
    nlp = spacy.blank("en")
    nlp.tokenizer = spacy.registry.tokenizers.get("spacy-bcrf.CharTokenizer.v1")()(nlp)
    nlp.add_pipe("bcrf_segmenter", name="segmenter")
    nlp.config["nlp"]["tokenizer"] = {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}
    nlp.config.to_disk("config.cfg")
    docs = [Doc(nlp.vocab, words=["Ann", "left"], spaces=[False, False], tags=["N", "V"])]
    for name in ("train", "dev"):
        DocBin(docs=docs).to_disk(f"{name}.spacy")
    result = run("config.cfg", "--json", *PATHS)
    train = json.loads(result.stdout)["segmenter"]["train"]
    assert (train["complete"], train["labels"]) == (1, {"N": 1, "V": 1})
    assert train["lengths"] == {"3": 1, "4": 1}
    spacy.blank("en").config.to_disk("none.cfg")
    tagger = spacy.blank("en")
    tagger.add_pipe("bcrf_tagger")
    tagger.config.to_disk("tagger.cfg")
    result = run("tagger.cfg", "--json", *PATHS)
    train = json.loads(result.stdout)["bcrf_tagger"]["train"]
    assert (train["labels"], train["lengths"]) == ({"N": 1, "V": 1}, {})
    # Without tags, there is nothing to learn.
    pos = "--components.bcrf_tagger.attribute", "pos"
    result = run("tagger.cfg", *PATHS, *pos, exit_code=1)
    assert (
        "tagger.cfg: [corpora.train] path = train.spacy: no document has token.pos" in result.output
    )
    result = run("none.cfg", *PATHS, exit_code=1)
    assert "none.cfg: no component of spacy-bcrf among" in result.output


@pytest.mark.parametrize(
    "options, message",
    [
        ((), "config.cfg: [corpora.train]: "),
        (
            ("--paths.train", "train.spacy", "--paths.dev", "no.spacy"),
            "config.cfg: [corpora.dev] path = no.spacy: ",
        ),
        (
            (*PATHS, "--components.ner.scheme", "IOB1"),
            "must be one of BIO, BILUO, BIES, got 'IOB1'",
        ),
        ((*PATHS, "--components.ner.nonsense", "1"), "nonsense"),
    ],
)
def test_errors_name_the_section_of_the_config(folder, options, message):
    assert message in run("config.cfg", *options, exit_code=1).output


def test_documents_of_train_in_dev_are_a_warning(folder):
    result = run("config.cfg", "--paths.train", "train.spacy", "--paths.dev", "train.spacy")
    assert "Warning: 5 of 5 documents of dev are in train too" in result.output


def test_other_files_are_errors(folder):
    (folder / "data.cfg").write_bytes(b"\xff")
    (folder / "data.jsonl").write_text("{}")
    expected = "expected a training config (.cfg) or .spacy files, which `convert` writes\n"
    for name, message in {
        "data.cfg": "is not UTF-8 text; expected a training config (.cfg)",
        "data.jsonl": expected,
        "no.jsonl": f"found no such file; {expected}",
        "no.cfg": f"found no such file; {expected}",
    }.items():
        assert run(name, exit_code=1).output.startswith(f"{name}: {message}")


@pytest.mark.parametrize(
    "text, problem",
    [
        ("# Title\n\nSome text.\n", "is no training config (.cfg): line 3 is no section and no"),
        ("[nlp]\nlang\n", "is no training config (.cfg): line 2 is no section and no setting"),
        ("[a]\nb = 1\n", "is no training config (.cfg): it has no block [nlp]"),
        ('[nlp]\nlang = "en"\npipeline = ner\n', "pipeline: Input should be a valid list"),
    ],
)
def test_what_is_no_config_is_said_in_a_line(tmp_path, text, problem):
    (tmp_path / "a.cfg").write_text(text)
    result = run(tmp_path / "a.cfg", exit_code=1)
    assert result.output.startswith(f"{tmp_path / 'a.cfg'}: {problem}")
    assert len(result.output) < len(str(tmp_path)) + 90


def test_a_corpus_is_read_a_batch_at_a_time(tmp_path, monkeypatch):
    """All documents of all files were in memory."""
    alive, most = weakref.WeakSet(), []

    def read(path, vocab):
        for i in range(400):
            doc = Doc(vocab, words=[f"Ann{i}"], ents=["B-PER"])
            alive.add(doc)
            most.append(len(alive))
            yield doc

    monkeypatch.setattr("spacy_bcrf.training.debug.read_docs", read)
    result = run("a.spacy", "b.spacy")
    assert "800 docs" in result.output
    assert "400 of 400 documents of b.spacy are in a.spacy too" in result.output
    assert max(most) < 300
