"""De-identification of a text that arrives in pieces."""

from bisect import bisect_left, bisect_right
from functools import partial
from typing import NamedTuple

import numpy as np
from spacy.language import Language

from spacy_bcrf.pipeline.stream import Final

from .folding import Folded, fold
from .loading import find_labeler
from .redact import (
    MIN_POOLED,
    Redacted,
    Region,
    String,
    Words,
    find_left,
    find_promise,
    find_strings,
    merge,
    merge_repeats,
    replace_regions,
)
from .replacer import Replacer

_HARMLESS = {"token.tag", "token.pos", "token.morph", "token.lemma", "doc.tensor", "doc.cats"}


class StreamReport(NamedTuple):
    """What is known when a stream ends.

    redacted: as of `redact`. late: regions of the whole text, in its characters, of which a part
    was emitted: repeats of a string that was found, or became certain, only later. forced: the
    number of spans that `max_lag` has decided.
    """

    redacted: Redacted
    late: list[Region]
    forced: int


class RedactionStream:
    """Replace the spans of a recall promise in a text that arrives in pieces.

    It emits no character of a span that `redact` finds in the whole text. A repeat of a found
    string is replaced if the pooled posterior of its occurrences since it was found is at least
    MIN_POOLED, with the label known by then. Repeats that were emitted before cannot be taken back,
    and the report has them. The stream keeps the whole text for it.
    """

    def __init__(
        self,
        nlp: Language,
        pipe: str | None = None,
        *,
        style: str = "label",
        threshold: float | None = None,
        key: bytes = b"",
        max_lag: int | None = None,
    ) -> None:
        """style, threshold, key: see `redact`. max_lag: see `Stream`; uncertain spans are replaced.

        ValueError without a promise or threshold, for a component that cannot stream, and for
        components before it that may find entities or sentences.
        """
        self._replacer = Replacer(style, key)
        name, labeler = find_labeler(nlp, pipe, check=partial(find_promise, threshold=threshold))
        before = nlp.pipe_names[: nlp.pipe_names.index(name)]
        if before := [pipe for pipe in before if not _is_harmless(nlp, pipe)]:
            raise ValueError(
                f"[{name}] cannot redact a stream: {', '.join(before)} before it may find "
                "entities or sentences, and may need the whole text. Disable them"
            )
        # The label of a region is that of its most probable span.
        self._stream = labeler.stream(
            nlp.tokenizer,
            max_lag=max_lag,
            probabilities=True,
            control=find_promise(name, labeler, threshold),
        )
        self._words: list[str] = []  # final tokens with their blanks
        self._starts: list[int] = []  # their first characters
        self._held = ""  # what of them is not emitted
        self._inside: list[float] = []  # upper bounds of their probabilities to be in a span
        self._found: list[Region] = []  # spans
        self._near: list[Region] = []  # those that are not emitted
        self._strings: dict[str, String] = {}
        self._pooled: dict[str, list[float]] = {}  # probabilities of occurrences, by string
        self._beginnings: set[str] = set()  # of strings
        self._longest = 0
        self._emitted = self._length = 0  # characters of the old and of the new text
        self._parts: list[str] = []
        self._regions: list[Region] = []
        self._replaced: list[Region] = []

    def feed(self, text: str) -> str:
        """Take the next text. RETURNS what is final of the new one. Errors: see `Stream.feed`."""
        self._add(self._stream.feed(text))
        return self._emit(False)

    def close(self) -> tuple[str, StreamReport]:
        """Return the rest of the new text, and the report. ValueError if the stream is closed."""
        self._add(self._stream.close())
        rest = self._emit(True)
        old, new = "".join(self._words), "".join(self._parts)
        words = Words(old, self._words, self._starts)
        whole, strings = merge_repeats(words, self._found, np.array(self._inside))
        is_replaced = np.zeros(len(old), dtype=bool)
        for region in self._regions:
            is_replaced[region.start : region.end] = True
        late = [region for region in whole if not is_replaced[region.start : region.end].all()]
        left = list(find_left(old, self._regions, new, self._replaced, strings))
        redacted = Redacted(new, self._replaced, self._regions, left)
        return rest, StreamReport(redacted, late, self._stream.forced)

    def _add(self, final: Final) -> None:
        first, at = self._emitted, self._emitted + len(self._held)
        for word in final.words:
            self._starts.append(at)
            at += len(word)
        self._words += final.words
        self._held += final.text
        self._inside += final.inside
        new = [
            Region(s.start_char, s.end_char, s.label, s.probability or 0) for s in final.candidates
        ]
        self._found += new
        self._near += new
        # A candidate can be final before its words are.
        spans = [
            _move(span, -first) for span in self._near if first <= span.start and span.end <= at
        ]
        k = bisect_left(self._starts, first)
        words = Words(self._held, self._words[k:], [start - first for start in self._starts[k:]])
        for string in find_strings(words, spans) if spans else ():
            known = self._strings.get(string.text)
            if known is None or known.is_word:
                self._strings[string.text] = string
                self._add_beginnings(string.text)

    def _add_beginnings(self, string: str) -> None:
        self._longest = max(self._longest, len(string))
        for n in range(1, len(string)):
            around = string[n - 1 : n + 1]
            if not (around.isascii() and around.isalnum()):
                self._beginnings.add(string[:n].strip())

    def _emit(self, closed: bool) -> str:
        first = self._emitted
        repeats = self._find_repeats()
        spans = [s._replace(start=max(s.start, first)) for s in self._near]
        regions = merge([*spans, *(region for region, _, _ in repeats)])
        end = first + len(self._held) if closed else self._find_open()
        for region in reversed(regions):
            if region.start < end < region.end:
                end = region.start
        for _, string, p in (one for one in repeats if one[0].end <= end):
            self._pooled.setdefault(string, []).append(p)
        regions = [region for region in regions if region.end <= end]
        text, self._held = self._held[: end - first], self._held[end - first :]
        moved = [_move(region, -first) for region in regions]
        new, replaced = replace_regions(text, moved, self._replacer)
        self._replaced += [_move(region, self._length) for region in replaced]
        self._regions += regions
        self._parts.append(new)
        self._length += len(new)
        self._emitted = end
        self._near = [span for span in self._near if span.end > end]
        return new

    def _find_open(self) -> int:
        """Return the first character of a word that may begin a found string, or the end."""
        first, end = self._emitted, self._emitted + len(self._held)
        for start in self._starts[bisect_left(self._starts, max(first, end - self._longest - 1)) :]:
            if fold(self._held[start - first :]).strip() in self._beginnings:
                return start
        return end

    def _find_repeats(self) -> list[tuple[Region, str, float]]:
        """Return the occurrences of strings that are not emitted: each with its probability."""
        folded, starts, first = Folded(self._held), self._starts, self._emitted
        found = []
        for text, string in self._strings.items():
            pooled = self._pooled.get(text, [])
            total, n = sum(pooled), len(pooled)
            for start, end in string.find(self._held, folded):
                start, end = start + first, end + first
                word = bisect_right(starts, start) - 1
                p = min(self._inside[word : bisect_left(starts, end)])
                total, n = total + p, n + 1
                if total >= MIN_POOLED * n:
                    found.append((Region(start, end, string.label, total / n, True), text, p))
        return found


def _is_harmless(nlp: Language, name: str) -> bool:
    """Return whether a component sets nothing that a stream of text reads."""
    meta = nlp.get_pipe_meta(name)
    return bool(meta.assigns) and not meta.retokenizes and _HARMLESS.issuperset(meta.assigns)


def _move(region: Region, by: int) -> Region:
    return region._replace(start=region.start + by, end=region.end + by)
