"""The command `python -m spacy bcrf explain`."""

import re

import numpy as np
import pytest
import spacy
from commands import command
from spacy.tokens import DocBin, Span
from spacy.training import Example
from tiny_training import network, train

from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.serve.pages.lattice_page import lattice, lattice_page

run = command("explain")
LINEAR = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[-1..1]"], "rate": 0.5}
GOLD = {"tags": ["DT", "X", "NN", "X"], "spans": {"chunks": [(0, 5, "NP")]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pipeline of two sparse linear chains, whose config names its training corpus."""
    folder = tmp_path_factory.mktemp("explain")
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_tagger", name="tagger", config={"model": LINEAR})
    nlp.add_pipe("bcrf_chunker", name="chunker", config={"model": LINEAR})
    examples = [Example.from_dict(nlp.make_doc("a <b>"), GOLD)]
    train(nlp, examples, 5)
    DocBin(docs=[eg.reference for eg in examples]).to_disk(folder / "train.spacy")
    nlp.config["paths"]["train"] = str(folder / "train.spacy")
    nlp.to_disk(folder / "model")
    return folder


def test_a_table_of_features_and_transitions(folder):
    result = run(folder / "model", "--pipe", "chunker", "-n", 2)
    block = [line for line in result.stdout.splitlines() if line.startswith("I-NP ")]
    assert len(block) == 4
    assert any(re.fullmatch(r"I-NP  orth\[\S+\]=\S+ +\+\d\.\d{3}", line) for line in block)
    assert any(re.fullmatch(r"I-NP  I-NP -> +\+\d\.\d{3}", line) for line in block)
    assert "key" not in result.output


@pytest.mark.parametrize("n", [0, -3])
def test_a_number_of_features_below_one(folder, n):
    result = run(folder / "model", "--pipe", "chunker", "-n", n, exit_code=2)
    assert "--n" in result.output


def test_a_model_without_features(folder, tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_tagger", config={"model": {**LINEAR, "min_freq": 1000}})
    example = Example.from_dict(nlp.make_doc("a <b>"), {"tags": GOLD["tags"]})
    train(nlp, [example], 1)
    nlp.to_disk(tmp_path)
    result = run(tmp_path, "--corpus", folder / "train.spacy")
    assert re.search(r"\n\S+ +bias +\+\d\.\d{3}\n", result.stdout)


def test_all_weights_into_a_file(folder, tmp_path):
    result = run(folder / "model", "-p", "tagger", "-o", tmp_path / "weights.tsv")
    head, *lines = (tmp_path / "weights.tsv").read_text().splitlines()
    assert head == "tag\tfeature\tweight"
    assert f"{len(lines)} weights" in result.stdout
    pipe = spacy.load(folder / "model").get_pipe("tagger")
    assert len(lines) == (sparse_chain(pipe.model).learner.weights != 0).sum()
    assert any(line.startswith("DT\torth[0]=a\t") for line in lines)


def test_a_page_of_a_text(folder, here):
    result = run(folder / "model", "-p", "chunker", "--text", "a <b>")
    assert result.stdout == "explain.html: 4 tokens, 3 tags\n"
    page = (here / "explain.html").read_text()
    assert page.count(' best"') == 4 and "Decisive features" in page
    assert page.count("<td") == 1 + 4 * 3 + 4 * 4
    assert "orth[0]=a +" in page and "&lt;" in page and "<b>" not in page


def test_pairs_of_tags_have_names_without_a_corpus(folder, tmp_path):
    nlp = spacy.blank("xx")
    model = {**LINEAR, "objective": "crf", "order": 2}
    nlp.add_pipe("bcrf_tagger", config={"model": model})
    train(nlp, [Example.from_dict(nlp.make_doc("a <b>"), {"tags": GOLD["tags"]})], 5)
    nlp.to_disk(tmp_path / "model")
    result = run(tmp_path / "model", "--corpus", folder / "train.spacy", "-n", 50)
    assert "  DT -> X -> " in result.stdout and "keys" not in result.output


def test_features_outside_of_the_corpus(folder):
    DocBin(docs=[spacy.blank("xx")("other")]).to_disk(folder / "other.spacy")
    result = run(folder / "model", "-p", "tagger", "--corpus", folder / "other.spacy")
    assert "features are shown by their keys" in result.output
    assert "because the corpus does not have them" in result.output
    assert re.search(r"key [0-9a-f]{16}", result.stdout)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ((), "pipe is missing; expected pipe to be one of tagger, chunker"),
        (
            ("-p", "ner"),
            "no component 'ner' of spacy-bcrf; expected pipe to be one of tagger, chunker",
        ),
        (("-p", "tagger", "--text", ""), "the text has no tokens"),
        (("-p", "tagger", "--corpus", "nothing.spacy"), "nothing.spacy"),
    ],
)
def test_wrong_input(folder, args, problem):
    result = run(folder / "model", *args, exit_code=1)
    assert problem in result.output


def test_a_missing_model(tmp_path):
    result = run(tmp_path / "nothing", exit_code=1)
    assert "nothing" in result.output


def test_a_network_has_a_page_but_no_table(tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_tagger", config={"model": network()})
    example = Example.from_dict(nlp.make_doc("a b"), {"tags": ["DT", "NN"]})
    nlp.initialize(lambda: [example])
    nlp.to_disk(tmp_path / "model")
    page = tmp_path / "page.html"
    run(tmp_path / "model", "-t", "a b", "-o", page)
    assert "Decisive features" not in page.read_text()
    result = run(tmp_path / "model", exit_code=1)
    assert "Sum.v1 with one of them as a part have features with names" in result.output


def read_marginals(page):
    """Return the probabilities on a page (T, n), with two digits."""
    rows = re.findall(r'<tr><th scope="row">[^<]+</th>(<td.*)</tr>', page)
    titles = [re.findall(r'title="([^"]+)"', row) for row in rows]
    return np.array([[float(p.replace("&lt; 0.001", "0")) for p in row] for row in titles])


def test_a_page_shows_the_marginals(folder):
    nlp = spacy.load(folder / "model")
    pipe = nlp.get_pipe("chunker")
    doc = nlp.make_doc("a <b> \n a")
    for pipe.temperature in (1, 3):
        (marginals,) = pipe.token_marginals([doc])
        values = [[p for p, _ in cells] for _, cells in lattice(pipe, doc)["lattice"]]
        np.testing.assert_allclose(values, marginals.T, atol=1e-5)
        np.testing.assert_allclose(read_marginals(lattice_page(pipe, doc)), values, atol=0.005)
    ner = nlp.add_pipe("bcrf_ner", config={"model": LINEAR})
    ner.add_label("X")
    gold = {"entities": [(0, 1, "X")]}
    ner.initialize(lambda: [Example.from_dict(nlp.make_doc("a b"), gold)])
    doc.ents = [Span(doc, 1, 2, label="X")]
    assert read_marginals(lattice_page(ner, doc))[ner.tags.index("U-X"), 1] == pytest.approx(1)


def test_one_tag_has_no_rival():
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": LINEAR})
    nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "X"]})])
    page = lattice_page(pipe, nlp.make_doc("a b"))
    assert page.count(' best"') == 2 and "rival" not in page


def test_a_train_corpus_that_is_not_there_is_the_cause(folder, tmp_path):
    nlp = spacy.load(folder / "model")
    nlp.config["paths"]["train"] = "gone/train.spacy"
    nlp.to_disk(tmp_path / "model")
    result = run(tmp_path / "model", "-p", "tagger")
    assert "gone/train.spacy" in result.stderr
    assert "features are shown by their keys; expected the training corpus" in result.stderr
