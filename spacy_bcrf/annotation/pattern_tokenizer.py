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
        words, spaces = [], []
        for start, end in pairwise(bounds):
            has_space = text[end - 1] == " " and end - start > 1
            words.append(text[start : end - has_space])
            spaces.append(has_space)
        return Doc(self.vocab, words=words, spaces=spaces)
