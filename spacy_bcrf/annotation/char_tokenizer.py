"""`spacy-bcrf.CharTokenizer.v1`: one token a character, for `bcrf_segmenter`."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import DummyTokenizer
from spacy.vocab import Vocab

# What joins the character before it without being a mark by its category: zero-width (non-)joiner,
# halfwidth sound marks, Thai and Lao AM; beyond the basic plane skin tones, tags, variants.
_JOINERS = "\u200c\u200d\uff9e\uff9f\u0e33\u0eb3"
_ASTRAL_JOINERS = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
# No mark beyond but those.
_LAST_MARK = 0x1FFFF


def make_char_tokenizer() -> Callable[[Language], "CharTokenizer"]:
    """`spacy-bcrf.CharTokenizer.v1`"""
    return lambda nlp: CharTokenizer(nlp.vocab)


class CharTokenizer(DummyTokenizer):
    """One token for each character as its reader sees it.

    What belongs to one character stays together: combining marks, Hangul jamo, flags, emoji with
    skin tones or joined to others (the extended grapheme clusters of Unicode's annex 29, found by
    the categories that Python knows of; a zero-width joiner joins whatever comes next but space).
    Spaces are as in spaCy: one after a token belongs to it, all others are a token of whitespace
    for each run. The text of the Doc is the text, whatever it is.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._find = _pattern().findall

    def __call__(self, text: str) -> Doc:
        """ValueError for half of a surrogate pair, which spaCy cannot store."""
        try:
            text.encode("utf8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"character {error.start} of the text is {text[error.start]!r}, half of a "
                "surrogate pair and no character: decode the text by its right encoding"
            ) from None
        found = self._find(text)
        words, spaces = [word for word, _ in found], [bool(space) for _, space in found]
        return Doc(self.vocab, words=words, spaces=spaces)


@cache
def _pattern() -> re.Pattern[str]:
    """Finds (character or run of whitespace, the space that belongs to it or nothing)."""
    marks = [chr(c) for c in range(_LAST_MARK + 1) if unicodedata.category(chr(c))[0] == "M"]
    basic = "".join(mark for mark in marks if mark <= "\uffff")
    astral = "".join(mark for mark in marks if mark > "\uffff")
    # The guard makes it four times faster: `re` tries sets with astral characters one by one.
    joining = f"(?:[{basic}{_JOINERS}]|(?=[\U00010000-\U0010ffff])[{astral}{_ASTRAL_JOINERS}])"
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    leading, syllable = "[\u1100-\u115f\ua960-\ua97c]", "[\uac00-\ud7a3\u1160-\u11a7\ud7b0-\ud7c6]"
    hangul = f"(?:{leading}+{syllable}?|{syllable})[\u1160-\u11ff\ud7b0-\ud7fb]*"
    joined = f"(?:{joining}(?:(?<=\u200d)(?:{flag}|\\S))?)*"
    return re.compile(
        rf"(\s+(?!{joining})|(?:{flag}|{hangul}|.){joined})( (?!{joining}))?", re.DOTALL
    )
