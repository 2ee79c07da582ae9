"""`bcrf_tagger`: one tag a token, fine-grained or universal parts of speech."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS  # type: ignore[import-not-found]
from spacy.parts_of_speech import IDS as UPOS  # type: ignore[import-not-found]
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_bcrf.annotation.arrays import UNKNOWN, LabelIndex, Values, read_docs
from spacy_bcrf.annotation.partial import has_allowed_tags, read_allowed
from spacy_bcrf.chain import Inference, Potentials

from .sequence_labeler import Gold, SequenceLabeler

ATTRIBUTES = ("tag", "pos")


def check_attribute(name: str, attribute: str) -> None:
    """ValueError for one that is none of ATTRIBUTES."""
    if attribute not in ATTRIBUTES:
        raise ValueError(f"[{name}] attribute must be tag or pos, got {attribute!r}")


def check_label(name: str, attribute: str, label: str) -> None:
    """ValueError for a label that the attribute cannot hold."""
    if attribute == "pos" and label not in UPOS:
        raise ValueError(
            f"[{name}] {label!r} is no universal part of speech, which attribute = 'pos' "
            f"needs: {', '.join(sorted(filter(None, UPOS)))}"
        )


def score_tags(
    examples: Iterable[Example], *, attribute: str = "tag", **settings: Any
) -> dict[str, Any]:
    """`tag_acc` or `pos_acc`, as spaCy's own tagger and morphologizer compute them."""
    return Scorer.score_token_attr(examples, attribute, **settings)


def make_scorer() -> Callable:
    """`spacy-bcrf.Tagger.v1`"""
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
        label_smoothing: float = 0.0,
        scorer: Callable | None = score_tags,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
    ) -> None:
        """attribute: "tag" or "pos". overwrite: whether to replace tags that a Doc already has.
        label_smoothing: how much of each gold tag training spreads evenly over all tags, in [0, 1).
            Only heads with probabilities can: with others it is left out, with a warning.
        annotate, temperature: see `SequenceLabeler`.
        """
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"[{name}] label_smoothing must be in [0, 1), got {label_smoothing}")
        check_attribute(name, attribute)
        self.attribute_ids = (IDS[attribute.upper()],)
        self.overwrite = overwrite
        head = model.get_ref("output_layer") if model.has_ref("output_layer") else None
        objective = head.attrs.get("objective") if head else None
        if label_smoothing and objective is not None and not isinstance(objective, Inference):
            # It would pull all scores together, since being right costs nothing by how much.
            warnings.warn(
                f"[{name}] label_smoothing = {label_smoothing} is left out: "
                f"{type(objective).__name__} has no probabilities to smooth",
                stacklevel=2,
            )
            label_smoothing = 0.0
        self.label_smoothing = label_smoothing
        super().__init__(
            vocab,
            model,
            name,
            scorer=scorer,
            annotate=annotate,
            temperature=temperature,
            attribute=attribute,
        )

    @property
    def tags(self) -> list[str]:
        return list(self.labels)

    def _refresh(self) -> None:
        self._index = LabelIndex(self._label_values())
        super()._refresh()

    def _tag_values(self) -> list[tuple[int, ...]]:
        return [(value,) for value in self._label_values()]

    def _interpret(self, doc: Doc, tags: NDArray[np.int32]) -> list[str]:
        return [self.labels[tag] for tag in tags.tolist()]

    def _encode(self, values: Values, lengths: NDArray[np.int32]) -> tuple[NDArray, NDArray]:
        ids = self._index.find(values[:, 0]).astype("int32")
        return ids, (ids < 0) & (values[:, 0] != 0)

    def _align(self, example: Example) -> Values:
        aligned = example.get_aligned(self.cfg["attribute"].upper())
        return np.array([[value or 0] for value in aligned], dtype="uint64").reshape(-1, 1)

    def _merge(self, old: Values, new: Values) -> Values:
        return new if self.overwrite else np.where(old > 0, old, new)

    def _keep(self, docs: Sequence[Doc], tags: NDArray[np.int32]) -> NDArray[np.int32]:
        if self.overwrite:
            return tags
        old = read_docs(docs, self.attribute_ids)[:, 0]
        return np.where(old > 0, self._index.find(old), tags).astype("int32")

    def _is_marked(self, doc: Doc) -> bool:
        return has_allowed_tags(doc)

    def _mark(
        self, example: Example, values: Values, allowed: NDArray[np.bool_]
    ) -> list[NDArray[np.bool_]]:
        for token, names in read_allowed(example, "allowed_tags").items():
            if unknown := sorted(names - set(self.labels)):
                raise ValueError(f"unknown labels {', '.join(unknown)}")
            tags = np.isin(self.labels, list(names))
            if not (tags & allowed[token]).any():
                tag = self.labels[int(allowed[token].argmax())]
                word = example.predicted[token].text
                raise ValueError(
                    f"{word!r} (token {token}) is {tag}, and may only be {', '.join(sorted(names))}"
                )
            allowed[token] &= tags
        return []

    def _lose(self, potentials: Potentials, gold: Gold) -> tuple[float, Potentials]:
        loss, gradient = super()._lose(potentials, gold)
        if self.label_smoothing:
            # A Fenchel-Young loss is B(w) - <w, y>: only y changes, in its tags and not its pairs.
            xp = self.model.ops.xp
            tags = gold.tags
            if tags.dtype == bool:
                tags = xp.where(tags.sum(axis=1) == 1, tags.argmax(axis=1), UNKNOWN)
            known = xp.flatnonzero(tags >= 0)
            tags, weight = tags[known], self.label_smoothing
            gradient.unary[known, tags] += weight
            gradient.unary[known] -= weight / potentials.unary.shape[1]
            unary = potentials.unary[known]
            spread = unary[self.model.ops.xp.arange(len(tags)), tags] - unary.mean(axis=1)
            loss += weight * float(spread.sum())
        return loss, gradient

    def _check_label(self, label: str) -> None:
        super()._check_label(label)
        check_label(self.name, self.cfg["attribute"], label)
