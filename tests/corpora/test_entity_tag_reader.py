"""Conversion of entity tags of any scheme to IOB2."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrf.io.text import CorpusError, Line
from bcrf.schemes import BIO, read_spans
from spacy_bcrf.corpora.entity_tag_reader import SCHEMES, EntityTagReader
from spacy_bcrf.corpora.sentence import Sentence

SAME_ENTITIES = {
    "bio": "B-X I-X B-X O B-Y B-X I-X I-X",
    "iob1": "I-X I-X B-X O I-Y I-X I-X I-X",
    "biluo": "B-X L-X U-X O U-Y B-X I-X L-X",
    "bies": "B-X E-X S-X O S-Y B-X I-X E-X",
}


def sentence(tags):
    tags = tags.split() if isinstance(tags, str) else tags
    lines = [Line(Path("f.conll"), i, "") for i in range(1, len(tags) + 1)]
    words = ["w"] * len(tags)
    return Sentence(lines=lines, words=words, tags=[], pos=[], entities=tags)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("given_scheme", ["auto", "the right one"])
def test_all_schemes_give_the_same_entities(scheme, given_scheme):
    reader = EntityTagReader("auto" if given_scheme == "auto" else scheme)
    assert reader.read(sentence(SAME_ENTITIES[scheme])) == SAME_ENTITIES["bio"].split()
    assert (reader.scheme, reader.n_repaired) == (scheme, 0)


def test_auto_follows_prefixes_that_come_late():
    reader = EntityTagReader()
    reader.read(sentence("B-X I-X"))
    assert (reader.scheme, reader.n_repaired) == ("bio", 0)
    reader.read(sentence("B-X E-X"))
    assert (reader.scheme, reader.n_repaired) == ("bies", 1)


@pytest.mark.parametrize(
    "scheme, tags, iob2, n_repaired",
    [
        ("auto", "O I-X I-X O B-X", "O B-X I-X O B-X", 1),
        ("auto", "O I-X I-X O", "O B-X I-X O", 0),
        ("bio", "O I-X I-X O", "O B-X I-X O", 1),
        ("iob1", "B-X B-X", "B-X B-X", 1),
        ("auto", "B-X I-Y", "B-X B-Y", 1),
        ("auto", "U-X B-X O", "B-X B-X O", 1),
        ("bies", "B-X", "B-X", 1),
    ],
)
def test_invalid_tags_are_repaired_and_counted(scheme, tags, iob2, n_repaired):
    reader = EntityTagReader(scheme)
    assert reader.read(sentence(tags)) == iob2.split()
    assert reader.n_repaired == n_repaired


def test_missing_tags_are_o_if_annotation_is_complete():
    tags = [None, "I-X", None, "I-X", "O"]
    reader = EntityTagReader("bio")
    assert reader.read(sentence(tags)) == [None, "B-X", None, "B-X", "O"]
    assert (reader.n_assumed_outside, reader.n_repaired) == (0, 2)
    reader = EntityTagReader("bio", complete=True)
    assert reader.read(sentence(tags)) == ["O", "B-X", "O", "B-X", "O"]
    assert (reader.n_assumed_outside, reader.n_repaired) == (2, 2)


@pytest.mark.parametrize("tag", ["o", "PER", "B", "B-", "-X", "X-PER", "b-PER", "B_PER", "BI-PER"])
def test_a_bad_tag(tag):
    with pytest.raises(CorpusError, match=f"f.conll:2: '{tag}' is no entity tag; expected O, or"):
        EntityTagReader().read(sentence(["O", tag]))


def test_tags_of_another_scheme():
    with pytest.raises(CorpusError, match=r"f.conll:1: 'S-X' is no entity tag; .*one of B I with"):
        EntityTagReader("bio").read(sentence("S-X"))
    with pytest.raises(
        CorpusError,
        match=r"f.conll:3: entity tag 'E-X' and U- in f.conll:1 are of different schemes",
    ):
        EntityTagReader().read(sentence("U-X B-X E-X"))
    with pytest.raises(ValueError, match="unknown scheme 'iob2'; expected auto, bio, iob1"):
        EntityTagReader("iob2")


def test_a_malformed_sentence_changes_nothing():
    reader = EntityTagReader()
    for tags in ("S-X garbage", "E-X U-X"):
        with pytest.raises(CorpusError):
            reader.read(sentence(tags))
    assert reader.read(sentence("U-X B-X L-X")) == ["B-X", "B-X", "I-X"]
    assert (reader.scheme, reader.n_repaired) == ("biluo", 0)
    # The message names the first line of a sentence that was read.
    with pytest.raises(CorpusError, match=r"'S-X' and U- in f.conll:1 are of different schemes"):
        reader.read(sentence("O S-X"))


@given(st.lists(st.lists(st.sampled_from([None, *BIO.tags(["X", "Y"])]), max_size=8), max_size=4))
def test_any_bio_tags_are_repaired_and_counted(sentences):
    automatic, bio, iob1 = EntityTagReader(), EntityTagReader("bio"), EntityTagReader("iob1")
    for tags in sentences:
        iob2 = automatic.read(sentence(tags))
        assert BIO.spans(iob2) == read_spans(tags)
        assert bio.read(sentence(tags)) == iob1.read(sentence(tags)) == iob2
    n_changed = sum(BIO.repair(tags)[1] for tags in sentences)
    assert bio.n_repaired == n_changed
    assert automatic.n_repaired == min(bio.n_repaired, iob1.n_repaired)
