"""`spacy-bcrf.CharTokenizer.v1`: one token per character, for `bcrf_segmenter`."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import DummyTokenizer
from spacy.vocab import Vocab

# These characters join their predecessor, but their Unicode category is not "mark": zero-width
# joiner and non-joiner, halfwidth sound marks, Thai and Lao AM.
_JOINERS = "\u200c\u200d\uff9e\uff9f\u0e33\u0eb3"
# The same outside the basic plane: skin tones, tags, variation selectors.
_ASTRAL_JOINERS = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
# Above this code point only the variation selectors of _ASTRAL_JOINERS are marks.
_LAST_MARK = 0x1FFFF


def make_char_tokenizer() -> Callable[[Language], "CharTokenizer"]:
    """Return a function that makes the tokenizer of a pipeline."""
    return lambda nlp: CharTokenizer(nlp.vocab)


class CharTokenizer(DummyTokenizer):
    """Tokenizer with one token per extended grapheme cluster (Unicode Standard Annex 29).

    A cluster keeps combining marks, Hangul jamo, flags, skin tones and joined emoji together.
    Python's Unicode categories decide which characters are marks. Unlike in the annex, a zero-width
    joiner joins any next character except whitespace.

    A single space after a token belongs to the token, as in spaCy. Each other run of whitespace is
    one token. `doc.text` always equals the input text.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._find = _pattern().findall

    def __call__(self, text: str) -> Doc:
        """Tokenize a text in linear time.

        Raises ValueError naming the position of a lone surrogate, which spaCy cannot store.
        """
        try:
            text.encode("utf8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"character {error.start} of the text is the lone surrogate {text[error.start]!r}; "
                "decode the text with its correct encoding"
            ) from None
        found = self._find(text)
        words, spaces = [word for word, _ in found], [bool(space) for _, space in found]
        return Doc(self.vocab, words=words, spaces=spaces)


@cache
def _pattern() -> re.Pattern[str]:
    """Return a pattern with two groups: a cluster or whitespace run, and its trailing space."""
    marks = [chr(c) for c in range(_LAST_MARK + 1) if unicodedata.category(chr(c))[0] == "M"]
    basic = "".join(mark for mark in marks if mark <= "\uffff")
    astral = "".join(mark for mark in marks if mark > "\uffff")
    # The lookahead makes matching four times faster: `re` tests sets outside the basic plane
    # character by character.
    joining = f"(?:[{basic}{_JOINERS}]|(?=[\U00010000-\U0010ffff])[{astral}{_ASTRAL_JOINERS}])"
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    leading, syllable = "[\u1100-\u115f\ua960-\ua97c]", "[\uac00-\ud7a3\u1160-\u11a7\ud7b0-\ud7c6]"
    hangul = f"(?:{leading}+{syllable}?|{syllable})[\u1160-\u11ff\ud7b0-\ud7fb]*"
    joined = f"(?:{joining}(?:(?<=\u200d)(?:{flag}|\\S))?)*"
    return re.compile(
        rf"(\s+(?!{joining})|(?:{flag}|{hangul}|.){joined})( (?!{joining}))?", re.DOTALL
    )
