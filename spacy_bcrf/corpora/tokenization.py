"""Which tokenizer fits the annotation of texts: how many spans cut the tokens of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.annotation.token_differences import TRACE, TokenDifferences
from spacy_bcrf.annotation.tokenizers import fits_parts, part_pattern

TokenizerName = Literal["language", "split", "capitals"]
"""The tokenizer of the language, or `SplitTokenizer` on top of it, without or with `capitals`."""
TokenizerChoice = Literal["auto", "language", "split", "capitals"]
"""A tokenizer, or the one that fits the annotation."""
SPLIT = "spacy-bcrf.SplitTokenizer.v1"
CONFIGS: Mapping[TokenizerName, dict[str, Any]] = {
    "language": {},
    "split": {"tokenizer": {"@tokenizers": SPLIT}},
    "capitals": {"tokenizer": {"@tokenizers": SPLIT, "capitals": True}},
}
"""What the section [nlp] of a config has for a tokenizer."""
LEAST_SHARE = 0.02
"""`SplitTokenizer` is chosen if it keeps more than this share of all spans that the language's
tokenizer cuts. F by characters fell by 0.7 to 9 at shares of 0.2% to 1.3% (TAB, UNER EWT, DAB). It
rose by 0.3 at 1.4%, by 2 at 4%, and by 6 to 15 at 9% to 18% (LifeBench, MEDDOCAN, PANORAMA)."""
MOST_CUT = 0.002
"""`capitals` are chosen if they keep more than this share of spans whole, which `split` cuts."""
MOST_TEXTS = 1000
"""Number of texts whose tokens are compared."""


def make_blank(lang: str, tokenizer: TokenizerName = "language") -> Language:
    """Return a blank pipeline with a tokenizer. ValueError for an unknown name."""
    if tokenizer not in CONFIGS:
        raise ValueError(f"tokenizer {tokenizer!r}: expected {', '.join(CONFIGS)}")
    if tokenizer == "language":
        return spacy.blank(lang)
    return spacy.blank(lang, config={"nlp": CONFIGS[tokenizer]})


@dataclass
class TokenFit:
    """Counts of spans in texts that the language's tokenizer makes tokens of.

    spans: all. cut: spans that cut tokens. kept: cut spans that fit `SplitTokenizer`. capitals:
    further spans that fit it with capitals. example: the first one of these, with its tokens.
    """

    spans: int = 0
    cut: int = 0
    kept: int = 0
    capitals: int = 0
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
        fits = fits_parts(doc, start, end)
        if fits or fits_parts(doc, start, end, capitals=True):
            self.kept += fits
            self.capitals += not fits
            outer = doc.char_span(start, end, alignment_mode="expand")
            self.example = self.example or f"{doc.text[start:end]!r} in {str(outer)!r}"

    @property
    def chosen(self) -> TokenizerName:
        """The one with the fewest tokens that fits, by LEAST_SHARE and MOST_CUT."""
        if self.kept + self.capitals <= LEAST_SHARE * self.spans:
            return "language"
        return "capitals" if self.capitals > MOST_CUT * self.spans else "split"

    def describe(self, lang: str) -> str:
        with_capitals = self.chosen == "capitals"
        still = self.cut - self.kept - self.capitals * with_capitals
        return (
            f"{self.cut:,} of {self.spans:,} spans cut tokens of spaCy's tokenizer for {lang}, "
            f"such as {self.example}; {still:,} cut tokens of {SPLIT}"
            f"{' with capitals' * with_capitals}"
        )


def compare_tokens(docs: Iterable[Doc], nlp: Language) -> TokenDifferences:
    """Compare the tokens of documents of known text with a pipeline's."""
    found = TokenDifferences()
    for doc in docs:
        if not doc.has_unknown_spaces:
            found.add(nlp.make_doc(doc.text), doc)
    return found


def match_tokens(docs: Sequence[Doc], lang: str) -> TokenizerName:
    """Return the first tokenizer whose tokens differ from documents' in TRACE at most."""
    for name in CONFIGS:
        if compare_tokens(docs, make_blank(lang, name)).share <= TRACE:
            return name
    return "language"


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
        f"{', '.join(own)}: has the tokens of {SPLIT}, but {other} has others. A "
        "pipeline makes one kind. Convert all with one `convert --tokenizer`"
    )
    return [note] if own else []
