"""What a document can say about its labels besides fully annotated tokens.

- This token was never looked at: spaCy's missing, Token.ent_iob 0 or an empty tag.
- Only these labels were annotated, and an O is "none of these":
  `doc._.annotated_labels = ["PERSON"]`.
- This token has one of these tags: `token._.allowed_tags = ["NN", "VB"]`; it is in no entity or
  in one of these types: `token._.allowed_labels = ["O", "PERSON"]`.
- This is an entity whose type is not sure: a span in `doc.spans["ambiguous_spans"]`; several with
  the same boundaries are the types it may have, an empty label leaves all open.
- This is no entity of that type: a span in `doc.spans["incorrect_spans"]`, as spaCy's `ner` has
  it; of no type at all if the label is empty.

All of it survives to_bytes and DocBin(store_user_data=True). What is said besides takes the place
of O, and must agree with entities.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from .extensions import ALLOWED_LABELS, ALLOWED_TAGS, ANNOTATED_LABELS, doc_key, token_values

AMBIGUOUS = "ambiguous_spans"
INCORRECT = "incorrect_spans"

Bounds = tuple[int, int]
"""First token and one past the last."""


@dataclass(frozen=True)
class PartialAnnotation:
    """What a document says besides its token annotation, by its own tokens.

    annotated_labels: None for all. allowed: by token, its possible types, "O" for no entity.
    ambiguous: by span, its possible types, an empty label for any. incorrect: by span, what it is
    not, an empty label for any.
    unknown: tokens of spans that are not aligned with any, so that nothing is known of them.
    """

    annotated_labels: frozenset[str] | None = None
    allowed: Mapping[int, frozenset[str]] = field(default_factory=dict)
    ambiguous: Mapping[Bounds, frozenset[str]] = field(default_factory=dict)
    incorrect: Mapping[Bounds, frozenset[str]] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()


def has_partial_annotation(doc: Doc, span_keys: Iterable[str | None] = ()) -> bool:
    """Whether there is anything for `read_partial_annotation`. Cheap."""
    return (
        any(key in doc.spans for key in span_keys)
        or _user_data(doc).get(doc_key(ANNOTATED_LABELS)) is not None
        or any(True for _ in token_values(doc, ALLOWED_LABELS))
    )


def read_partial_annotation(
    example: Example, ambiguous_key: str | None = AMBIGUOUS, incorrect_key: str | None = INCORRECT
) -> PartialAnnotation:
    """Those of the reference, by the tokens of the predicted document.

    As spaCy aligns: a span counts if its boundaries are boundaries of tokens there, a token's tags
    if it is one token there too; of the tokens of other ambiguous spans nothing is known.
    ValueError for a string in place of a list of labels.
    """
    reference = example.reference
    ambiguous, unknown = _read_spans(example, ambiguous_key)
    incorrect, _ = _read_spans(example, incorrect_key)
    return PartialAnnotation(
        read_annotated_labels(reference),
        read_allowed(example, ALLOWED_LABELS),
        ambiguous,
        incorrect,
        unknown,
    )


def read_annotated_labels(doc: Doc) -> frozenset[str] | None:
    """None for all. ValueError if they are no list."""
    labels = _user_data(doc).get(doc_key(ANNOTATED_LABELS))
    return None if labels is None else _as_set(doc, "doc._.annotated_labels", labels)


def find_labels(doc: Doc, span_keys: Iterable[str | None]) -> set[str]:
    """The entity labels that tokens and spans speak of."""
    labels: set[str] = set()
    for names in dict(token_values(doc, ALLOWED_LABELS)).values():
        labels |= _as_set(doc, "token._.allowed_labels", names)
    for span_key in span_keys:
        if span_key in doc.spans:
            labels.update(span.label_ for span in doc.spans[span_key])
    return labels - {"O", ""}


class Contradiction(NamedTuple):
    """what: in words, with the text of the spans. labels: of the spans, "" for any."""

    what: str
    labels: frozenset[str]


def find_contradictions(
    doc: Doc, markings: PartialAnnotation, entities: Mapping[Bounds, str]
) -> list[Contradiction]:
    """What cannot all be true of a document with these confirmed entities, span by span.

    entities: by span, none of which overlap.
    """
    spans, confirmed = sorted(markings.ambiguous), sorted(entities)
    ends = [end for _, end in confirmed]

    def name(bounds: Bounds) -> str:
        return f"{doc[bounds[0] : bounds[1]].text!r} (tokens {bounds[0]}:{bounds[1]})"

    def overlapping(span: Bounds) -> list[Bounds]:
        return confirmed[bisect_right(ends, span[0]) : bisect_left(confirmed, (span[1], 0))]

    problems = []
    for i, span in enumerate(spans, 1):
        labels = markings.ambiguous[span]
        for other in spans[i : bisect_left(spans, (span[1], 0), i)]:
            what = f"the ambiguous spans {name(span)} and {name(other)} overlap"
            problems.append(Contradiction(what, labels | markings.ambiguous[other]))
        for bounds in overlapping(span):
            is_now = entities[bounds]
            if bounds != span:
                what = f"{name(span)} overlaps {name(bounds)}, which is {is_now}"
            elif "" not in labels and is_now not in labels:
                what = f"{name(span)} is {is_now}, and may only be {' or '.join(sorted(labels))}"
            else:
                continue
            problems.append(Contradiction(what, labels | {is_now}))
        types = labels
        for token in range(*span):
            if token in markings.allowed:
                may_be = markings.allowed[token] - {"O"}
                types = may_be if "" in types else types & may_be
        if not types:
            what = f"{name(span)} is an entity, of none of the types that its tokens may have"
            problems.append(Contradiction(what, labels))
    for token, may_be in markings.allowed.items():
        for bounds in overlapping((token, token + 1)):
            is_now = entities[bounds]
            if is_now not in may_be:
                at, may = name((token, token + 1)), " or ".join(sorted(may_be))
                what = f"{at} is {is_now}, and may only be {may}"
                problems.append(Contradiction(what, frozenset([is_now])))
    for span, never in markings.incorrect.items():
        if span in entities and never & {entities[span], ""}:
            is_now = entities[span]
            what = f"{name(span)} is both {is_now} and not {is_now}"
            problems.append(Contradiction(what, frozenset([is_now])))
        types = markings.ambiguous.get(span, frozenset())
        if types and ("" in never or ("" not in types and types <= never)):
            what = f"{name(span)} is an entity, and of none of the types it may have"
            problems.append(Contradiction(what, types))
    return problems


def _as_set(doc: Doc, where: str, names: Sequence[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise ValueError(f"{where} must be a list, got {names!r} in {doc.text[:40]!r}")
    return frozenset(names)


def _user_data(doc: Doc) -> dict[Any, Any]:
    return doc.user_data


def has_allowed_tags(doc: Doc) -> bool:
    return any(True for _ in token_values(doc, ALLOWED_TAGS))


def read_allowed(example: Example, name: str) -> dict[int, frozenset[str]]:
    """What `name`, "allowed_tags" or "allowed_labels", says of tokens of the predicted document."""
    by_offset = dict(token_values(example.reference, name))
    allowed: dict[int, frozenset[str]] = {}
    if by_offset:
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
    """Labels by aligned bounds, and the tokens of spans that are not aligned."""
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
