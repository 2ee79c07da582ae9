"""Partial annotation of a document, and its contradictions.

- Missing annotation, as in spaCy: `Token.ent_iob` is 0, or the tag is empty.
- Annotated labels: `doc._.annotated_labels = ["PERSON"]`. O means "no entity of these labels".
- Allowed tags: `token._.allowed_tags = ["NN", "VB"]`. The token has one of them.
- Allowed labels: `token._.allowed_labels = ["O", "PERSON"]`. The token is in no entity ("O") or in
  an entity of one of the labels.
- Ambiguous spans: a span in `doc.spans["ambiguous_spans"]` is an entity. Several spans with the
  same boundaries give its possible labels; an empty label means any.
- Incorrect spans: a span in `doc.spans["incorrect_spans"]` is no entity of its label, as in spaCy's
  `ner`; an empty label means any.

All override O, must not contradict entities, and stay in `to_bytes` and a DocBin of user data.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from .extensions import UserData

AMBIGUOUS = "ambiguous_spans"
INCORRECT = "incorrect_spans"

T = TypeVar("T")

Attributes = dict[str, dict[int | None, Any]]

Bounds = tuple[int, int]
"""First token of a span, and one past its last."""


@dataclass(frozen=True)
class PartialAnnotation:
    """Partial annotation by the tokens of one document. "O" means no entity, "" any label.

    annotated_labels: that O refers to; None for all. allowed: possible labels by token. ambiguous,
    incorrect: possible, excluded labels by span. unknown: tokens of unaligned ambiguous spans.
    """

    annotated_labels: frozenset[str] | None = None
    allowed: Mapping[int, frozenset[str]] = field(default_factory=dict)
    ambiguous: Mapping[Bounds, frozenset[str]] = field(default_factory=dict)
    incorrect: Mapping[Bounds, frozenset[str]] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()

    def close(self, tokens: Collection[int]) -> "PartialAnnotation":
        """Return the annotation without the allowed labels of these tokens."""
        kept = {token: names for token, names in self.allowed.items() if token not in tokens}
        return replace(self, allowed=kept)

    def excludes(
        self, start: int, end: int, label: str, is_annotated: bool, may_overlap: bool = False
    ) -> bool:
        """Whether a span that is not among the gold entities is wrong, not open.

        is_annotated: whether all its tokens are. may_overlap: if not, sure entities exclude others.
        """
        bounds, tokens, names = (start, end), range(start, end), {label, ""}
        if not names.isdisjoint(self.incorrect.get(bounds, ())):
            return True
        if any(label not in self.allowed.get(token, names) for token in tokens):
            return True
        is_possible = not names.isdisjoint(self.ambiguous.get(bounds, ()))
        is_cut = any(first < end and start < stop for first, stop in self.ambiguous)
        if is_cut and not is_possible and not may_overlap:
            return True
        if self.annotated_labels is not None and label not in self.annotated_labels:
            return False
        is_possible |= not self.unknown.isdisjoint(tokens)
        is_possible |= all(token in self.allowed for token in tokens)
        return is_annotated and not is_possible


def read_partial_annotation(
    examples: Sequence[Example],
    ambiguous_key: str | None = AMBIGUOUS,
    incorrect_key: str | None = INCORRECT,
) -> tuple[dict[int, PartialAnnotation], dict[int, str]]:
    """Return the references' partial annotation, aligned with the predicted tokens, and problems.

    Both are by index of the example. As in spaCy's alignment, a span counts if it starts and ends
    at boundaries of predicted tokens, and the labels of a token if it equals a predicted token. The
    tokens of other ambiguous spans become `unknown`. A string for a list of labels is a problem.
    """

    def read(example: Example, attributes: Attributes) -> PartialAnnotation | None:
        spans = example.reference.spans
        if not attributes and not spans.get(ambiguous_key) and not spans.get(incorrect_key):
            return None
        ambiguous, unknown = _read_spans(example, ambiguous_key)
        incorrect, _ = _read_spans(example, incorrect_key)
        labels = _annotated_labels(example.reference, attributes)
        allowed = _align_allowed(example, attributes, "allowed_labels")
        return PartialAnnotation(labels, allowed, ambiguous, incorrect, unknown)

    return _read_each(examples, ("annotated_labels", "allowed_labels"), read)


def read_allowed_tags(
    examples: Sequence[Example],
) -> tuple[dict[int, dict[int, frozenset[str]]], dict[int, str]]:
    """Return the allowed tags by predicted token, and problems. See `read_partial_annotation`."""
    return _read_each(examples, ("allowed_tags",), partial(_align_allowed, name="allowed_tags"))


def _read_each(
    examples: Sequence[Example],
    names: Sequence[str],
    read: Callable[[Example, Attributes], T | None],
) -> tuple[dict[int, T], dict[int, str]]:
    found: dict[int, T] = {}
    problems: dict[int, str] = {}
    for i, example in enumerate(examples):
        try:
            if annotation := read(example, _read_attributes(example.reference, names)):
                found[i] = annotation
        except ValueError as error:
            problems[i] = str(error)
    return found, problems


def _read_attributes(doc: Doc, names: Sequence[str]) -> Attributes:
    """Return the custom attributes that are not None: by name, by offset, None for the document."""
    found: Attributes = {}
    user_data: UserData = doc.user_data
    for key, value in user_data.items():
        # spaCy's keys have four fields; the last one is an offset for spans only.
        is_extension = isinstance(key, tuple) and len(key) == 4 and key[0] == "._."
        if is_extension and key[1] in names and key[3] is None and value is not None:
            found.setdefault(key[1], {})[key[2]] = value
    return found


def read_annotated_labels(doc: Doc) -> frozenset[str] | None:
    """Return `doc._.annotated_labels`, None for all. ValueError if it is a string."""
    return _annotated_labels(doc, _read_attributes(doc, ("annotated_labels",)))


def find_partial_labels(doc: Doc, span_keys: Iterable[str | None]) -> set[str]:
    """Return the entity labels of allowed labels and of the spans under these keys."""
    labels: set[str] = set()
    for names in _read_attributes(doc, ("allowed_labels",)).get("allowed_labels", {}).values():
        labels |= _as_set(doc, "token._.allowed_labels", names)
    for span_key in span_keys:
        if span_key in doc.spans:
            labels.update(span.label_ for span in doc.spans[span_key])
    return labels - {"O", ""}


def find_contradictions(
    doc: Doc, annotation: PartialAnnotation, entities: Mapping[Bounds, str]
) -> Iterator[str]:
    """Yield the contradictions with itself and with entities, labels by disjoint span."""
    spans, confirmed = sorted(annotation.ambiguous), sorted(entities)
    ends = [end for _, end in confirmed]

    def name(bounds: Bounds) -> str:
        return f"{doc[bounds[0] : bounds[1]].text!r} (tokens {bounds[0]}:{bounds[1]})"

    def overlapping(span: Bounds) -> list[Bounds]:
        return confirmed[bisect_right(ends, span[0]) : bisect_left(confirmed, (span[1], 0))]

    for i, span in enumerate(spans, 1):
        labels = annotation.ambiguous[span]
        for other in spans[i : bisect_left(spans, (span[1], 0), i)]:
            yield f"the ambiguous spans {name(span)} and {name(other)} overlap"
        for bounds in overlapping(span):
            label = entities[bounds]
            if bounds != span:
                yield f"{name(span)} overlaps {name(bounds)}, which is {label}"
            elif "" not in labels and label not in labels:
                yield f"{name(span)} is {label}, but may only be {' or '.join(sorted(labels))}"
        possible = labels
        for token in range(*span):
            if token in annotation.allowed:
                allowed = annotation.allowed[token] - {"O"}
                possible = allowed if "" in possible else possible & allowed
        if not possible:
            yield f"{name(span)} is an ambiguous span, but its tokens allow none of its labels"
    for token, allowed in annotation.allowed.items():
        for bounds in overlapping((token, token + 1)):
            label = entities[bounds]
            if label not in allowed:
                expected = " or ".join(sorted(allowed))
                yield f"{name((token, token + 1))} is {label}, but may only be {expected}"
    for span, incorrect in annotation.incorrect.items():
        if span in entities and incorrect & {entities[span], ""}:
            label = entities[span]
            yield f"{name(span)} is both {label} and not {label}"
        labels = annotation.ambiguous.get(span, frozenset())
        if labels and ("" in incorrect or ("" not in labels and labels <= incorrect)):
            yield f"{name(span)} is an ambiguous span, but all of its labels are incorrect"


def _as_set(doc: Doc, where: str, names: Sequence[str]) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError(f"{where} must be a list, got {names!r} in {doc.text[:40]!r}")
    return frozenset(names)


def _annotated_labels(doc: Doc, attributes: Attributes) -> frozenset[str] | None:
    labels = attributes.get("annotated_labels", {}).get(None)
    return None if labels is None else _as_set(doc, "doc._.annotated_labels", labels)


def _align_allowed(
    example: Example, attributes: Attributes, name: str
) -> dict[int, frozenset[str]]:
    allowed: dict[int, frozenset[str]] = {}
    if by_offset := attributes.get(name):
        to_predicted, to_gold = example.alignment.y2x, example.alignment.x2y
        for token in example.reference:
            tokens = to_predicted[token.i].tolist()
            if token.idx in by_offset and len(tokens) == 1 and len(to_gold[tokens[0]]) == 1:
                names = by_offset[token.idx]
                allowed[tokens[0]] = _as_set(example.reference, f"token._.{name}", names)
    return allowed


def _read_spans(
    example: Example, key: str | None
) -> tuple[dict[Bounds, frozenset[str]], frozenset[int]]:
    """Return labels by aligned bounds, and the tokens of spans that are not aligned."""
    group: SpanGroup | Sequence[Span] = example.reference.spans.get(key, []) if key else []
    labels: dict[Bounds, set[str]] = {}
    unknown: set[int] = set()
    for span in group:
        aligned = example.get_aligned_spans_y2x([span])
        if aligned:
            labels.setdefault((aligned[0].start, aligned[0].end), set()).add(span.label_)
        else:
            for i in range(span.start, span.end):
                unknown.update(example.alignment.y2x[i].tolist())
    return {bounds: frozenset(names) for bounds, names in labels.items()}, frozenset(unknown)
