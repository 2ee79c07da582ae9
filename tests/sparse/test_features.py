"""Tests of feature extraction, and gazetteers."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.lang.en import English
from spacy.tokens import Doc, Token

from bcrf.io.text import CorpusError
from bcrf.linear.templates import TemplateError
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.gazetteers import Gazetteers, WordHashes

NLP = English()
TEMPLATES = [
    "w[-2..2]",
    "lower[-1..0]|w[0..1]",
    "p[0]|p[1]",
    "prefix(1..3)[0]",
    "suffix(2)[0]|w[1]",
    "substring(1..2)[-1]|suffix(1..2)[0]",
    "digits[0]",
    "brief[-1..1]",
    "character[0]",
    "is_digit[0]",
    "_.kind[0]",
    "_.letters[0]|w[1]",
    "gazetteer.names[-1..1]",
]
GAZETTEERS = Gazetteers({"names": ["ab 12", "IL-2", "x1 b a", "ab 12 B"]})
WORDS = st.lists(st.sampled_from(["a", "Ab", "ab", "IL-2", "12", "B", "ä", "x1", "-"]), max_size=6)


@pytest.fixture(scope="module", autouse=True)
def extension():
    Token.set_extension("kind", getter=lambda token: token.text[0].isalpha() and "letter")
    Token.set_extension("letters", getter=lambda token: [c for c in token.text if c.isalpha()])
    yield
    Token.remove_extension("kind")
    Token.remove_extension("letters")


def make_doc(words):
    tags = ["" if word == "-" else word[:1].upper() for word in words]
    return Doc(NLP.vocab, words=words, tags=tags)


@given(st.lists(WORDS, max_size=4))
def test_keys_correspond_to_names(sentences):
    docs = [make_doc(words) for words in sentences]
    features = Features(TEMPLATES, GAZETTEERS)
    keys, starts = features.keys(docs)
    described = [names for doc in docs for names in features.describe(doc)]
    assert np.diff(starts).tolist() == [len(token) for token in described]
    names = [name for token in described for name in token]
    # Keys and names correspond one to one.
    pairs = set(zip(keys.tolist(), names, strict=True))
    assert len(pairs) == len(set(keys.tolist())) == len(set(names))


def test_values_of_attributes():
    features = Features(["prefix(2..3)[0]", "digits[0]", "brief[0]", "p[1]", "w[-1]"])
    doc = make_doc(["IL-12", "-", "B"])
    shown = [[name.partition("=")[2] for name in names] for names in features.describe(doc)]
    assert shown[0] == ["IL", "IL-", "il-##", "X-d", "<-1>"]
    assert shown[1] == ["-", "-", "B", "IL-12"]
    assert shown[2] == ["b", "X", "<+1>", "-"]


def test_names_of_numbers_and_flags():
    # A number is not looked up in the string store.
    names = ["is_digit", "spacy", "length", "head", "sent_start", "pos", "dep", "ent_type"]
    features = Features([f"{name}[0]" for name in names])
    doc = Doc(
        NLP.vocab,
        words=["Ada", "12"],
        spaces=[True, False],
        heads=[1, 1],
        deps=["nsubj", "ROOT"],
        pos=["PROPN", "NUM"],
        ents=["B-X", "O"],
    )
    shown = features.describe(doc)
    assert shown[0] == [
        "spacy[0]=True",
        "length[0]=3",
        "head[0]=1",
        "sent_start[0]=1",
        "pos[0]=PROPN",
        "dep[0]=nsubj",
        "ent_type[0]=X",
    ]
    assert shown[1] == [
        "is_digit[0]=True",
        "length[0]=2",
        "sent_start[0]=-1",
        "pos[0]=NUM",
        "dep[0]=ROOT",
    ]


@pytest.mark.parametrize("templates", [["prefix(1..4)[-1..1]", "w[0]|suffix(1..3)[0]"], TEMPLATES])
def test_keys_do_not_depend_on_threads(templates):
    features = Features(templates, GAZETTEERS)
    rng = np.random.default_rng(0)
    batches = [[make_doc([f"w{i}q" for i in rng.integers(0, 3000, 800)])] for _ in range(2)]
    expected = [Features(templates, GAZETTEERS).keys(docs)[0] for docs in batches]

    def work(k):
        return all(np.array_equal(features.keys(batches[k])[0], expected[k]) for _ in range(20))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(2)))


def test_finds_templates_without_values():
    features = Features(TEMPLATES, GAZETTEERS)
    none = ["orth[0]", "digits[0]"]
    plain = Doc(NLP.vocab, words=["-"])
    still_missing = features.still_missing(features.may_miss, [plain])
    missing = features.templates_of(still_missing)
    assert {"tag[0]|tag[1]", "is_digit[0]", "_.kind[0]", "gazetteer.names[-1]"} <= set(missing)
    assert not {*none, "prefix(1..3)[0]"} & set(missing)
    assert not features.still_missing(still_missing, [plain, make_doc(["ab", "12"])])


def test_a_missing_extension_is_named():
    features = Features(["w[0]", "w[1]|_.missing[0]"])
    with pytest.raises(TemplateError, match=r"position 9: there is no extension 'missing'"):
        features.keys([make_doc(["a"])])


def test_a_gazetteer_finds_the_longest_phrases():
    doc = make_doc(["Ab", "12", "b", "IL-2", "x1", "B", "A", "12"])
    assert GAZETTEERS.find("names", WordHashes.of([doc])).tolist() == [0, 1, 2, 3, 0, 1, 2, -1]
    other = Doc(English().vocab, words=["il-2"])
    assert GAZETTEERS.find("names", WordHashes.of([other])).tolist() == [3]


def test_a_gazetteer_from_a_file(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("New York\n\nOslo\nOslo\n")
    gazetteers = Gazetteers({"places": str(path)})
    gazetteers.load()
    assert gazetteers.phrases == {"places": ["New York", "Oslo"]}
    path.write_text("\n")
    with pytest.raises(CorpusError, match=r"names\.txt: no phrases"):
        gazetteers.load()
    path.unlink()
    with pytest.raises(CorpusError, match=r"names\.txt: cannot be read"):
        gazetteers.load()


def test_an_unknown_gazetteer_is_named():
    with pytest.raises(TemplateError, match="no gazetteer 'places'; there are names"):
        Features(["gazetteer.places[0]"], GAZETTEERS)


def test_distances_beyond_the_sequence_differ():
    keys, starts = Features(["w[-2]", "w[2]"]).keys([make_doc(["a", "a"])])
    (before_2, after_1), (before_1, after_2) = (keys[a:b] for a, b in pairwise(starts))
    assert len({before_2, before_1, after_1, after_2}) == 4


def test_the_order_of_templates_changes_no_key():
    docs = [make_doc(["a", "IL-2", "B"])]
    there = Features(TEMPLATES, GAZETTEERS).keys(docs)[0]
    back = Features(TEMPLATES[::-1], GAZETTEERS).keys(docs)[0]
    assert sorted(there) == sorted(back)
