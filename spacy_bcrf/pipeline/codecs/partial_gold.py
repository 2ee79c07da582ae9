"""Gold documents that annotate a part only, as sets of allowed tags."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import Bools, Values
from spacy_bcrf.annotation.entity_tags import BEGIN, MISSING, OUTSIDE, EntityTags
from spacy_bcrf.annotation.partial import (
    PartialAnnotation,
    find_contradictions,
    read_allowed_tags,
    read_annotated_labels,
    read_partial_annotation,
)

from .span_layers import SpanLayers


class PartialGold(ABC):
    """Reads the partial annotation of one kind, and applies it to tags."""

    def find_annotated_labels(self, doc: Doc) -> Collection[str] | None:
        """Return the labels that a gold document annotates; None for all labels."""
        return None

    @abstractmethod
    def read(self, examples: Sequence[Example]) -> tuple[dict[int, Any], dict[int, str]]:
        """Return the references' partial annotation for `constrain`, and problems by example."""

    @abstractmethod
    def constrain(
        self, example: Example, partial: Any, values: Values, allowed: Bools
    ) -> list[tuple[int, Bools]]:
        """Apply partial annotation of an example to its allowed tags (C n, T), in place.

        RETURNS wrong labelings, each as its chain and tags (n, T). ValueError for contradictions.
        """

    def excludes(self, partial: Any, start: int, end: int, label: str, is_annotated: bool) -> bool:
        """Whether a prediction that is not gold is wrong. is_annotated: whether its tokens are."""
        return is_annotated


class PartialTags(PartialGold):
    """Allowed tags of tokens, and gold tags "!N", which allow all tags but N.

    wrong: (T,) the values of "!N" by tag. attribute: of tokens. align: returns the gold values
    (n, 1) of an example.
    """

    def __init__(
        self,
        tags: Sequence[str],
        wrong: NDArray[np.uint64],
        attribute: int,
        align: Callable[[Example], Values],
    ) -> None:
        self._tags, self._wrong, self._attribute, self._align = list(tags), wrong, attribute, align

    def read(self, examples: Sequence[Example]) -> tuple[dict[int, Any], dict[int, str]]:
        """Return the allowed tags by token, and problems. "!N" allows all but N, as for spaCy."""
        found, problems = read_allowed_tags(examples)
        for i, example in enumerate(examples):
            if not np.isin(example.reference.to_array(self._attribute), self._wrong).any():
                continue
            values = self._align(example)[:, 0]
            for token in np.flatnonzero(np.isin(values, self._wrong)).tolist():
                wrong = self._tags[int((self._wrong == values[token]).argmax())]
                by_token = found.setdefault(i, {})
                by_token[token] = by_token.get(token, frozenset(self._tags)) - {wrong}
        return found, problems

    def constrain(
        self, example: Example, partial: Any, values: Values, allowed: Bools
    ) -> list[tuple[int, Bools]]:
        """See `PartialGold.constrain`."""
        for token, names in partial.items():
            tags = np.isin(self._tags, list(names))
            if unknown := sorted(names - set(self._tags)):
                raise ValueError(f"unknown labels {', '.join(unknown)}")
            if not (tags & allowed[token]).any():
                tag = self._tags[int(allowed[token].argmax())]
                word, expected = example.predicted[token].text, ", ".join(sorted(names))
                raise ValueError(f"{word!r} (token {token}) is {tag}, but may only be {expected}")
            allowed[token] &= tags
        return []


