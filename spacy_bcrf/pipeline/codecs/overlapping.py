"""The codec of spans that may overlap, in a span group `Doc.spans[key]`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, ORTH, SENT_START  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from bcrf.chain import Potentials, span_candidates, span_posteriors
from bcrf.chain.side_by_side import rows_by_chain
from bcrf.chain.span_posteriors import stretch_posteriors
from spacy_bcrf.annotation.arrays import (
    Bools,
    DocBatch,
    Values,
    read_gold,
)
from spacy_bcrf.annotation.entity_tags import BEGIN, MISSING, OUTSIDE
from spacy_bcrf.annotation.extensions import UserData
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    PartialAnnotation,
    find_labels,
)

from .codec import Ops, Predictions, ScoredSpans, SpanArrays, Tags, Unit
from .span_group import SpanGroupCodec, align_spans, check_span
from .spans import PartialSpanCodec

UNKNOWN_LABEL = 2**32
"""Added to the first value of a token in a span whose label is unknown."""
ENOUGH = 0.99
"""A label has so many layers that they hold this share of its spans in the training data."""
MAX_LAYERS = 4


class OverlappingCodec(PartialSpanCodec, SpanGroupCodec):
    """Spans that may overlap, as chains of a scheme's tags side by side.

    Each label has a chain for each of its layers. The k-th layer has the k-th outermost spans of
    the label. The labels of an exclusive group share their chains. The chains of a document are
    independent given the text, so the probability that a span is in one of its layers is
    1 - prod (1 - p).

    A document with n tokens has C n rows of tags: all tokens in the first chain, then in the second
    and so on. Values (N, C) are 0 without annotation, else 1 + the tag.
    """

    tag_unit: ClassVar[Unit] = "span"
    may_overlap: ClassVar[bool] = True

    def __init__(
        self,
        scheme: str,
        spans_key: str,
        layers: int | None = None,
        exclusive: Sequence[Sequence[str]] = (),
        incorrect_spans_key: str | None = INCORRECT,
        ambiguous_spans_key: str | None = AMBIGUOUS,
    ) -> None:
        """scheme: BILUO, BIO or BIES. spans_key: the name of the group. layers: of each label; None
        to choose them by `choose_layers`. exclusive: groups of labels that a token has at most one
        of. incorrect_spans_key, ambiguous_spans_key: see `EntityCodec`.
        """
        self._groups = _read_groups(exclusive)
        super().__init__(
            scheme,
            spans_key,
            "the layers, ",
            layers="auto" if layers is None else str(_check_layers(layers)),
            exclusive=json.dumps([list(group) for group in dict.fromkeys(self._groups.values())]),
        )
        self.set_keys(incorrect_spans_key, ambiguous_spans_key)
        self._layers = layers
        self.state: dict[str, Any] = {"layers_by_label": {}}
        self.predictions = self._predictions

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        """Set the labels, and with them the chains and their tags."""
        slots = [str(k) for k in range(max(map(len, self._groups.values()), default=1))]
        super().set_labels(slots, strings)
        self.labels = tuple(labels)
        units = dict.fromkeys(self._groups.get(label, (label,)) for label in labels)
        chains = [(unit, layer) for unit in units for layer in range(self._n_layers(unit))]
        index = {label: i for i, label in enumerate(labels)}
        states = self.tags
        self.tags_per_label = len(states)
        self.n_chains = max(1, len(chains))
        self.tags = [_name(state, *chain) for chain in chains or [((), 0)] for state in states]
        self._label_of = np.full((self.n_chains, len(slots)), -1)
        self._place_of: dict[int, tuple[list[int], int]] = {}
        for chain, (unit, _) in enumerate(chains):
            for slot, label in enumerate(unit):
                if label in index:
                    self._label_of[chain, slot] = index[label]
                    value = strings.add(label)
                    self._place_of.setdefault(value, ([], slot))[0].append(chain)
        places = [self._place_of[strings.add(label)] for label in labels]
        most = max((len(chains) for chains, _ in places), default=1)
        self._chains_of = np.array([c + [-1] * (most - len(c)) for c, _ in places], "int64")
        self._chains_of = self._chains_of.reshape(-1, most)
        self._slot_of = np.array([slot for _, slot in places], dtype="int64")
        # Chains of fewer labels than the largest group have slots that nothing may use.
        is_open = np.repeat(self._label_of >= 0, len(self.scheme.prefixes), axis=1)
        self._open = np.column_stack([np.ones(self.n_chains, bool), is_open])

    def _n_layers(self, unit: tuple[str, ...]) -> int:
        found = self.state["layers_by_label"]
        return self._layers or max(found.get(label, 1) for label in unit)

    def find_missing(self) -> Collection[str]:
        """Return the labels of exclusive groups that are not among the labels."""
        return self._groups.keys() - self.labels

    def count_layers(self, example: Example) -> Counter[tuple[str, int]]:
        """Count the gold spans of an example by label and layer, from 1 on; 0 for no layer."""
        doc = example.reference
        spans = self._place(example.predicted, doc.spans.get(self._key, ()))
        return Counter((doc.vocab.strings[label], layer) for _, _, label, layer, _ in spans)

    def choose_layers(self, counts: Mapping[tuple[str, int], int]) -> None:
        """Choose the least number of layers of each label that hold ENOUGH of its spans.

        counts: of the training data, see `count_layers`. A label without a span keeps its layers.
        """
        found = dict(self.state["layers_by_label"])
        for label in {label for label, _ in counts}:
            total = sum(n for (name, layer), n in counts.items() if name == label and layer)
            held = np.cumsum([counts.get((label, k), 0) for k in range(1, MAX_LAYERS)])
            found[label] = int((held < ENOUGH * total).sum()) + 1
        self.state = {"layers_by_label": {k: n for k, n in sorted(found.items()) if n > 1}}

    def describe(self, counts: Mapping[tuple[str, int], int]) -> tuple[str, str]:
        """Return the numbers of chains and layers, and of spans that no layer holds, or nothing.

        counts: of the training data, see `count_layers`.
        """
        layers = dict(zip(self.labels, (self._chains_of >= 0).sum(axis=1).tolist(), strict=True))
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
            "spans of it or a sentence start, or have whitespace at an edge"
        )

    # Gold

    def find_used_labels(self, doc: Doc) -> set[str]:
        return SpanGroupCodec.find_labels(self, doc) | find_labels(doc, self._keys)

    def probabilities(self, doc: Doc, spans: Sequence[Span]) -> list[float | None]:
        """Return the scores of the group, by boundaries and label."""
        group = doc.spans.get(self._key, ())
        scores = getattr(group, "attrs", {}).get("scores", ())
        pairs = zip(group, scores, strict=False)
        found = {(span.start, span.end, span.label): float(p) for span, p in pairs}
        return [found.get((span.start, span.end, span.label)) for span in spans]

    def read_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        """Return gold tags, values (N, C), and problems by example."""
        return read_gold(examples, self.n_chains, lambda example: self._read_layers(example)[0])

    def find_lost(self, example: Example) -> list[str]:
        """Describe the gold spans of an example that no layer can hold."""
        try:
            return self._read_layers(example)[1]
        except ValueError:
            return []

    def _read_layers(self, example: Example) -> tuple[Values, list[str]]:
        predicted, reference = example.predicted, example.reference
        values = np.zeros((len(predicted), self.n_chains), dtype="uint64")
        if self._key not in reference.spans:
            return values, []
        spans = list(reference.spans[self._key])
        for span in spans:
            check_span(span)
        if not np.array_equal(predicted.to_array(ORTH), reference.to_array(ORTH)):
            spans = align_spans(example, spans)
        values[:] = 1
        return values, self._encode(predicted, spans, values) if spans else []

    def _place(self, doc: Doc, spans: Iterable[Span]) -> Iterator[tuple[int, int, int, int, str]]:
        """Yield start, end, label and layer of each distinct span, outer spans first.

        The layer counts from 1; 0 for a span that no layer can hold, with the reason.
        """
        if not spans:
            return
        sent_start, is_space = doc.to_array([SENT_START, IS_SPACE]).T.tolist()
        last: dict[tuple[str, ...], list[int]] = {}
        distinct = {(span.start, span.end, span.label) for span in spans}
        for start, end, label in sorted(distinct, key=lambda span: (span[0], -span[1], span[2])):
            if is_space[start] or is_space[end - 1]:
                yield start, end, label, 0, "starts or ends on whitespace"
            elif 1 in sent_start[start + 1 : end]:
                yield start, end, label, 0, "crosses a sentence start"
            else:
                name = doc.vocab.strings[label]
                ends = last.setdefault(self._groups.get(name, (name,)), [])
                layer = next((k for k, stop in enumerate(ends) if stop <= start), len(ends))
                ends[layer : layer + 1] = [end]
                yield start, end, label, layer + 1, ""

    def _encode(self, doc: Doc, spans: Iterable[Span], values: Values) -> list[str]:
        """Write spans into values, all of which are O. RETURNS descriptions of the others."""
        first, inside, last, single = (
            1 + tags.astype("uint64") for tags in self.entities.span_tags
        )
        lost = []
        unknown = np.zeros(len(values), dtype=bool)
        for start, end, label, layer, why in self._place(doc, spans):
            if label not in self._place_of:
                unknown[start:end] = True
                continue
            chains, slot = self._place_of[label]
            if not 0 < layer <= len(chains):
                why = why or f"is in layer {layer}, but the label has {len(chains)}"
                name = doc.vocab.strings[label]
                lost.append(f"{name} {doc[start:end].text!r} (tokens {start}:{end}) {why}")
                continue
            chain = chains[layer - 1]
            if end - start == 1:
                values[start, chain] = single[slot]
            else:
                values[start, chain], values[end - 1, chain] = first[slot], last[slot]
                values[start + 1 : end - 1, chain] = inside[slot]
        values[unknown, 0] += UNKNOWN_LABEL
        return lost

    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        """Return gold tags (C N,), and a mask (N,) of tokens with unknown labels."""
        unknown = np.any(values >= UNKNOWN_LABEL, axis=1)
        ids = (values % UNKNOWN_LABEL).astype("int32") - 1
        return ids.ravel()[rows_by_chain(lengths, self.n_chains)], unknown

    def constrain(
        self, example: Example, partial: PartialAnnotation, values: Values, allowed: Bools
    ) -> list[tuple[int, Bools]]:
        """Apply partial annotation, see `Codec.constrain`.

        A span or token that is one of several labels leaves the chains of these labels open: no
        lattice of one chain says that another one has the span.
        """
        rejected = []
        for chain, tags in enumerate(np.split(allowed, self.n_chains)):
            column = values[:, chain]
            iob = np.where(column > 1, BEGIN, np.where(column == 1, OUTSIDE, MISSING))
            wrong = self.entities.constrain(tags, iob, self._of_chain(partial, chain))
            rejected += [(chain, self.entities.pin(tags, *span)) for span in wrong]
        return rejected

    def _of_chain(self, annotation: PartialAnnotation, chain: int) -> PartialAnnotation:
        """Return the partial annotation of one chain, with its slots in place of labels."""
        slots = {self.labels[x]: str(k) for k, x in enumerate(self._label_of[chain]) if x >= 0}
        n_layers = sum(bool((row == chain).any()) * (row >= 0).sum() for row in self._chains_of)
        is_only = n_layers == len(slots)

        def translate(names: Iterable[str]) -> frozenset[str]:
            if unknown := sorted({*names} - {*self.labels, "", "O"}):
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

    def open_tags(
        self, batch: DocBatch, ignore_annotation: bool = False
    ) -> tuple[Bools | None, Bools | None]:
        """Return the tags (C N, T) that sentence starts, whitespace, groups and presets allow."""
        sent_start, is_space = (batch.values[:, :2] == 1).T
        missing = np.zeros(len(is_space), dtype="uint64")
        allowed = self.entities.lattice(missing, missing, sent_start, is_space, batch.is_first)
        docs: Sequence[Doc] = () if ignore_annotation else batch
        presets = {i: found for i, doc in enumerate(docs) if (found := self._presets(doc))}
        if allowed is None and self._open.all() and not presets:
            return None, None
        tokens, chains = np.divmod(rows_by_chain(batch.lengths, self.n_chains), self.n_chains)
        lattice = self._open[chains]
        if allowed is not None:
            lattice &= allowed[tokens]
        starts = self.n_chains * (batch.lengths.cumsum(dtype="int64") - batch.lengths)
        for i, spans in presets.items():
            values = np.ones((len(batch[i]), self.n_chains), dtype="uint64")
            self._encode(batch[i], spans, values)
            ids = (values.T.ravel() % UNKNOWN_LABEL).astype("int64") - 1
            pinned = starts[i] + np.flatnonzero(ids)
            lattice[pinned] = np.arange(lattice.shape[1]) == ids[ids > 0][:, None]
        return lattice, is_space[tokens]

    def _presets(self, doc: Doc) -> list[Span]:
        """Return the spans that the group has before prediction. Predicted spans have scores."""
        # `SpanGroups.get` costs five times as much.
        group = doc.spans.data.get(self._key)
        return [] if group is None or "scores" in group.attrs else list(group)

    # Predictions

    def locate(self, tags: Tags, lengths: Tags) -> tuple[Predictions, NDArray, NDArray]:
        """Return the spans of all chains in order of the text, see `Codec.locate`."""
        lengths = np.asarray(lengths, dtype="int64")
        counts = np.repeat(lengths, self.n_chains)
        stops = counts.cumsum()
        # Most tags are O. A run of others is decoded as a sequence of its own.
        used = np.flatnonzero(tags)
        sequences = stops.searchsorted(used, side="right")
        is_new = (np.diff(used, prepend=-2) > 1) | (np.diff(sequences, prepend=-1) > 0)
        runs = np.diff(np.append(np.flatnonzero(is_new), len(used)))
        starts, ends, slots = self.scheme.decode_ids(np.asarray(tags)[used], runs)
        sequences = sequences[starts]
        starts, ends = used[starts], used[ends - 1] + 1
        docs, chains = np.divmod(sequences, self.n_chains)
        # From places to tokens.
        shift = (stops - counts)[sequences] - (lengths.cumsum() - lengths)[docs]
        labels = self._label_of[chains, slots]
        spans = np.column_stack([starts - shift, ends - shift, labels])
        order = np.lexsort(spans.T[::-1])
        first, stop, label = spans[order].T
        return (first, stop, label), starts[order], ends[order]

    def _predictions(self, tags: Any, lengths: Any) -> Predictions:
        """Return the spans of all layers in order of the text, each once."""
        return _distinct(np.column_stack(self.locate(tags, lengths)[0]))

    def first_chain(self, label: int) -> int:
        """Return the chain of a label's outermost spans."""
        return int(self._chains_of[label, 0])

    def _in_chains(
        self, posterior: Potentials, predictions: Predictions, ops: Ops
    ) -> tuple[NDArray, Potentials, NDArray, NDArray]:
        """Return the places of spans in all layers of their labels.

        RETURNS the spans (K,) by index, the potentials of the sequences that they are in, since
        only these need their marginals, and the starts and ends (K,) in them.
        """
        starts, ends, labels = (np.asarray(part) for part in predictions)
        lengths = ops.to_numpy(posterior.lengths).astype("int64")
        of_docs = lengths[:: self.n_chains]
        docs = of_docs.cumsum().searchsorted(starts, side="right")
        span, layer = np.nonzero(self._chains_of[labels] >= 0)
        chains = self._chains_of[labels[span], layer]
        sequences, of_span = np.unique(docs[span] * self.n_chains + chains, return_inverse=True)
        counts = lengths[sequences]
        shift = (counts.cumsum() - counts)[of_span] - (of_docs.cumsum() - of_docs)[docs[span]]
        return span, posterior.take(sequences), starts[span] + shift, ends[span] + shift

    def outside_posteriors(
        self, posterior: Potentials, spans: Predictions, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) that the tokens are O in all layers, see `Codec`."""
        span, taken, *places = self._in_chains(posterior, spans, ops)
        starts, ends = map(ops.asarray, places)
        found = np.zeros(len(spans[0]))
        np.add.at(found, span, ops.to_numpy(stretch_posteriors(taken, 0, starts, ends)))
        return np.exp(found)

    def confidences(
        self, posterior: Potentials, predictions: Predictions, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) that spans are in one of their layers."""
        if not len(predictions[0]):
            return np.zeros(0)
        span, taken, starts, ends = self._in_chains(posterior, predictions, ops)
        slots = self._slot_of[np.asarray(predictions[2])[span]]
        given = map(ops.asarray, (starts, ends, slots))
        p = ops.to_numpy(span_posteriors(taken, self.span_tags(ops), *given))
        absent = np.ones(len(predictions[0]))
        np.multiply.at(absent, span, 1 - p.astype("float64"))
        return 1 - absent

    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        """Return all spans of at least this probability, see `Codec.candidates`."""
        lengths = ops.to_numpy(posterior.lengths).astype("int64")
        stops, of_docs = lengths.cumsum(), lengths[:: self.n_chains]
        # A span in k layers reaches the threshold only if it has a k-th of it in one of them.
        least = threshold / self._chains_of.shape[1]
        found = span_candidates(posterior, self.span_tags(ops), least)
        starts, ends, slots, _ = map(ops.to_numpy, found)
        sequences = stops.searchsorted(starts, side="right")
        docs, chains = np.divmod(sequences, self.n_chains)
        shift = (stops - lengths)[sequences] - (of_docs.cumsum() - of_docs)[docs]
        spans = np.column_stack([starts - shift, ends - shift, self._label_of[chains, slots]])
        starts, ends, labels = _distinct(spans[np.lexsort(spans.T[::-1])])
        p = self.confidences(posterior, (starts, ends, labels), ops)
        likely = p >= threshold
        return starts[likely], ends[likely], labels[likely], p[likely]

    def compare_with_gold(
        self, tags: Tags, values: Values, lengths: Tags
    ) -> tuple[Predictions, Bools]:
        """Return predicted spans and which are correct, see `Codec.compare_with_gold`.

        A span without gold annotation of its label on all its tokens is left out.
        """
        starts, ends, labels = found = self._predictions(tags, lengths)
        gold, unknown_label = self.encode(values, lengths)
        right = set(zip(*self._predictions(np.where(gold < 0, 0, gold), lengths), strict=True))
        missing = (values == 0) & ~unknown_label[:, None]
        n_missing = np.vstack([np.zeros(self.n_chains, int), missing.cumsum(axis=0)])
        chains = self._chains_of[labels, 0] if len(labels) else labels
        known = n_missing[starts, chains] == n_missing[ends, chains]
        correct = np.array([span in right for span in zip(*found, strict=True)], dtype=bool)
        return (starts[known], ends[known], labels[known]), correct[known]

    def write_spans(
        self, docs: Sequence[Doc], found: Sequence[ScoredSpans], data: Sequence[UserData]
    ) -> list[Doc]:
        """Replace the span group of each document. Presets that no layer holds come last."""
        for doc, (spans, scores), user_data in zip(docs, found, data, strict=True):
            made = [self.make_span(doc, *span) for span in spans]
            if presets := self._presets(doc):
                known = {(span.start, span.end, span.label) for span in made}
                made += [s for s in presets if (s.start, s.end, s.label) not in known]
                scores = np.pad(scores, (0, len(made) - len(scores)), constant_values=1)
            attrs = {"scores": scores}
            doc.spans[self._key] = SpanGroup(doc, name=self._key, attrs=attrs, spans=made)
            doc.user_data.update(user_data)
        return list(docs)


