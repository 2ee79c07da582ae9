"""Tagging schemes: spans to tags and back, and the hard constraints of a scheme.

A tag is `O` or `prefix-label`. A missing tag (`None`, `""` or `-`) leaves its token unannotated.
In a scheme with P prefixes, `O` has id 0 and `prefix-label` has id `1 + label * P + prefix`.
Arithmetic recovers prefix and label from an id, and a new label only appends tags.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bcrf.chain import Constraints, SpanTags

Span = tuple[int, int, str]
"""First token, one past the last token, label."""

MISSING: frozenset[str | None] = frozenset({None, "", "-"})

_OPENING = frozenset("BSU")
_CLOSING = frozenset("ELSU")
_PREFIXES = _OPENING | _CLOSING | {"I"}


@dataclass(frozen=True)
class Scheme:
    """The prefixes of a tagging scheme, from which its constraints follow.

    first, inside, last: prefixes of the first, inner and last token of a longer entity. single: of
    one token.
    """

    name: str
    first: str
    inside: str
    last: str
    single: str

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Distinct prefixes in the order of their tags."""
        return tuple(dict.fromkeys((self.first, self.inside, self.last, self.single)))

    def tags(self, labels: Sequence[str]) -> list[str]:
        """All T = 1 + len(labels) * P tags in the order of their ids."""
        return ["O", *(f"{prefix}-{label}" for label in labels for prefix in self.prefixes)]

    def constraints(self, labels: Sequence[str]) -> Constraints:
        """The transitions (T, T), `[from, to]`, the first and the last tags (T,) of valid tags."""
        codes, _ = self._split(np.arange(1 + len(labels) * len(self.prefixes)))
        start, end = ~self._continues[codes], self._may_end[codes]
        allowed = end[:, None] & start
        tags = np.arange(1, len(codes)).reshape(len(labels), len(self.prefixes))
        within = self._may_continue[1:, None] & self._continues[1:]
        allowed[tags[:, :, None], tags[:, None, :]] |= within
        return Constraints(allowed, start, end)

    def span_tags(self, labels: Sequence[str]) -> SpanTags:
        """Tag ids of the spans of each label."""
        base = 1 + np.arange(len(labels), dtype="int32") * len(self.prefixes)
        return SpanTags(
            *(
                base + self.prefixes.index(prefix)
                for prefix in (self.first, self.inside, self.last, self.single)
            )
        )

    def spans(self, tags: Sequence[str | None]) -> list[Span]:
        """Return the entities of valid tags. ValueError naming the first token with a wrong tag."""
        fixed, n_repaired = self.repair(tags)
        if n_repaired:
            i = next(i for i, tag in enumerate(tags) if tag != fixed[i])
            before = f"after {tags[i - 1]!r}" if i else "at the start"
            after = f"before {tags[i + 1]!r}" if i + 1 < len(tags) else "at the end"
            raise ValueError(
                f"token {i}: {tags[i]!r} {before} and {after} is not valid in {self.name}; "
                f"{fixed[i]!r} would be valid"
            )
        return read_spans(tags)

    def encode(self, spans: Iterable[Span], length: int) -> list[str]:
        """Return the tags of `length` tokens. ValueError for empty, overlapping, outside spans."""
        tags = ["O"] * length
        for start, end, label in spans:
            if not 0 <= start < end <= length:
                raise ValueError(
                    f"span {(start, end, label)} is empty or outside of the {length} tokens"
                )
            if any(tag != "O" for tag in tags[start:end]):
                raise ValueError(f"span {(start, end, label)} overlaps another span")
            if end - start == 1:
                tags[start] = f"{self.single}-{label}"
            else:
                tags[start] = f"{self.first}-{label}"
                tags[start + 1 : end - 1] = [f"{self.inside}-{label}"] * (end - start - 2)
                tags[end - 1] = f"{self.last}-{label}"
        return tags

    def repair(self, tags: Sequence[str | None]) -> tuple[list[str | None], int]:
        """Return a valid sequence with the entities of `read_spans`, and the number of changes.

        Missing tags stay missing. ValueError naming the first token with a tag of another scheme.
        """
        for i, tag in enumerate(tags):
            if tag not in MISSING and tag != "O" and tag[:1] not in self.prefixes:  # type: ignore[index]
                raise ValueError(
                    f"token {i}: {tag!r} is not a {self.name} tag; expected O or "
                    f"{', '.join(f'{prefix}-label' for prefix in self.prefixes)}"
                )
        encoded = self.encode(read_spans(tags), len(tags))
        fixed = [old if old in MISSING else new for old, new in zip(tags, encoded, strict=True)]
        return fixed, sum(old != new for old, new in zip(tags, fixed, strict=True))

    def decode_ids(
        self, ids: ArrayLike, lengths: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Return starts, ends and label indices (M,) of the spans of a flat batch of valid tag ids.

        ids: (N,). lengths: (B,) of the sequences, None for a single one; no span crosses a
        boundary. Raises ValueError naming the first token where the ids violate the scheme.
        """
        ids = np.asarray(ids, dtype="int32")
        codes, labels = self._split(ids)
        follows = self._continues[codes]
        first = np.zeros(len(ids) + 1, dtype=bool)
        first[[0, len(ids)]] = True
        if lengths is not None:
            bounds = np.cumsum(np.asarray(lengths, dtype="int64"))
            if bounds[-1:].sum() != len(ids):
                raise ValueError(f"lengths add up to {bounds[-1:].sum()}, not to {len(ids)} ids")
            first[bounds] = True
        invalid = ids < 0
        invalid |= follows & first[:-1]
        invalid[1:] |= follows[1:] & (labels[1:] != labels[:-1])
        invalid[1:] |= follows[1:] & ~self._may_continue[codes[:-1]]
        # The last token of an entity ends its sequence or precedes a tag that does not continue.
        final = ~np.append(follows[1:], False)[: len(ids)] | first[1:]
        invalid |= final & ~self._may_end[codes]
        if invalid.any():
            i = int(np.argmax(invalid))
            raise ValueError(
                f"token {i}: {self.name} forbids tag id {int(ids[i])} between its neighbours"
            )
        (starts,) = np.nonzero((ids > 0) & ~follows)
        (last,) = np.nonzero((ids > 0) & final)
        return starts, last + 1, labels[starts]

    def _split(self, ids: NDArray) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return prefix codes (0 for O, else 1 + prefix) and label indices (-1 for O)."""
        labels, prefixes = np.divmod(np.asarray(ids, dtype="int32") - 1, len(self.prefixes))
        return np.where(labels < 0, 0, prefixes + 1), labels

    # The next three arrays (1 + P,) are indexed by prefix code.
    @property
    def _continues(self) -> NDArray[np.bool_]:
        opening = (self.first, self.single)
        return np.array([False, *(prefix not in opening for prefix in self.prefixes)])

    @property
    def _may_continue(self) -> NDArray[np.bool_]:
        return np.array([False, *(p in (self.first, self.inside) for p in self.prefixes)])

    @property
    def _may_end(self) -> NDArray[np.bool_]:
        return np.array([True, *(p in (self.last, self.single) for p in self.prefixes)])


BIO = Scheme("BIO", first="B", inside="I", last="I", single="B")
BILUO = Scheme("BILUO", first="B", inside="I", last="L", single="U")
BIES = Scheme("BIES", first="B", inside="I", last="E", single="S")

_SCHEMES = {scheme.name: scheme for scheme in (BIO, BILUO, BIES)}


def get_scheme(name: str) -> Scheme:
    """Return a scheme by name. Raises ValueError listing the known names."""
    if not isinstance(name, str) or name not in _SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(_SCHEMES)}, got {name!r}")
    return _SCHEMES[name]


