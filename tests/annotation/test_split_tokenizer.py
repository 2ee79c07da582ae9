"""A tokenizer that splits the tokens of another one by kind of character."""

import pickle
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import DummyTokenizer

from spacy_bcrf.annotation.tokenizers import SplitTokenizer, make_split_tokenizer
from spacy_bcrf.corpora.tokenization import make_blank

NAME = "spacy-bcrf.SplitTokenizer.v1"
CONFIG = {"nlp": {"tokenizer": {"@tokenizers": NAME}}}


def make(lang: str = "en") -> Language:
    return spacy.blank(lang, config=CONFIG)


NLP, PLAIN = make(), spacy.blank("en")
PARTS = [*" .,-_'\n\t", "  ", "a", "7", "é", "don't", "U.S.", ":)", "a\u0301", "\u0301", "❤️", "🇩🇪"]


def words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sexo: H.", ["Sexo", ":", "H", "."]),
        ("nhc-150679", ["nhc", "-", "150679"]),
        ("3F.", ["3", "F", "."]),
        ("x_y @z...", ["x", "_", "y", "@", "z", ".", ".", "."]),
        ("e\u0301te\u0301-क्षि", ["e\u0301te\u0301", "-", "क्षि"]),
        ("X\n\nY  z", ["X", "\n\n", "Y", " ", "z"]),
        ("", []),
    ],
)
def test_tokens_are_letters_or_digits_or_single_signs(text: str, expected: list[str]) -> None:
    assert words(make("es")(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#MarriedLife", ["#", "Married", "Life"]),
        ("ABCd ÁlvarezÑu\u0301 e\u0301Te", ["ABCd", "Álvarez", "Ñu\u0301", "e\u0301", "Te"]),
    ],
)
def test_a_capital_begins_a_token(text: str, expected: list[str]) -> None:
    nlp = make_blank("es", "capitals")
    again = spacy.blank("es", config=nlp.config).from_bytes(nlp.to_bytes())
    assert words(nlp(text)) == words(again(text)) == expected


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join) | st.text(max_size=8))
def test_the_text_stays_and_no_token_of_the_other_tokenizer_is_joined(text: str) -> None:
    try:
        plain = PLAIN(text)
    except UnicodeEncodeError:
        return
    doc = NLP(text)
    assert doc.text == text
    assert {token.idx for token in plain} <= {token.idx for token in doc}
    for token in doc:
        assert token.is_space or token.text == token.text.strip()


def test_a_special_case_with_blanks_is_split() -> None:
    nlp = make()
    case = [{"ORTH": "a b\n"}, {"ORTH": "c "}]
    nlp.tokenizer.tokenizer.add_special_case("a b\nc ", case)
    doc = nlp("a b\nc d")
    assert words(doc)[:4] == ["a", "b", "\n", "c"]
    assert doc.text == "a b\nc d"


@pytest.mark.parametrize("text", ["I can't", "I can't: x-y"])
def test_whole_tokens_keep_their_norms(text: str) -> None:
    """They are part of features, so that a text and its parts must have the same ones."""
    nlp = make()
    nlp.tokenizer.tokenizer.add_special_case(
        "can't", [{"ORTH": "ca", "NORM": "can"}, {"ORTH": "n't"}]
    )
    assert [token.norm_ for token in nlp(text)][:2] == ["i", "can"]


class _Tagging(DummyTokenizer):
    """A tokenizer that tags, as those of Japanese and Korean do."""

    def __init__(self, nlp: Language) -> None:
        self.vocab = nlp.vocab

    def __call__(self, text: str) -> Doc:
        found = text.split(" ")
        tags = [f"T{len(word)}" for word in found]
        doc = Doc(self.vocab, words=found, tags=tags, lemmas=[word.lower() for word in found])
        doc.user_data["read"] = found
        return doc


def test_annotation_of_the_other_tokenizer_stays() -> None:
    nlp = spacy.blank("xx")
    doc = make_split_tokenizer(_Tagging)(nlp)("AB C-D")
    assert words(doc) == ["AB", "C", "-", "D"]
    assert [token.tag_ for token in doc] == ["T2", "T3", "T3", "T3"]
    assert [token.lemma_ for token in doc] == ["ab", "", "", ""]
    assert doc.user_data["read"] == ["AB", "C-D"]


def test_a_saved_pipeline_keeps_the_rules_of_the_other_tokenizer(tmp_path: Path) -> None:
    nlp = make()
    nlp.tokenizer.tokenizer.add_special_case("cannotbe", [{"ORTH": "cannot"}, {"ORTH": "be"}])
    nlp.to_disk(tmp_path)
    of_bytes = make().from_bytes(nlp.to_bytes())
    for other in (spacy.load(tmp_path), of_bytes, pickle.loads(pickle.dumps(nlp))):
        assert words(other("cannotbe x-y")) == ["cannot", "be", "x", "-", "y"]


def test_several_processes_make_the_same_tokens() -> None:
    texts = ["a-b c", "d.e"] * 3
    assert list(map(words, NLP.pipe(texts, n_process=2))) == list(map(words, NLP.pipe(texts)))


def test_a_memory_zone_forgets_its_parts() -> None:
    nlp = make()
    for text in ("one-two", "two-three", "one-two"):
        with nlp.memory_zone():
            assert words(nlp(text)) == text.replace("-", " - ").split()
    assert words(nlp("one-three")) == ["one", "-", "three"]
    assert nlp("one-three").text == "one-three"


def test_a_tokenizer_of_another_language_is_named() -> None:
    config = {"nlp": {"tokenizer": {**CONFIG["nlp"]["tokenizer"]}}}
    config["nlp"]["tokenizer"]["tokenizer"] = {"@tokenizers": "spacy.ja.JapaneseTokenizer"}
    with pytest.raises(ValueError, match=r"spacy\.lang\.ja is for another language .* 'es'"):
        spacy.blank("es", config=config)


def test_the_other_tokenizer_is_initialized() -> None:
    class Initialized(_Tagging):
        def initialize(self, get_examples: object, *, nlp: Language | None = None) -> None:
            self.seen = nlp

    nlp = spacy.blank("xx")
    nlp.tokenizer = SplitTokenizer(nlp.vocab, Initialized(nlp))
    nlp.initialize()
    assert nlp.tokenizer.tokenizer.seen is nlp
