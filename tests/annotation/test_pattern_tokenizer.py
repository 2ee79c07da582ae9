"""A tokenizer whose tokens a regular expression finds."""

import pickle
import re

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_bcrf.annotation.tokenizers import make_pattern_tokenizer

NAME = "spacy-bcrf.PatternTokenizer.v1"


def make(pattern=r"\w+"):
    return spacy.blank(
        "en", config={"nlp": {"tokenizer": {"@tokenizers": NAME, "pattern": pattern}}}
    )


NLP = make()


def test_a_token_goes_on_up_to_the_next_match():
    doc = NLP("(a, b-c,\n\nd  e")
    assert [token.text for token in doc] == ["(a,", "b-", "c,", "\n\n", "d", " ", "e"]


def test_white_space_is_at_no_edge_of_other_characters():
    """A token was once `X` with its line break, and so was an entity."""
    doc = make(r"[A-Z]+")("\n A b\tc \n\nX\n")
    assert [token.text for token in doc] == ["\n ", "A b\tc", "\n\n", "X", "\n"]
    assert [token.whitespace_ for token in doc] == ["", " ", "", "", ""]


@given(st.text(" a,\nü", max_size=8), st.sampled_from([r"\w+", "a*", r"(?=\b)", "|a", "$", "x"]))
def test_the_text_stays(text, pattern):
    doc = make_pattern_tokenizer(pattern)(NLP)(text)
    assert doc.text == text and all(token.text for token in doc)


def test_a_match_may_be_empty():
    words = [token.text for token in make_pattern_tokenizer(r"(?=\b)")(NLP)("a1-b2")]
    assert words == ["a1", "-", "b2"]


def test_a_saved_pipeline_keeps_the_pattern(tmp_path):
    make("[abc]").to_disk(tmp_path)
    assert [token.text for token in spacy.load(tmp_path)("abc")] == ["a", "b", "c"]


def test_a_pickled_tokenizer_keeps_pattern_and_words():
    tokenizer = pickle.loads(pickle.dumps(make("[abc]").tokenizer))
    assert [token.text for token in tokenizer("ab c")] == ["a", "b", "c"]


def test_a_memory_zone_forgets_its_words():
    nlp = make()
    for text in ("one two", "two three"):
        with nlp.memory_zone():
            assert [token.text for token in nlp(text)] == text.split()
    assert [token.text for token in nlp("one three")] == ["one", "three"]


@pytest.mark.parametrize("pattern", ["(", 5])
def test_a_malformed_pattern_is_named(pattern):
    with pytest.raises(ValueError, match=f"the tokenizer's pattern {re.escape(repr(pattern))}"):
        make_pattern_tokenizer(pattern)(NLP)
