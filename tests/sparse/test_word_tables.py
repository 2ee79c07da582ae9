"""Tests of clusters and word frequencies."""

import numpy as np
import pytest
from spacy.lang.en import English
from spacy.tokens import Doc
from spacy.vocab import Vocab

from bcrf.io.text import CorpusError
from bcrf.linear.learner import OnlineSettings
from bcrf.linear.model_bytes import pack, unpack
from bcrf.linear.templates import TemplateError
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.gazetteers import Gazetteers
from spacy_bcrf.sparse.model import SparseChain
from spacy_bcrf.sparse.template_sets import get_templates
from spacy_bcrf.sparse.word_tables import WordTables, read_clusters

NLP = English()
PATHS = {"cat": "001101", "dog": "0011", "Paris": "10", "paris": "11"}


def values(features, words):
    doc = Doc(NLP.vocab, words=words)
    return features.describe(doc)


def test_a_cluster_has_prefixes():
    features = Features(["cluster.brown(2,4,10,20)[0]"], tables=WordTables({"brown": PATHS}))
    name = "cluster.brown(2,4,10,20)[0]="
    assert values(features, ["cat", "dog", "Dog", "mouse"]) == [
        # The first length beyond the path gives the whole path, further ones nothing.
        [f"{name}00", f"{name}0011", f"{name}001101"],
        [f"{name}00", f"{name}0011"],
        [f"{name}00", f"{name}0011"],
        [],
    ]


def test_a_cluster_without_lengths_is_whole_and_prefers_the_exact_word():
    features = Features(["cluster.brown[0]"], tables=WordTables({"brown": PATHS}))
    found = values(features, ["cat", "Paris", "PARIS"])
    assert found == [[f"cluster.brown[0]={path}"] for path in ("001101", "10", "11")]


def test_a_word_without_a_cluster_has_that_of_its_longest_beginning():
    tables = WordTables({"brown": {**PATHS, "Pari": "01", "Haus": "111"}})
    features = Features(["cluster.brown(2)[0]", "compound.brown(1..2)[0]"], tables=tables)
    words = ["Paris", "PARIS", "Parisern", "Paris-Reise", "Parish", "Hauses", "cats", "Pari-"]
    assert values(features, words) == [
        ["cluster.brown(2)[0]=10"],
        ["cluster.brown(2)[0]=11"],
        ["compound.brown(1..2)[0]=1 3", "compound.brown(1..2)[0]=10 3"],
        ["compound.brown(1..2)[0]=1 -", "compound.brown(1..2)[0]=10 -"],
        ["compound.brown(1..2)[0]=1 1", "compound.brown(1..2)[0]=10 1"],
        ["compound.brown(1..2)[0]=1 2", "compound.brown(1..2)[0]=11 2"],
        [],  # `cat` has less than 4 characters
        ["compound.brown(1..2)[0]=0 -", "compound.brown(1..2)[0]=01 -"],
    ]


@pytest.mark.parametrize(
    "text", ["cat\t0101\nDog\t11\n\n", "0101\tcat\t12\n11\tDog\t3\n", "cat\t0101\r\nDog\t11"]
)
def test_reads_word_files_and_files_of_brown_cluster(tmp_path, text):
    path = tmp_path / "paths"
    path.write_text(text, newline="")
    assert read_clusters(path) == {"cat": "0101", "Dog": "11"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cat\t01\ndog 01\n", "paths:2: expected word<TAB>cluster"),
        ("cat\t01\tx\n", "paths:1: expected word<TAB>cluster"),
        ("\t01\n", "paths:1: expected word<TAB>cluster"),
        ("cat\t01\ncat\t11\n", "paths:2: the word 'cat' has the cluster '01' already"),
        ("\n", "paths: no clusters"),
    ],
)
def test_malformed_files_are_named_with_the_line(tmp_path, text, what):
    path = tmp_path / "paths"
    path.write_text(text)
    tables = WordTables({"brown": str(path)})
    with pytest.raises(CorpusError, match=what):
        tables.load()


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("cluster.other[0]", "there is no cluster file 'other'; there are brown"),
        ("cluster.other(2)[0]", "there is no cluster file 'other'; there are brown"),
        ("frequency(2)[0]", "frequency takes no argument"),
        ("cluster[0]", "unknown attribute cluster"),
    ],
)
def test_unknown_tables_are_named(template, what):
    with pytest.raises(TemplateError, match=what):
        Features([template], tables=WordTables({"brown": PATHS}))


def test_a_chain_stores_frequencies_and_clusters(tmp_path):
    path = tmp_path / "paths"
    path.write_text("b\t01\n")
    templates = ["frequency[0]", "cluster.brown(1)[0]"]

    def make():
        return SparseChain(templates, OnlineSettings(), tables=WordTables({"brown": str(path)}))

    chain = make()
    chain.initialize([Doc(NLP.vocab, words=["a"] * 9 + ["b"] * 2 + ["c"])], 2)
    path.unlink()
    expected = [["frequency[0]=3"], ["frequency[0]=1", "cluster.brown(1)[0]=0"]]
    # Words of one occurrence and unknown words are in the same class.
    expected += [["frequency[0]=0"]] * 2
    for same in (chain, make().from_bytes(chain.to_bytes())):
        assert values(same.features, ["a", "b", "c", "d"]) == expected
        keys = same.features.keys([Doc(NLP.vocab, words=["a", "b", "c", "d"])])[0]
        assert len(keys) == 5


@pytest.mark.parametrize(
    ("template", "lacks"),
    [
        ("gazetteer.places[0]", "no gazetteer 'places' for gazetteer.places"),
        ("partial.places[0]", "no gazetteer 'places' for partial.places"),
        ("cluster.brown(2)[0]", "no table for cluster.brown"),
        ("frequency[0]", "no table for frequency"),
        ("vector[0]", "no table for vector"),
    ],
)
def test_a_saved_chain_without_a_table_changes_nothing(template, lacks):
    def make():
        lexicons = Gazetteers({"places": ["a"]}), WordTables({"brown": {"a": "01"}})
        return SparseChain([template], OnlineSettings(), 1, *lexicons)

    vocab = Vocab()
    vocab.set_vector("a", np.ones(2, "float32"))
    chain = make()
    chain.initialize([Doc(vocab, words=["a"])], 2)
    whole = unpack(chain.to_bytes())
    make().from_bytes(pack(whole))
    again = make()
    with pytest.raises(ValueError, match=lacks):
        again.from_bytes(pack(whole._replace(gazetteers={}, tables={})))
    assert not again.is_ready
    assert again.features.gazetteers.phrases == {"places": ["a"]}


@pytest.mark.parametrize("terciles", [{}, {"2": "0 1"}, {"1": "0"}, {"1": "1 0"}, {"1": "0 nan"}])
def test_malformed_terciles_are_refused(terciles):
    chain = SparseChain(["vector[0]"], OnlineSettings())
    vocab = Vocab()
    vocab.set_vector("a", np.ones(2, "float32"))
    chain.initialize([Doc(vocab, words=["a"])], 2)
    saved = unpack(chain.to_bytes())._replace(tables={"vector": terciles})
    with pytest.raises(ValueError, match="terciles of the vectors are not two numbers"):
        chain.from_bytes(pack(saved))


def test_a_set_with_clusters_names_the_missing_setting():
    with pytest.raises(TemplateError, match=r"the setting clusters, such as \{'brown': "):
        Features(get_templates("ner-brown"))