class PartialSpans(PartialGold):
    """Annotated labels, ambiguous and incorrect spans of flat spans, see `annotation.partial`.

    keys: the span groups of ambiguous and of incorrect spans; None ignores them.
    """

    may_overlap = False

    def __init__(self, entities: EntityTags, keys: tuple[str | None, str | None]) -> None:
        self._entities, self._keys = entities, keys

    def find_annotated_labels(self, doc: Doc) -> Collection[str] | None:
        """See `PartialGold.find_annotated_labels`."""
        return read_annotated_labels(doc)

    def read(self, examples: Sequence[Example]) -> tuple[dict[int, Any], dict[int, str]]:
        """See `PartialGold.read`."""
        return read_partial_annotation(examples, *self._keys)

    def constrain(
        self, example: Example, partial: PartialAnnotation, values: Values, allowed: Bools
    ) -> list[tuple[int, Bools]]:
        """See `PartialGold.constrain`."""
        iob, types = values.T
        if partial.allowed or partial.ambiguous or partial.incorrect:
            entities = self._entities.spans(iob, types)
            if problems := [*find_contradictions(example.predicted, partial, entities)]:
                raise ValueError("; ".join(problems))
        wrong = self._entities.constrain(allowed, iob, partial)
        return [(0, self._entities.pin(allowed, *span)) for span in wrong]

    def excludes(
        self, partial: PartialAnnotation, start: int, end: int, label: str, is_annotated: bool
    ) -> bool:
        """See `PartialGold.excludes`."""
        return partial.excludes(start, end, label, is_annotated, self.may_overlap)


class PartialLayers(PartialSpans):
    """The same for spans that may overlap. labels: names."""

    may_overlap = True

    def __init__(
        self,
        entities: EntityTags,
        keys: tuple[str | None, str | None],
        labels: Sequence[str],
        layers: SpanLayers,
    ) -> None:
        super().__init__(entities, keys)
        self._labels, self._layers = labels, layers

    def constrain(
        self, example: Example, partial: PartialAnnotation, values: Values, allowed: Bools
    ) -> list[tuple[int, Bools]]:
        """See `PartialGold.constrain`. A span or token of several labels leaves chains open."""
        rejected = []
        for chain, tags in enumerate(np.split(allowed, self._layers.n_chains)):
            column = values[:, chain]
            iob = np.where(column > 1, BEGIN, np.where(column == 1, OUTSIDE, MISSING))
            wrong = self._entities.constrain(tags, iob, self._translate(partial, chain))
            rejected += [(chain, self._entities.pin(tags, *span)) for span in wrong]
        return rejected

    def _translate(self, annotation: PartialAnnotation, chain: int) -> PartialAnnotation:
        """Return the partial annotation of one chain, with its slots in place of labels."""
        known, layers = self._labels, self._layers
        slots = {known[x]: str(k) for k, x in enumerate(layers.labels[chain]) if x >= 0}
        n_layers = sum(bool((row == chain).any()) * (row >= 0).sum() for row in layers.chains)
        is_only = n_layers == len(slots)

        def translate(names: Iterable[str]) -> frozenset[str]:
            if unknown := sorted({*names} - {*known, "", "O"}):
                raise ValueError(f"unknown labels {', '.join(unknown)}")
            if "" in names:
                return frozenset(slots.values())
            return frozenset(slots[name] for name in names if name in slots)

        ambiguous, unknown = {}, set(annotation.unknown)
        for bounds, names in annotation.ambiguous.items():
            found = translate(names)
            if is_only and "" not in names and len(found) == len(names):
                ambiguous[bounds] = found
            elif found:
                unknown.update(range(*bounds))
        allowed = {}
        for token, names in annotation.allowed.items():
            found = translate(names)
            is_sure = "O" not in names and is_only and len(found) == len(names)
            allowed[token] = found if is_sure else found | {"O"}
        labels = annotation.annotated_labels
        wrong = {bounds: translate(names) for bounds, names in annotation.incorrect.items()}
        return PartialAnnotation(
            None if labels is None else translate(labels),
            allowed,
            ambiguous,
            {bounds: found for bounds, found in wrong.items() if found},
            frozenset(unknown),
        )


def read_partial(
    partial: PartialGold | None, examples: Sequence[Example]
) -> tuple[dict[int, Any], dict[int, str]]:
    """Return partial annotation and problems by example; none for a codec without."""
    return ({}, {}) if partial is None else partial.read(examples)
