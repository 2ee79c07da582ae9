"""The character tokenizer: one token per grapheme cluster."""

import pickle
import time
from itertools import pairwise

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_bcrf.annotation import tokenizers
from spacy_bcrf.annotation.tokenizers import (
    CharTokenizer,
    _joining_characters,
    _split,
    cluster_pattern,
)

NAME = "spacy-bcrf.CharTokenizer.v1"
TOKENIZER = CharTokenizer(spacy.blank("xx").vocab)
# One extended grapheme cluster each.
CHARACTERS = [
    "我",
    "𠮷",
    "a",
    "Z",
    "7",
    "。",
    "\x00",
    "\u200b",
    "e\u0301",
    "x\u0301\u0323",
    "か\u3099",
    "ﾊ\uff9f",
    "葛\U000e0100",
    "กำ",
    "क्",
    "한",
    "\u1112\u1161\u11ab",
    "각\u11a8",
    "🙂",
    "👍🏽",
    "❤️",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "🇩🇪",
    "🇫🇷",
    "1️⃣",
]
SPACES = [" ", "  ", "\n", "\t \t", "\r\n", "\u3000", " \u00a0 "]


@given(st.text())
def test_tokens_spell_the_text(text):
    doc = TOKENIZER(text)
    assert doc.text == text
    assert not doc.has_unknown_spaces
    # A run of whitespace is one token, minus the space that belongs to the previous token.
    assert all(not (a.is_space and b.is_space) for a, b in pairwise(doc))
    assert all(token.is_space or not token.text[0].isspace() or len(token) > 1 for token in doc)


@given(
    st.text(st.sampled_from("我a한ᄒ\u0301 \n\u3000🙂") | st.characters(exclude_categories=["Cs"]))
)
def test_the_fast_paths_agree_with_the_pattern_of_clusters(text):
    words, spaces = _split(cluster_pattern(), text)
    assert [(token.text, bool(token.whitespace_)) for token in TOKENIZER(text)] == [
        *zip(words, spaces, strict=True)
    ]


def test_every_character_alone_and_after_a_letter_agrees_with_the_pattern():
    codes = [*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE1000)]
    wrong = [
        code
        for code in codes
        if chr(code) not in _joining_characters()
        and len(_split(cluster_pattern(), f"a{chr(code)}b\u0301")[0]) != 3 - (chr(code) == " ")
    ]
    assert wrong == []


@pytest.mark.parametrize("character", CHARACTERS)
def test_a_grapheme_cluster_is_one_token(character):
    assert [token.text for token in TOKENIZER(character)] == [character]


@given(st.lists(st.sampled_from(CHARACTERS)))
def test_neighbouring_clusters_are_separate_tokens(characters):
    assert [token.text for token in TOKENIZER("".join(characters))] == characters


@given(st.lists(st.sampled_from(CHARACTERS + SPACES)))
def test_whitespace_does_not_split_clusters(parts):
    doc = TOKENIZER("".join(parts))
    assert doc.text == "".join(parts)
    visible = [part for part in parts if part not in SPACES]
    assert [token.text for token in doc if not token.is_space] == visible


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("我爱 New", ["我", "爱 ", "N", "e", "w"]),
        (" a  b", [" ", "a ", " ", "b"]),
        ("a\n\n b ", ["a", "\n\n ", "b "]),
        ("   ", ["   "]),
        # A combining mark attaches to any character, even to a space.
        ("a \u0301b", ["a", " \u0301", "b"]),
        ("  \u0301", [" ", " \u0301"]),
        ("\u0301a", ["\u0301", "a"]),
        ("🇩🇪🇫", ["🇩🇪", "🇫"]),
        ("a\u200d b", ["a\u200d ", "b"]),
        ("", []),
    ],
)
def test_spaces_and_marks(text, tokens):
    assert [token.text_with_ws for token in TOKENIZER(text)] == tokens


def test_a_lone_surrogate_is_refused():
    with pytest.raises(ValueError, match=r"character 2 .* is the lone surrogate '\\ud83d'"):
        TOKENIZER("ab\ud83d")


def test_disk_bytes_and_pickle_round_trip(tmp_path):
    config = {"nlp": {"tokenizer": {"@tokenizers": NAME}}}
    nlp = spacy.blank("ja", config=config)
    nlp.to_disk(tmp_path)
    from_bytes = spacy.blank("ja", config=config).from_bytes(nlp.to_bytes())
    pickled = pickle.loads(pickle.dumps(nlp.tokenizer))
    for make_doc in (nlp, spacy.load(tmp_path), from_bytes, pickled):
        assert [token.text for token in make_doc("東京 é")] == ["東", "京", "é"]


@pytest.mark.parametrize("text", ["我", "\u1112", "e\u0301", "👩\u200d", " ", "🇩", "\n\u0301"])
def test_time_is_linear(text):
    seconds = []
    for count in (20_000, 200_000):
        start = time.process_time()
        TOKENIZER(text * count)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 40 * max(seconds[0], 0.01)


def test_a_memory_zone_forgets_its_characters():
    nlp = spacy.blank("xx", config={"nlp": {"tokenizer": {"@tokenizers": NAME}}})
    for text in ("ab", "bc"):
        with nlp.memory_zone():
            assert [token.text for token in nlp(text)] == list(text)
    assert [token.text for token in nlp("abc")] == ["a", "b", "c"]
    with nlp.memory_zone():
        assert nlp("cd").text == "cd"


def test_the_kept_hashes_are_bounded(monkeypatch):
    monkeypatch.setattr(tokenizers, "_KEPT", 2)
    tokenizer = CharTokenizer(spacy.blank("xx").vocab)
    assert tokenizer("abcabc").text == "abcabc"
    assert len(tokenizer._hashes) == 2
