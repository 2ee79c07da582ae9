"""The chains of spans that may overlap: a label has one for each of its layers."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from spacy.attrs import IS_SPACE, SENT_START  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span

from .option_checks import check_dollars

ENOUGH = 0.99
"""A label has so many layers that they hold this share of its spans in the training data."""
MAX_LAYERS = 4


class SpanLayers:
    """Which chain has which labels, and which span belongs to which layer.

    Each of L labels has a chain for each of its layers; the k-th layer has its k-th outermost
    spans. The labels of an exclusive group, at most K, share their C chains. units: labels and
    layer, from 0, of each chain. labels: (C, K) of the slots, -1 for none. chains: (L, layers) of
    the labels, -1 for none. slots: (L,) of the labels. places: chains and slot by a label's value.
    """

    def __init__(self, layers: int | None, exclusive: Sequence[Sequence[str]]) -> None:
        """layers: number for each label; None to choose them. exclusive: see `OverlappingCodec`."""
        self._groups = _read_groups(exclusive)
        if layers is not None and (not isinstance(layers, int) or layers < 1 or layers is True):
            raise ValueError(f"layers must be a number of at least 1 or null, got {layers!r}")
        self._fixed = layers
        groups = [list(group) for group in dict.fromkeys(self._groups.values())]
        self.settings = {
            "layers": "auto" if layers is None else str(layers),
            "exclusive": json.dumps(groups),
        }
        self.n_slots = max(map(len, groups), default=1)

    def set_labels(
        self, labels: Sequence[str], strings: StringStore, found: Mapping[str, int]
    ) -> None:
        """Set the labels, and with them the chains. found: the chosen layers of labels."""
        units = dict.fromkeys(self._groups.get(label, (label,)) for label in labels)
        self.units = [
            (unit, layer)
            for unit in units
            for layer in range(self._fixed or max(found.get(label, 1) for label in unit))
        ]
        self.n_chains = max(1, len(self.units))
        index = {label: i for i, label in enumerate(labels)}
        self.labels = np.full((self.n_chains, self.n_slots), -1)
        self.places: dict[int, tuple[list[int], int]] = {}
        for chain, (unit, _) in enumerate(self.units):
            for slot, label in enumerate(unit):
                if label in index:
                    self.labels[chain, slot] = index[label]
                    self.places.setdefault(strings.add(label), ([], slot))[0].append(chain)
        places = [self.places[strings.add(label)] for label in labels]
        most = max((len(chains) for chains, _ in places), default=1)
        self.chains = np.array([c + [-1] * (most - len(c)) for c, _ in places], "int64")
        self.chains = self.chains.reshape(-1, most)
        self.slots = np.array([slot for _, slot in places], dtype="int64")

    def name_tags(self, states: Sequence[str]) -> list[str]:
        """Return the tags of all chains: state, labels, layer from 2 on. states: tags of slots."""
        return [_name(state, *unit) for unit in self.units or [((), 0)] for state in states]

    def find_missing(self, labels: Sequence[str]) -> set[str]:
        return {*self._groups} - {*labels}

    def place(self, doc: Doc, spans: Iterable[Span]) -> Iterator[tuple[int, int, int, int, str]]:
        """Yield start, end, label and layer from 1, outer spans first; 0 and why for no layer."""
        if not spans:
            return
        sent_start, is_space = doc.to_array([SENT_START, IS_SPACE]).T.tolist()
        last: dict[tuple[str, ...], list[int]] = {}
        distinct = {(*_trim(span.start, span.end, is_space), span.label) for span in spans}
        for start, end, label in sorted(distinct, key=lambda span: (span[0], -span[1], span[2])):
            if is_space[start]:
                yield start, end, label, 0, "is whitespace"
            elif 1 in sent_start[start + 1 : end]:
                yield start, end, label, 0, "crosses a sentence start"
            else:
                name = doc.vocab.strings[label]
                ends = last.setdefault(self._groups.get(name, (name,)), [])
                layer = next((k for k, stop in enumerate(ends) if stop <= start), len(ends))
                ends[layer : layer + 1] = [end]
                yield start, end, label, layer + 1, ""

    # Choice of the layers

    def count(self, doc: Doc, spans: Iterable[Span]) -> Counter[tuple[str, int]]:
        """Count spans by label and layer, from 1 on; 0 for no layer."""
        placed = self.place(doc, spans)
        return Counter((doc.vocab.strings[label], layer) for _, _, label, layer, _ in placed)

    def describe(
        self, labels: Sequence[str], counts: Mapping[tuple[str, int], int]
    ) -> tuple[str, str]:
        """Return the numbers of chains and layers, and of counted spans in no layer, or ""."""
        layers = dict(zip(labels, (self.chains >= 0).sum(axis=1).tolist(), strict=True))
        some = ", ".join(f"{label} has {n} layers" for label, n in layers.items() if n > 1)
        said = f"{self.n_chains} chains: {some or 'one layer'}{', all others one' * bool(some)}"
        no_layer = Counter[str]()
        for (label, layer), n in counts.items():
            if not layer or layer > layers.get(label, layer):
                no_layer[label] += n
        if not no_layer:
            return said, ""
        by_label = ", ".join(f"{label} {n:,}" for label, n in sorted(no_layer.items()))
        return said, (
            f"{no_layer.total():,} of {sum(counts.values()):,} spans are in no layer, and training "
            f"leaves them out: {by_label}. They lie deeper than the layers of their label, cross "
            "spans of it or a sentence start, or are whitespace"
        )


def choose_layers(
    counts: Mapping[tuple[str, int], int], known: Mapping[str, int]
) -> dict[str, int]:
    """Return the least layers, above 1, that hold ENOUGH of a label's spans; or known ones."""
    found = dict(known)
    for label in {label for label, _ in counts}:
        total = sum(n for (name, layer), n in counts.items() if name == label and layer)
        held = np.cumsum([counts.get((label, k), 0) for k in range(1, MAX_LAYERS)])
        found[label] = int((held < ENOUGH * total).sum()) + 1
    return {label: n for label, n in sorted(found.items()) if n > 1}


def _trim(start: int, end: int, is_space: Sequence[bool]) -> tuple[int, int]:
    """Return a span without the whitespace at its edges, one of whitespace alone as it is."""
    words = [token for token in range(start, end) if not is_space[token]]
    return (words[0], words[-1] + 1) if words else (start, end)


def _name(state: str, unit: tuple[str, ...], layer: int) -> str:
    prefix, _, slot = state.partition("-")
    known = unit[int(slot)] if slot and int(slot) < len(unit) else slot and f"unused {slot}"
    return f"{prefix}-{known or '+'.join(unit)}{f' {layer + 1}' if layer else ''}"


def _read_groups(exclusive: Any) -> dict[str, tuple[str, ...]]:
    """Return the exclusive group of each label. ValueError unless they are disjoint lists."""
    groups: dict[str, tuple[str, ...]] = {}
    for group in exclusive if isinstance(exclusive, list | tuple) else [exclusive]:
        is_group = isinstance(group, list | tuple) and all(isinstance(x, str) for x in group)
        if not is_group or len(group) < 2 or group is exclusive:
            raise ValueError(
                'exclusive must be a list of lists of at least two labels, such as [["DRUG", '
                f'"DOSE"]], got {exclusive!r}'
            )
        for label in group:
            check_dollars("exclusive", label)
            if label in groups:
                raise ValueError(f"exclusive has the label {label!r} twice")
            groups[label] = tuple(group)
    return groups
