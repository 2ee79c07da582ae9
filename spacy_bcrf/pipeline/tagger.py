"""`bcrf_tagger`: one tag a token, fine-grained or universal parts of speech."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.parts_of_speech import IDS as UPOS  # type: ignore[import-not-found]
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry
from spacy.vocab import Vocab
from thinc.api import Model

from ..chain import Potentials
from .annotation import LabelIndex, Values
from .default_model import DEFAULT_MODEL
from .sequence_labeler import SequenceLabeler

ATTRIBUTES = ("tag", "pos")


@Language.factory(
    "bcrf_tagger",
    assigns=["token.tag", "token.pos"],
    default_config={
        "model": DEFAULT_MODEL,
        "attribute": "tag",
        "overwrite": False,
        "scorer": {"@scorers": "spacy-bcrf.Tagger.v1"},
    },
    # Only the score of its attribute is there; the other then counts as 0.
    default_score_weights={"tag_acc": 0.5, "pos_acc": 0.5},
)
def make_tagger(
    nlp: Language,
    name: str,
    model: Model[list[Doc], Potentials],
    attribute: Literal["tag", "pos"],
    overwrite: bool,
    scorer: Callable | None,
) -> "Tagger":
    return Tagger(nlp.vocab, model, name, attribute=attribute, overwrite=overwrite, scorer=scorer)


def score_tags(
    examples: Iterable[Example], *, attribute: str = "tag", **settings: Any
) -> dict[str, Any]:
    """`tag_acc` or `pos_acc`, as spaCy's own tagger and morphologizer compute them."""
    return Scorer.score_token_attr(examples, attribute, **settings)


@registry.scorers("spacy-bcrf.Tagger.v1")
def make_scorer() -> Callable:
    return score_tags


class Tagger(SequenceLabeler):
    """Tags of which any may follow any, learned and written to Token.tag or Token.pos."""

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str = "bcrf_tagger",
        *,
        attribute: str = "tag",
        overwrite: bool = False,
        scorer: Callable | None = score_tags,
    ) -> None:
        """attribute: "tag" or "pos". overwrite: whether to replace tags that a Doc already has."""
        if attribute not in ATTRIBUTES:
            raise ValueError(f"[{name}] attribute must be tag or pos, got {attribute!r}")
        self.attribute_ids = (IDS[attribute.upper()],)
        self.overwrite = overwrite
        super().__init__(vocab, model, name, scorer=scorer, attribute=attribute)

    @property
    def tags(self) -> list[str]:
        return list(self.labels)

    def _refresh(self) -> None:
        self._index = LabelIndex(self._label_values())
        super()._refresh()

    def _tag_values(self) -> list[tuple[int, ...]]:
        return [(value,) for value in self._label_values()]

    def _encode(self, values: Values, lengths: NDArray[np.int32]) -> tuple[NDArray, NDArray]:
        ids = self._index.find(values[:, 0]).astype("int32")
        return ids, (ids < 0) & (values[:, 0] != 0)

    def _align(self, example: Example) -> Values:
        aligned = example.get_aligned(self.cfg["attribute"].upper())
        return np.array([[value or 0] for value in aligned], dtype="uint64").reshape(-1, 1)

    def _merge(self, old: Values, new: Values) -> Values:
        return new if self.overwrite else np.where(old > 0, old, new)

    def _check_label(self, label: str) -> None:
        super()._check_label(label)
        if self.cfg["attribute"] == "pos" and label not in UPOS:
            raise ValueError(
                f"[{self.name}] {label!r} is no universal part of speech, which attribute = 'pos' "
                f"needs: {', '.join(sorted(filter(None, UPOS)))}"
            )
