"""Texts whose gold tokens differ from the pipeline's."""

from dataclasses import dataclass

import numpy as np
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.tokens import Doc

TRACE = 0.01
"""Largest share of texts with other tokens without a note. Equal tokenizers differ on no text. The
tokenizers of xx and of a language differ on 4% to 96% of the texts of 13 corpora."""


@dataclass
class TokenDifferences:
    """Counts of texts, and of texts with other tokens. example: the first of these tokens."""

    texts: int = 0
    others: int = 0
    example: str = ""

    def add(self, predicted: Doc, reference: Doc) -> None:
        """Compare the tokens of the pipeline with gold tokens of the same text."""
        self.texts += 1
        if np.array_equal(predicted.to_array(ORTH), reference.to_array(ORTH)):
            return
        self.others += 1
        known = {(token.idx, len(token)) for token in predicted}
        other = (token for token in reference if (token.idx, len(token)) not in known)
        if not self.example and (first := next(other, None)) is not None:
            start, end = first.idx, first.idx + len(first)
            ours = predicted.char_span(start, end, alignment_mode="expand")
            if ours is not None:
                self.example = f"{first.text!r} for {', '.join(repr(t.text) for t in ours)}"

    @property
    def share(self) -> float:
        return self.others / max(1, self.texts)

    def note(self, where: str) -> list[str]:
        """Return a note if more than TRACE of the texts have other tokens. where: the corpus."""
        if self.share <= TRACE:
            return []
        such = f", such as {self.example}" * bool(self.example)
        return [
            f"{where}: {self.others:,} of {self.texts:,} texts have other tokens than the pipeline"
            f"{such}. Training leaves out annotation that cuts the pipeline's tokens, and scores "
            "count it as missed. Convert the texts with the config's [nlp.tokenizer], see "
            "`convert --tokenizer`"
        ]
