"""A tokenizer whose tokens a regular expression finds."""

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

NAME = "spacy-bcrf.PatternTokenizer.v1"


def make(pattern=r"\w+"):
    return spacy.blank(
        "en", config={"nlp": {"tokenizer": {"@tokenizers": NAME, "pattern": pattern}}}
    )


NLP = make()


def test_a_token_goes_on_up_to_the_next_match():
    doc = NLP("(a, b-c,\n\nd  e")
    assert [token.text for token in doc] == ["(a,", "b-", "c,\n\n", "d ", "e"]


@given(st.text(" a,\nü", max_size=8))
def test_the_text_stays(text):
    assert NLP.make_doc(text).text == text


def test_a_saved_pipeline_keeps_the_pattern(tmp_path):
    make("[abc]").to_disk(tmp_path)
    assert [token.text for token in spacy.load(tmp_path)("abc")] == ["a", "b", "c"]


def test_a_malformed_pattern_is_named():
    with pytest.raises(ValueError, match="the tokenizer's pattern '\\('"):
        make("(")
