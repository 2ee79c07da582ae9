"""The command `python -m spacy bcrf distill`."""

import json
import shutil

import numpy as np
import pytest
import spacy
from commands import command
from sentences import WORDS, make_docs
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import network, train

from spacy_bcrf.layers.linear_chain import sparse_chain

run = command("distill")
TEXTS = [f"{a} saw {b} ." for a in WORDS["PERSON"] for b in WORDS["LOC"]]
PASSES = ("--passes", 10)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A neural recognizer with a temperature, a tagger, and texts."""
    folder = tmp_path_factory.mktemp("distill")
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_tagger", "tagger", config={"model": network("CRF")})
    nlp.add_pipe("bcrf_ner", "ner", config={"model": network("CRF")})
    docs = make_docs(nlp.vocab, tags="NVNP")
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], 10)
    nlp.get_pipe("ner").temperature = 3.0
    nlp.to_disk(folder / "teacher")
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    return folder


@pytest.fixture
def folder(trained, here):
    shutil.copytree(trained, here, dirs_exist_ok=True)
    return here


def probabilities(nlp):
    return np.concatenate(nlp.get_pipe("ner").token_marginals([nlp.make_doc(t) for t in TEXTS]))


def test_the_student_is_sparse_and_has_the_teachers_probabilities(folder):
    run("teacher", "texts.txt", "-p", "ner", "-o", "out", "--passes", 30)
    nlp = spacy.load("out")
    assert nlp.pipe_names == ["ner"]
    assert sparse_chain(nlp.get_pipe("ner").model) is not None
    assert [(e.text, e.label_) for e in nlp(TEXTS[0]).ents] == [("Ann", "PERSON"), ("Rome", "LOC")]
    assert nlp.get_pipe("ner").temperature == 1
    expected = probabilities(spacy.load("teacher"))
    # The temperature makes the teacher uncertain.
    assert (expected.max(axis=1) < 0.99).any()
    np.testing.assert_allclose(probabilities(nlp), expected, atol=0.05)
    assert not list(folder.glob(".out*"))


def test_a_tagger_as_the_teacher(folder):
    run("teacher", "texts.txt", "-p", "tagger", "-o", "out", *PASSES)
    assert [token.tag_ for token in spacy.load("out")(TEXTS[0])] == ["N", "V", "N", "P"]


def test_a_killed_run_goes_on(folder):
    options = ("teacher", "texts.txt", "-p", "ner", *PASSES, "--shard", 2)
    run(*options, "-o", "once", "--work", "shards")
    names = sorted(path.name for path in (folder / "shards").iterdir())
    assert names == [
        *(f"{i:06d}.{end}" for i in range(5) for end in ("npz", "spacy")),
        "manifest.json",
    ]
    manifest = json.loads((folder / "shards/manifest.json").read_text())
    assert manifest["component"] == "ner"
    # As after a kill in the middle of the fourth shard.
    for path in (folder / "shards").glob("00000[34].npz"):
        path.unlink()
    old = {path: path.stat().st_mtime_ns for path in (folder / "shards").glob("00000[012]*")}
    result = run(*options, "-o", "again", "--work", "shards")
    assert "shards: 3 of 5 shards are labeled already" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in old} == old
    once, again = (probabilities(spacy.load(path)) for path in ("once", "again"))
    np.testing.assert_array_equal(once, again)
    (folder / "shards/000001.npz").write_bytes(b"")
    result = run(*options, "-o", "other", "--work", "shards", exit_code=1)
    assert "000001.spacy or .npz is damaged" in "".join(result.stderr.splitlines())
    (folder / "texts.txt").write_text("Ann left .")
    result = run(*options, "-o", "other", "--work", "shards", exit_code=1)
    assert "shards: was started differently: texts was" in " ".join(result.stderr.split())
    assert not (folder / "other").exists()


def write_records(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def spans(person, place):
    return [
        {"start": 0, "end": 3, "label": person},
        {"start": 8, "end": 12, "label": place},
    ]


def test_annotators_are_weighted_by_their_reliability(folder):
    right, wrong = spans("PERSON", "LOC"), spans("LOC", "PERSON")
    write_records(
        folder / "crowd.jsonl",
        [
            {
                "text": text,
                "annotations": [
                    {"annotator": "ann", "spans": right},
                    {"annotator": "bob", "spans": right if i % 3 else wrong[:1]},
                    {"annotator": "eve", "spans": right if i % 4 else wrong},
                    *([{"annotator": "new", "spans": []}] if i > 6 else []),
                ],
            }
            for i, text in enumerate(TEXTS)
        ],
    )
    result = run("crowd.jsonl", "-o", "out", *PASSES)
    stored, *lines = result.stdout.splitlines()
    assert stored == "stored in out"
    assert lines[0].split() == ["source", "label", "spans", "precision", "recall"]
    precisions = {tuple(line.split()[:2]): float(line.split()[3]) for line in lines[1:7]}
    assert precisions["ann", "LOC"] > 0.9 > precisions["eve", "LOC"]
    assert not any(line.startswith("new") for line in lines)
    nlp = spacy.load("out")
    for text in TEXTS:
        assert [ent.label_ for ent in nlp(text).ents] == ["PERSON", "LOC"]


def test_weighted_candidates_of_one_source(folder):
    records = [
        {
            "tokens": text.split(),
            "spans": [
                {"start": 0, "end": 1, "label": "PERSON", "weight": 0.7},
                {"start": 0, "end": 1, "label": ["LOC", "ORG"], "weight": 0.2},
            ],
        }
        for text in TEXTS
    ]
    write_records(folder / "llm.jsonl", records)
    run("llm.jsonl", "-o", "out", "--passes", 40)
    nlp = spacy.load("out")
    pipe = nlp.get_pipe("ner")
    doc = Doc(nlp.vocab, words=TEXTS[0].split())
    (marginals,) = pipe.token_marginals([doc])
    found = {tag: p for tag, p in zip(pipe.tags, marginals[0].tolist(), strict=True) if p > 0.05}
    expected = {"O": 0.1, "U-PERSON": 0.7, "U-LOC": 0.1, "U-ORG": 0.1}
    assert found == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    "record, message",
    [
        ({"text": "Ann", "spans": []}, "none of the 1 records has an entity"),
        ({"text": "Ann"}, 'crowd.jsonl:1: no "annotations" and no "spans"'),
        (
            {"text": "Ann", "annotations": [{"spans": []}]},
            'each of "annotations" needs an "annotator", a string',
        ),
        (
            {"text": "Ann", "annotations": [{"annotator": "a", "spans": []}] * 2},
            "the annotator 'a' has two entries",
        ),
        (
            {"text": "Ann", "spans": [{"start": 0, "end": 2, "label": "X"}]},
            "cuts tokens of 'Ann'; expected 0:3",
        ),
        (
            {"text": "Ann", "spans": [{"start": 0, "end": 3, "label": "X", "weight": 2}]},
            '"weight" must be above 0 and at most 1, got 2',
        ),
        (
            {"text": "Ann", "spans": [{"start": 0, "end": 3, "label": x} for x in "XY"]},
            "crowd.jsonl:1: overlapping spans exclude each other, but their weights sum to 2",
        ),
    ],
)
def test_bad_records(folder, record, message):
    write_records(folder / "crowd.jsonl", [record])
    result = run("crowd.jsonl", "-o", "out", exit_code=1)
    assert message in " ".join(result.stderr.split())
    assert not (folder / "out").exists()


def test_bad_arguments(folder):
    cases = [
        (["teacher", "texts.txt"], "expected --output"),
        (["teacher", "-o", "out"], "expected texts for the pipeline teacher to label"),
        (["teachers", "-o", "out"], "teachers: there is no such file or folder"),
        (["crowd.jsonl", "texts.txt", "-o", "out"], "expected a pipeline to label texts.txt"),
        (["teacher", "texts.txt", "-o", "out"], "pipe is missing"),
        (["teacher", "texts.txt", "-o", "teacher", "-p", "ner"], "new or empty folder"),
        (["teacher", "empty.txt", "-o", "out", "-p", "ner"], "empty.txt: there are no texts"),
    ]
    (folder / "empty.txt").write_text("")
    for arguments, message in cases:
        result = run(*arguments, exit_code=1)
        assert message in " ".join(result.stderr.split())
        assert not (folder / "out").exists() and not list(folder.glob(".out*"))


def test_the_student_of_a_sparse_chain_has_its_features_without_the_scores(folder):
    record = {"text": TEXTS[0], "spans": [{"start": 0, "end": 3, "label": "PERSON"}]}
    (folder / "spans.jsonl").write_text(json.dumps(record))
    (folder / "clusters.tsv").write_text("Ann\t00\nRome\t11\n")
    model = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": ["w[0]", "cluster.brown(1)[0]", "score.s[0]"],
        "clusters": {"brown": "clusters.tsv"},
        "scores": [{"name": "s", "@misc": "spacy-bcrf.SpanScores.v1", "path": "spans.jsonl"}],
    }
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in make_docs(nlp.vocab)], 10)
    nlp.to_disk(folder / "sparse")
    run("sparse", "texts.txt", "-o", "out", *PASSES)
    student = sparse_chain(spacy.load("out").get_pipe("ner").model)
    assert student.features.texts == ["w[0]", "cluster.brown(1)[0]"]
    assert not student.taggers