def read_spans(tags: Sequence[str | None]) -> list[Span]:
    """Return the entities that conlleval reads from tags of any scheme, valid or not.

    Source: startOfChunk and endOfChunk of the CoNLL-2000 conlleval.pl. IOB1 tags work too.
    An entity starts at B, U or S, after L, E, U or S, and where the label changes. A tag after O
    or after a missing tag also starts one. An entity ends at the next start, O or missing tag.

    Raises ValueError naming the first token whose tag has no known prefix or no label.
    """
    spans: list[Span] = []
    start, open_label = 0, None
    for i, tag in enumerate(tags):
        if tag is None or tag in MISSING or tag == "O":
            prefix, label = None, None
        else:
            prefix, dash, label = tag.partition("-")
            if prefix not in _PREFIXES or not dash or not label:
                raise ValueError(
                    f"token {i}: {tag!r} is not a tag; expected O or one of the prefixes "
                    f"{', '.join(sorted(_PREFIXES))}, a hyphen and a label"
                )
        if open_label is not None and (label != open_label or prefix in _OPENING):
            spans.append((start, i, open_label))
            open_label = None
        if label is not None:
            if open_label is None:
                start, open_label = i, label
            if prefix in _CLOSING:
                spans.append((start, i + 1, open_label))
                open_label = None
    if open_label is not None:
        spans.append((start, len(tags), open_label))
    return spans
