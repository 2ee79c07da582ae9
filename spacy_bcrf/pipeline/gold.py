"""Gold annotation of examples, as tags of a component."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ENT_IOB  # type: ignore[import-not-found]
from spacy.tokens import Doc, Span
from spacy.training import Example

from bcrf import kernels
from bcrf.chain import Constraints
from bcrf.chain.potentials import boundaries
from bcrf.chain.unlikelihood import Rejection
from bcrf.kernels import Array
from spacy_bcrf.annotation.arrays import UNKNOWN, Bools, DocBatch, allowed_tags, doc_bounds
from spacy_bcrf.layers.linear_chain import find_obstacle
from spacy_bcrf.layers.protocol import LabelingModel
from spacy_bcrf.pipeline.codecs.partial_gold import read_partial
from spacy_bcrf.pipeline.codecs.span_group import has_space_edge

from .codecs import Codec


class Gold(NamedTuple):
    """Gold annotation of a batch, of C chains and with C N rows, see `Codec`.

    tags: int32 (N,) with UNKNOWN, or allowed tags, bool (N, T). problems: by example, why training
    treats it as unannotated. rejections: wrong labelings. lattice: open tags (N, T), None for all.
    """

    tags: Array
    problems: dict[int, str]
    rejections: list[Rejection]
    lattice: Bools | None = None
    n_chains: int = 1

    def leave_out_rejections(self, docs: Sequence[Doc]) -> list[int]:
        """Make the tags of documents with rejections unknown. RETURNS their indices."""
        rejected = sorted({rejection.sequence // self.n_chains for rejection in self.rejections})
        self._forget(docs, rejected)
        return rejected

    def leave_out(self, docs: Sequence[Doc], indices: Sequence[int]) -> "Gold":
        """Return the gold without that of some documents, whose tags become unknown in place."""
        if not indices:
            return self
        self._forget(docs, indices)
        kept = [r for r in self.rejections if r.sequence // self.n_chains not in indices]
        return self._replace(rejections=kept)

    def _forget(self, docs: Sequence[Doc], indices: Sequence[int]) -> None:
        bounds = doc_bounds(docs)
        for i in indices:
            start, end = (self.n_chains * bound for bound in bounds[i])
            self.tags[start:end] = True if self.tags.dtype == bool else UNKNOWN


def make_gold(codec: Codec, examples: Sequence[Example], model: LabelingModel) -> Gold:
    """Return the gold of examples, unknown if forbidden. ValueError if the head cannot learn it."""
    docs = [example.predicted for example in examples]
    lattice = find_lattice(codec, docs)
    ops: Any = model.model.ops
    n_chains, n_tags = codec.n_chains, codec.n_tags
    lengths = np.array([len(doc) for doc in docs], dtype="int32")
    stops = lengths.cumsum()
    values, problems = codec.align_gold(examples)
    tags, has_unknown_label = codec.encode(values, lengths)
    partial, unreadable = read_partial(codec.partial, examples)
    problems = unreadable | problems
    if partial:
        tags = allowed_tags(tags, n_tags)
    by_doc = np.split(tags, n_chains * stops[:-1])
    values_by_doc = np.split(values, stops[:-1])
    rejected: list[tuple[int, Bools]] = []
    for i, annotation in partial.items():
        try:
            assert codec.partial is not None
            given = examples[i], annotation, values_by_doc[i], by_doc[i]
            wrong = codec.partial.constrain(*given)
            rejected += [(i * n_chains + chain, labeling) for chain, labeling in wrong]
        except ValueError as error:
            problems.setdefault(i, str(error))
    if rejected and (why := find_obstacle(model.model)):
        why = f"it has an incorrect span of several tokens, and {why}"
        rejecting = {sequence // n_chains for sequence, _ in rejected}
        problems.update((i, why) for i in rejecting if i not in problems)
    if has_unknown_label.any():
        for i in np.unique(stops.searchsorted(np.flatnonzero(has_unknown_label), "right")):
            unknown = codec.find_labels(examples[i].reference).difference(codec.labels)
            problems[int(i)] = f"unknown labels {', '.join(sorted(unknown))}"
    if getattr(model.objective, "needs_whole_gold", False):
        _find_partial(codec, model.output_layer.name, examples, partial, by_doc, problems)
    if lattice is not None or codec.constraints is not None or tags.dtype == bool:
        allowed = tags if tags.dtype == bool else allowed_tags(tags, n_tags)
        allowed = allowed if lattice is None else allowed & lattice
        found = find_feasible(allowed, lengths.repeat(n_chains), codec.constraints)
        for i in np.flatnonzero(~found.reshape(-1, n_chains).all(axis=1)).tolist():
            problems.setdefault(i, find_cause(codec, examples[i]))
    for i in problems:
        by_doc[i][:] = True if tags.dtype == bool else UNKNOWN
    kept = [(i, wrong) for i, wrong in rejected if i // n_chains not in problems]
    rejections = [Rejection(i, ops.asarray(wrong)) for i, wrong in kept]
    return Gold(ops.asarray(tags), problems, rejections, lattice, n_chains)


def find_lattice(codec: Codec, docs: Sequence[Doc]) -> Bools | None:
    """Return the lattice, the open tags (N, T) of documents; None if all are open."""
    return codec.open_tags(DocBatch(docs, codec.attributes))[0] if codec.attributes else None


def find_cause(codec: Codec, example: Example) -> str:
    """Return why the constraints forbid the gold of an example: the first span, or all of them."""
    presets = codec.find_spans(example.predicted) if ENT_IOB in codec.attributes else []
    for span in codec.find_spans(example.reference) if codec.unit == "span" else []:
        for found in example.get_aligned_spans_y2x([span], allow_overlap=True):
            if any(token.is_sent_start for token in found[1:]):
                return f"{_name(found)} crosses a sentence start"
            for preset in presets:
                bounds = preset.start, preset.end, preset.label
                overlaps = preset.start < found.end and found.start < preset.end
                if overlaps and bounds != (found.start, found.end, found.label):
                    return f"{_name(found)} contradicts the preset entity {_name(preset)}"
    return f"{codec.restrictions} forbid it"


def find_trimmed(codec: Codec, doc: Doc) -> list[Span]:
    spans = codec.find_spans(doc) if codec.unit == "span" else []
    return list(filter(has_space_edge, spans))


def _name(span: Span) -> str:
    return f"{span.label_} {span.text!r} (tokens {span.start}:{span.end})"


def _find_partial(
    codec: Codec,
    head: str,
    examples: Sequence[Example],
    partial: dict[int, Any],
    by_doc: Sequence[NDArray],
    problems: dict[int, str],
) -> None:
    """Add problems of partial gold for a head that needs all. ValueError for partial annotation."""
    for i, (example, tags) in enumerate(zip(examples, by_doc, strict=True)):
        known = tags.sum(axis=1) == 1 if tags.dtype == bool else tags != UNKNOWN
        if i in problems or known.all() or not known.any():
            continue
        if i in partial or codec.unannotated(example.reference).any():
            raise ValueError(
                f"{example.reference.text!r} is partially annotated: the head {head!r} cannot "
                "learn from partial annotation, because its distribution cannot be restricted to a "
                "set of labelings. Use a CRF or BCRF, or annotate all tokens of a document or none"
            )
        problems[i] = f"its tokens differ from the pipeline's, and {head} needs gold for all tokens"


def find_feasible(
    allowed: Bools, lengths: NDArray[np.int32], constraints: Constraints | None
) -> NDArray[np.bool_]:
    """Return which sequences (B,) have a labeling under allowed tags (N, T) and constraints."""
    n_tags = allowed.shape[1]
    starts, ends = boundaries(lengths)
    if constraints is not None:
        allowed = allowed.copy()
        allowed[starts] &= constraints.start
        allowed[ends] &= constraints.end
    # Viterbi takes T^2 a token, which a labeling that gold gives does not need.
    tags = allowed.argmax(axis=1)
    fits = allowed.sum(axis=1) == 1
    if constraints is not None:
        edges = constraints.transitions[tags[:-1], tags[1:]]
        edges[ends[:-1]] = True
        fits[1:] &= edges
    found = np.ones(len(lengths), dtype=bool)
    found[lengths > 0] = np.logical_and.reduceat(fits, starts) if len(starts) else True
    if found.all():
        return found
    transitions = np.zeros((n_tags, n_tags), dtype="float32")
    if constraints is not None:
        transitions[~constraints.transitions] = -np.inf
    unary = np.where(allowed[(~found).repeat(lengths)], np.float32(0), np.float32(-np.inf))
    found[~found] = kernels.max_product(unary, transitions, lengths[~found])[1] > -np.inf
    return found


@dataclass
class GoldProblems:
    """Gold annotation of D documents that cannot be learned. first: index, text and problem."""

    n_docs: int = 0
    n: int = 0
    first: tuple[int, str, str] | None = None

    def add(self, examples: Sequence[Example], problems: dict[int, str]) -> None:
        if problems and self.first is None:
            i = min(problems)
            self.first = self.n_docs + i, examples[i].reference.text, problems[i]
        self.n_docs += len(examples)
        self.n += len(problems)

    def warn(self, name: str, where: str) -> bool:
        """Warn about the number of documents, and name the first one. RETURNS whether there are."""
        if self.first is None:
            return False
        i, text, problem = self.first
        start = text if len(text) <= 60 else f"{text[:60]}..."
        warnings.warn(
            f"[{name}] {self.n} of {self.n_docs} documents in {where} have gold annotation that "
            f"cannot be learned. Training treats them as unannotated. The first is document {i}, "
            f"{start!r}: {problem.rstrip('.')}. Further problems are not reported.",
            stacklevel=3,
        )
        return True
