"""Tagging schemes: entity tags to spans and back, and which tag may follow which.

A tag is `O` or `prefix-label`; a missing tag (`None`, `""` or `-`) says nothing about its token.
In a scheme with P prefixes the integer id of a tag is 0 for `O`, else `1 + label * P + prefix`, so
that prefix and label follow by arithmetic and a new label only appends tags.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spacy_bcrf.chain import SpanTags

Span = tuple[int, int, str]
"""First token, one past the last token, label."""

MISSING: frozenset[str | None] = frozenset({None, "", "-"})

_OPENING = frozenset("BSU")
_CLOSING = frozenset("ELSU")
_PREFIXES = _OPENING | _CLOSING | {"I"}


@dataclass(frozen=True)
class Scheme:
    """How an entity's tokens are prefixed: the first, inner and last of several, and a single one.

    Everything else follows from these four: what may start, continue or end an entity.
    """

    name: str
    first: str
    inside: str
    last: str
    single: str

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The distinct prefixes in the order of the tags."""
        return tuple(dict.fromkeys((self.first, self.inside, self.last, self.single)))

    def tags(self, labels: Sequence[str]) -> list[str]:
        """All T = 1 + len(labels) * P tags; a tag's place is its id."""
        return ["O", *(f"{prefix}-{label}" for label in labels for prefix in self.prefixes)]

    def transitions(self, labels: Sequence[str]) -> NDArray[np.bool_]:
        """Allowed steps (T, T), `[from, to]`."""
        codes, types = self._split(np.arange(1 + len(labels) * len(self.prefixes)))
        between = self._may_end[codes][:, None] & ~self._continues[codes][None, :]
        within = self._may_continue[codes][:, None] & self._continues[codes][None, :]
        return between | (within & (types[:, None] == types[None, :]))

    def starts(self, labels: Sequence[str]) -> NDArray[np.bool_]:
        """Tags (T,) that may begin a sequence."""
        codes, _ = self._split(np.arange(1 + len(labels) * len(self.prefixes)))
        return ~self._continues[codes]

    def ends(self, labels: Sequence[str]) -> NDArray[np.bool_]:
        """Tags (T,) that may end a sequence."""
        codes, _ = self._split(np.arange(1 + len(labels) * len(self.prefixes)))
        return self._may_end[codes]

    def span_tags(self, labels: Sequence[str]) -> SpanTags:
        """The tag ids of each label's spans."""
        base = 1 + np.arange(len(labels), dtype="int32") * len(self.prefixes)
        return SpanTags(
            *(
                base + self.prefixes.index(prefix)
                for prefix in (self.first, self.inside, self.last, self.single)
            )
        )

    def spans(self, tags: Sequence[str | None]) -> list[Span]:
        """The entities of a valid tag sequence; ValueError naming the first token that is wrong."""
        fixed, n_repaired = self.repair(tags)
        if n_repaired:
            i = next(i for i, tag in enumerate(tags) if tag != fixed[i])
            before = f"after {tags[i - 1]!r}" if i else "at the start"
            after = f"before {tags[i + 1]!r}" if i + 1 < len(tags) else "at the end"
            raise ValueError(
                f"token {i}: {tags[i]!r} {before} and {after} is no valid {self.name} sequence; "
                f"{fixed[i]!r} would be"
            )
        return read_spans(tags)

    def encode(self, spans: Iterable[Span], length: int) -> list[str]:
        """The tags of `length` tokens; ValueError for a span that overlaps, is empty or outside."""
        tags = ["O"] * length
        for start, end, label in spans:
            if not 0 <= start < end <= length:
                span = (start, end, label)
                raise ValueError(f"span {span} is empty or outside of {length} tokens")
            if any(tag != "O" for tag in tags[start:end]):
                raise ValueError(f"span {(start, end, label)} overlaps another one")
            if end - start == 1:
                tags[start] = f"{self.single}-{label}"
            else:
                tags[start] = f"{self.first}-{label}"
                tags[start + 1 : end - 1] = [f"{self.inside}-{label}"] * (end - start - 2)
                tags[end - 1] = f"{self.last}-{label}"
        return tags

    def repair(self, tags: Sequence[str | None]) -> tuple[list[str | None], int]:
        """A valid sequence with the entities conlleval would see, and how many tags had to change.

        Missing tags stay as they are. A tag of another scheme is a ValueError naming its token.
        """
        for i, tag in enumerate(tags):
            if tag not in MISSING and tag != "O" and tag[:1] not in self.prefixes:  # type: ignore[index]
                raise ValueError(
                    f"token {i}: {tag!r} is no {self.name} tag; those are O and "
                    f"{', '.join(f'{prefix}-label' for prefix in self.prefixes)}"
                )
        encoded = self.encode(read_spans(tags), len(tags))
        fixed = [old if old in MISSING else new for old, new in zip(tags, encoded, strict=True)]
        return fixed, sum(old != new for old, new in zip(tags, fixed, strict=True))

    def decode_ids(
        self, ids: ArrayLike, lengths: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Spans in a flat batch of valid tag ids (N,): starts, ends and label indices, in order.

        `lengths` (B,) are those of the sequences, by default a single one; no entity goes on from
        one to the next. ValueError naming the first token where the ids are no valid sequence.
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
        # Not followed by a token of the same entity: last in its sequence, or the next one differs.
        final = ~np.append(follows[1:], False)[: len(ids)] | first[1:]
        invalid |= final & ~self._may_end[codes]
        if invalid.any():
            i = int(np.argmax(invalid))
            raise ValueError(
                f"token {i}: tag id {int(ids[i])} ends, continues or skips an entity in a way that "
                f"{self.name} does not allow"
            )
        (starts,) = np.nonzero((ids > 0) & ~follows)
        (last,) = np.nonzero((ids > 0) & final)
        return starts, last + 1, labels[starts]

    def _split(self, ids: NDArray) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Prefix codes, 0 for O and else 1 + prefix, and label indices, -1 for O."""
        labels, prefixes = np.divmod(np.asarray(ids, dtype="int32") - 1, len(self.prefixes))
        return np.where(labels < 0, 0, prefixes + 1), labels

    # By prefix code, (1 + P,).
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
    """The scheme of that name; a ValueError lists the names there are."""
    if name not in _SCHEMES:
        raise ValueError(f"unknown tagging scheme {name!r}; expected one of {', '.join(_SCHEMES)}")
    return _SCHEMES[name]


def read_spans(tags: Sequence[str | None]) -> list[Span]:
    """The entities in tags of any of the schemes, IOB1 too, valid or not, as conlleval reads them.

    An entity starts at B, U or S, after O or a missing tag, after L, E, U or S, and where the label
    changes; it ends where the next one starts or at O or a missing tag (CoNLL-2000 conlleval.pl,
    startOfChunk and endOfChunk). ValueError naming the token for anything that is no tag.
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
                    f"token {i}: {tag!r} is no tag; expected O or a prefix of "
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
