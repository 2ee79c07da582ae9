"""Which tokenizer fits the annotation of texts: how many spans cut the tokens of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, get_args

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.annotation.token_differences import TRACE, TokenDifferences
from spacy_bcrf.annotation.tokenizers import fits_parts, part_pattern

TokenizerName = Literal["language", "split"]
"""The tokenizer of the language, or `SplitTokenizer` on top of it."""
TokenizerChoice = Literal["auto", "language", "split"]
"""A tokenizer, or the one that fits the annotation."""
SPLIT = {"@tokenizers": "spacy-bcrf.SplitTokenizer.v1"}
"""The section [nlp.tokenizer] of a config."""
LEAST_SHARE = 0.02
"""`SplitTokenizer` is chosen if it keeps more than this share of all spans that the language's
tokenizer cuts. F by characters fell by 0.7 to 9 at shares of 0.2% to 1.3% (TAB, UNER EWT, DAB). It
rose by 0.3 at 1.4%, by 2 at 4%, and by 6 to 15 at 9% to 18% (LifeBench, MEDDOCAN, PANORAMA)."""
MOST_TEXTS = 1000
"""Number of texts whose tokens are compared."""


def make_blank(lang: str, tokenizer: TokenizerName = "language") -> Language:
    """Return a blank pipeline with a tokenizer. ValueError for an unknown name."""
    if tokenizer not in get_args(TokenizerName):
        raise ValueError(f"tokenizer {tokenizer!r}: expected language or split")
    if tokenizer == "split":
        return spacy.blank(lang, config={"nlp": {"tokenizer": SPLIT}})
    return spacy.blank(lang)


@dataclass
class TokenFit:
    """Counts of spans in texts that the language's tokenizer makes tokens of.

    spans: all. cut: spans that cut tokens. kept: cut spans that fit `SplitTokenizer`. example:
    the first one of these, with its tokens.
    """

    spans: int = 0
    cut: int = 0
    kept: int = 0
    example: str = ""

    def add(self, doc: Doc, spans: Iterable[Sequence[Any]]) -> None:
        """Count spans of a document, (start, end, ..) in characters."""
        for start, end, *_ in spans:
            self.spans += 1
            if doc.char_span(start, end) is None:
                self.add_cut(doc, start, end)

    def add_cut(self, doc: Doc, start: int, end: int) -> None:
        """Count a span that cuts tokens, and is in `spans` already."""
        self.cut += 1
        if fits_parts(doc, start, end):
            self.kept += 1
            outer = doc.char_span(start, end, alignment_mode="expand")
            self.example = self.example or f"{doc.text[start:end]!r} in {str(outer)!r}"

    @property
    def chosen(self) -> TokenizerName:
        """The tokenizer that fits: "split" if it keeps at least LEAST_SHARE of the spans more."""
        return "split" if self.kept > LEAST_SHARE * self.spans else "language"

    def describe(self, lang: str) -> str:
        return (
            f"{self.cut:,} of {self.spans:,} spans cut tokens of spaCy's tokenizer for {lang}, "
            f"such as {self.example}; {self.cut - self.kept:,} cut tokens of {SPLIT['@tokenizers']}"
        )


def compare_tokens(docs: Iterable[Doc], nlp: Language) -> TokenDifferences:
    """Compare the tokens of documents of known text with a pipeline's."""
    found = TokenDifferences()
    for doc in docs:
        if not doc.has_unknown_spaces:
            found.add(nlp.make_doc(doc.text), doc)
    return found


def match_tokens(docs: Sequence[Doc], lang: str) -> TokenizerName:
    """Return the tokenizer that made documents: "split" if its tokens differ in TRACE at most."""
    differ = {}
    for name in get_args(TokenizerName):
        differ[name] = compare_tokens(docs, make_blank(lang, name))
    return "split" if differ["split"].share <= TRACE < differ["language"].share else "language"


def note_split(corpora: Mapping[str, Iterable[Doc]]) -> list[str]:
    """Return a note if some corpora have the tokens of `SplitTokenizer`, and others clearly not."""
    split = part_pattern().fullmatch
    shares = {}
    for name, docs in corpora.items():
        texts = [doc for doc in islice(docs, MOST_TEXTS) if not doc.has_unknown_spaces]
        whole = [all(split(token.text) for token in doc) for doc in texts]
        shares[name] = (sum(whole), len(whole))
    other = min(shares, key=lambda name: shares[name][0] / max(1, shares[name][1]))
    share = shares[other][0] / max(1, shares[other][1])
    own = [name for name, (n, of) in shares.items() if n == of and share**n < 0.01]
    note = (
        f"{', '.join(own)}: has the tokens of {SPLIT['@tokenizers']}, but {other} has others. A "
        "pipeline makes one kind. Convert all with one `convert --tokenizer`"
    )
    return [note] if own else []