def _distinct(spans: NDArray[np.integer]) -> Predictions:
    """Return the columns of sorted rows without repetitions."""
    is_new = np.ones(len(spans), dtype=bool)
    is_new[1:] = (spans[1:] != spans[:-1]).any(axis=1)
    starts, ends, labels = spans[is_new].T
    return starts, ends, labels


def _name(state: str, unit: tuple[str, ...], layer: int) -> str:
    """Return the name of a tag: its state in the chain, the labels, and the layer from 2 on."""
    prefix, _, slot = state.partition("-")
    known = unit[int(slot)] if slot and int(slot) < len(unit) else slot and f"unused {slot}"
    return f"{prefix}-{known or '+'.join(unit)}{f' {layer + 1}' if layer else ''}"


def _check_layers(layers: object) -> int:
    if not isinstance(layers, int) or isinstance(layers, bool) or layers < 1:
        raise ValueError(f"layers must be a number of at least 1 or null, got {layers!r}")
    return layers


def _read_groups(exclusive: Any) -> dict[str, tuple[str, ...]]:
    """Return the exclusive group of each label. ValueError unless they are disjoint lists."""
    groups: dict[str, tuple[str, ...]] = {}
    is_list = isinstance(exclusive, (list, tuple))
    for group in exclusive if isinstance(exclusive, (list, tuple)) else [exclusive]:
        is_group = isinstance(group, (list, tuple)) and all(isinstance(x, str) for x in group)
        if not is_list or not is_group or len(group) < 2:
            raise ValueError(
                'exclusive must be a list of lists of at least two labels, such as [["DRUG", '
                f'"DOSE"]], got {exclusive!r}'
            )
        for label in group:
            if label in groups:
                raise ValueError(f"exclusive has the label {label!r} twice")
            groups[label] = tuple(group)
    return groups
