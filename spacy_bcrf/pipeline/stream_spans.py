"""The spans of the decoder for F in a text that arrives in pieces."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import best_spans

from .codecs import Codec
from .stream_chain import Bounds, TagsOfSpans

_Row = tuple[Bounds, float, float]
"""A candidate, its least and its largest gain. An open one ends behind the last token."""


class SpansForF:
    """Chooses the spans of `span_decoder.choose_spans` as soon as no later text can change them.

    A token that no candidate crosses cuts the problem, because only candidates with a gain above 0
    are chosen. Between two such tokens, the best set S is final if it is the best of all with the
    least gains for its own spans and the largest gains for the others: spans in S and in another
    set S' cancel in the difference of their sums, so this is the smallest difference.
    """

    def __init__(
        self,
        codec: Codec,
        thresholds: NDArray[np.float64],
        stream: Any,
        tags: TagsOfSpans,
        max_lag: int,
    ) -> None:
        """thresholds: of labels. stream, tags: see `make_stream_chain`. max_lag: see `Stream`."""
        assert codec.spans is not None
        self._stream, self._tags, self._max_lag = stream, tags, max_lag
        self._thresholds, self._least = thresholds, tags.find_least(thresholds)
        self._groups, self._depths = codec.spans.find_groups()
        self._decided = [0] * len(self._depths)  # tokens of each group
        self.forced = 0
        """The number of candidates that `max_lag` has decided."""

    @property
    def decided(self) -> int:
        """The number of tokens before all spans that are not final."""
        return min(self._decided)

    def choose(self, *, closed: bool) -> list[Bounds]:
        """Return the next final spans, ordered by their last token."""
        stream, thresholds = self._stream, self._thresholds
        rows: list[list[_Row]] = [[] for _ in self._decided]
        for span in self._tags.find_candidates(stream, self.decided, self._least):
            start, end, label = span
            group = int(self._groups[label])
            if start < self._decided[group] or (closed and end > stream.length):
                continue
            least, most = self._tags.bound(stream, span)
            if most > thresholds[label]:
                rows[group].append((span, least - thresholds[label], most - thresholds[label]))
        chosen = [span for group, found in enumerate(rows) for span in self._settle(group, found)]
        return sorted(chosen, key=lambda span: (span[1], span[0]))

    def _settle(self, group: int, found: list[_Row]) -> Iterator[Bounds]:
        """Yield the final spans of a group."""
        depth = int(self._depths[group])
        self._decided[group] = self._stream.length
        for part in _split(found):
            is_open = any(span[1] > self._stream.length for span, *_ in part)
            final = None if is_open else _find_final(part, depth)
            if final is None:
                yield from self._force(group, part)
                return
            yield from final

    def _force(self, group: int, part: list[_Row]) -> list[Bounds]:
        """Return the best spans so far that start before `max_lag` tokens."""
        length, first = self._stream.length, part[0][0][0]
        late, taken = length - self._max_lag, []
        if first < late:
            complete = [row for row in part if row[0][1] <= length]
            gains = np.array([(least + most) / 2 for _, least, most in complete])
            best = _find_best(complete, gains, int(self._depths[group]))
            taken = [complete[i][0] for i in best if complete[i][0][0] < late]
        self._decided[group] = decided = max(first, late, *(end for _, end, _ in taken))
        self.forced += sum(span[0] < decided for span, *_ in part)
        return taken


def _find_best(part: list[_Row], gains: NDArray[np.float64], depth: int) -> NDArray[np.int64]:
    starts, ends, _ = np.array([span for span, *_ in part]).reshape(-1, 3).T
    return best_spans(starts, ends, gains, depth)


def _find_final(part: list[_Row], depth: int) -> list[Bounds] | None:
    """Return the best of complete candidates, None if later text may change it."""
    if len(part) == 1:
        span, gain, _ = part[0]
        return [span] if gain > 0 else None
    least, most = np.array([gains for _, *gains in part]).T
    best = _find_best(part, (least + most) / 2, depth)
    most[best] = least[best]
    is_final = np.array_equal(_find_best(part, most, depth), best)
    return [part[i][0] for i in best] if is_final else None


def _split(found: list[_Row]) -> Iterator[list[_Row]]:
    """Yield the candidates of each stretch of tokens, within which each token has one."""
    part: list[_Row] = []
    reached = 0
    for row in found:
        if part and row[0][0] >= reached:
            yield part
            part = []
        part.append(row)
        reached = max(reached, row[0][1])
    if part:
        yield part
