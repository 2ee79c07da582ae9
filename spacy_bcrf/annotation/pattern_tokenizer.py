"""`spacy-bcrf.PatternTokenizer.v1`: a regular expression finds the tokens."""

import re
from collections.abc import Callable
from itertools import pairwise

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import DummyTokenizer
from spacy.vocab import Vocab


def make_pattern_tokenizer(pattern: str) -> Callable[[Language], "PatternTokenizer"]:
    return lambda nlp: PatternTokenizer(nlp.vocab, pattern)


class PatternTokenizer(DummyTokenizer):
    """Tokenizer whose tokens begin at the matches of a regular expression.

    A token goes on up to the next match, so it also has the line breaks and signs that no match
    has. One space at its end is its `whitespace_`. `doc.text` always equals the input text.
    """

    def __init__(self, vocab: Vocab, pattern: str) -> None:
        """pattern: ValueError naming the position if it is no regular expression."""
        self.vocab = vocab
        try:
            self._find = re.compile(pattern).finditer
        except re.error as error:
            raise ValueError(f"the tokenizer's pattern {pattern!r}: {error}") from error

    def __call__(self, text: str) -> Doc:
        starts = [match.start() for match in self._find(text)]
        bounds = [0, *starts[1:], len(text)] if text else []
        words = [text[start:end] for start, end in pairwise(bounds)]
        spaces = [len(word) > 1 and word[-1] == " " for word in words]
        words = [word[: len(word) - space] for word, space in zip(words, spaces, strict=True)]
        return Doc(self.vocab, words=words, spaces=spaces)
