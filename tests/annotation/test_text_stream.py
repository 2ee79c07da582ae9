"""Tokens of texts in pieces, against the tokenizer on the whole text."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from light_spacy import WholeEnglish
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc

from spacy_bcrf.annotation import text_stream
from spacy_bcrf.annotation.text_stream import stream_text
from spacy_bcrf.annotation.tokenizers import CharTokenizer, SplitTokenizer

BLANKS = [" ", " ", " ", "  ", "\n", "\t", "\xa0", "\u3000", " \n "]
PARTS = [*BLANKS, *".,():-'\"$_8a;é", "word", "U.S.", "don't", "New", "York", "http://x.y/z?q"]
CLUSTERS = [*" \n字aー가", "  ", "\u0301", "\u200d", "\U0001f1e9", "\U0001f1ea", "\u1100", "\u1161"]


@cache
def split_english() -> SplitTokenizer:
    return SplitTokenizer(english().vocab, english())


@cache
def english() -> Tokenizer:
    """Return the tokenizer of English, and special cases with blanks."""
    tokenizer = WholeEnglish().tokenizer
    for case in ("New York", "a - b c"):
        tokenizer.add_special_case(case, [{"ORTH": case}])
    return tokenizer


def cut(text: str, seed: int, most: int) -> Iterator[str]:
    rng, at = random.Random(seed), 0
    while at < len(text):
        size = rng.randint(1, most)
        yield text[at : at + size]
        at += size


def read(
    pieces: Sequence[Sequence[str]], tokenizer: Callable[[str], Doc] | None = None
) -> list[tuple[str, str, str]]:
    docs = map(tokenizer or english(), chain.from_iterable(pieces))
    return [(t.text, t.whitespace_, t.norm_) for doc in docs for t in doc]


def check(tokenizer: Callable[[str], Doc], text: str, seed: int, most: int) -> None:
    stream = stream_text(tokenizer)
    found = [*(stream.feed(piece) for piece in cut(text, seed, most)), stream.close()]
    assert read(found, tokenizer) == read([[text]], tokenizer)


@given(st.data(), st.integers(0, 1000), st.sampled_from([1, 3, 12, 40]))
def test_words(data: st.DataObject, seed: int, most: int) -> None:
    cases = sorted(english().rules)
    part = st.sampled_from(PARTS) | st.sampled_from(cases) | st.sampled_from(cases).map(" ".join)
    text = "".join(data.draw(st.lists(part, max_size=14)))
    check(english(), text, seed, most)
    check(split_english(), text, seed, most)


@given(st.lists(st.sampled_from(CLUSTERS), max_size=20).map("".join), st.integers(0, 1000))
def test_characters(text: str, seed: int) -> None:
    check(CharTokenizer(spacy.blank("xx").vocab), text, seed, 4)


def test_a_word_is_final_at_its_blank() -> None:
    stream = stream_text(english())
    assert read([stream.feed("I said: ")]) == [("I", " ", "i")]  # ": )" would be an emoticon
    assert [word for word, *_ in read([stream.feed("he")])] == ["said", ":"]
    assert not stream.feed("llo")
    assert read([stream.feed(" ")]) == [("hello", " ", "hello")]


def test_words_that_only_look_like_the_rest_of_a_case_are_final() -> None:
    """A case goes on with the word "s", which "somethin" is not. The stream once kept it all."""
    stream = stream_text(english())
    text = "somethin \u2019 " * 100
    found = [stream.feed(character) for character in text]
    assert len(read(found)) > 196
    assert read([*found, stream.close()]) == read([[text]])


@pytest.mark.parametrize("kind", ["word", "character"])
def test_errors_lose_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_stream, "LONGEST", 10)
    stream = stream_text(english() if kind == "word" else CharTokenizer(spacy.blank("xx").vocab))
    first = stream.feed("ab")
    with pytest.raises(ValueError, match=r"character 1 of the piece is the lone surrogate"):
        stream.feed("x\ud800")
    with pytest.raises(ValueError, match=r"more than 10 characters without a blank"):
        stream.feed("\u0301" * 12)
    rest = [stream.feed("c "), stream.close()]
    assert "".join(word for word, *_ in read([first, *rest])) == "abc"


def test_an_earlier_state_is_that_of_the_earlier_text() -> None:
    stream = stream_text(english())
    stream.feed("ab")
    state = stream.state
    stream.feed("cd")
    stream.state = state
    assert [*stream.feed("ef "), *stream.close()] == ["abef ", ""]


def test_ten_megabytes_without_a_blank() -> None:
    stream = stream_text(english())
    with pytest.raises(ValueError, match=r"more than 1,000,000 characters without a blank"):
        for _ in range(10_000):
            stream.feed("x" * 1000)


def test_unknown_tokenizer() -> None:
    with pytest.raises(TypeError, match=r"got function: .* Feed documents"):
        stream_text(lambda text: english()(text))


def test_words_are_pieces() -> None:
    """Callers keep the tokens of words. Cases, and other blanks, are no words."""
    stream = stream_text(english())
    pieces = stream.feed("the dog's in New York , I said: ) a\tb  c d ")
    words = ["the ", "dog's ", "in ", "New York ", ", ", "I ", "said: ) ", "a\tb  c "]
    assert pieces == words


def test_cases_begin_and_go_on_at_tokens() -> None:
    """A word waits for the next character only if a case may go on: he 's, but not the 's."""
    tokenizer = english()
    cases = stream_text(tokenizer).cases
    assert "'" in cases.find_next("he", tokenizer)
    assert cases.find_next("the", tokenizer) == cases.find_next("in", tokenizer) == frozenset()


def test_other_special_cases_are_read() -> None:
    tokenizer = WholeEnglish().tokenizer
    assert stream_text(tokenizer).feed("grand pa ") == ["grand ", "pa "]
    tokenizer.add_special_case("grand pa", [{"ORTH": "grand pa"}])
    assert stream_text(tokenizer).feed("grand pa ") == ["grand pa "]
