"""De-identification of a text that arrives in pieces."""

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language

from spacy_bcrf.annotation.folding import Folded, StringIndex
from spacy_bcrf.pipeline.identifier_recognizer import IdentifierRecognizer
from spacy_bcrf.pipeline.stream import Final

from .occurrences import (
    MIN_POOLED,
    Region,
    String,
    Words,
    find_strings,
    merge_regions,
    merge_repeats,
)
from .recall_promise import choose_promise, find_labels
from .redact import Redacted, add_literals, find_left, replace_regions
from .replacer import Replacer
from .vault import Vault

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
        promise: str | None = None,
        key: bytes = b"",
        vault: Vault | None = None,
        max_lag: int | None = None,
    ) -> None:
        """style, threshold, promise, key, vault: see `redact`. With "shifted", the key alone
        draws the days. max_lag: see `Stream`; it replaces uncertain spans.

        ValueError without a promise or threshold, for a component that cannot stream, and for
        components before it that may find entities or sentences.
        """
        self._replacer = Replacer(style, key, vault)
        name, labeler, control = choose_promise(nlp, pipe, threshold, promise)
        self._replacer.expect(find_labels(nlp, name))
        earlier = nlp.pipeline[: nlp.pipe_names.index(name)]
        finders = [x.finder for _, x in earlier if isinstance(x, IdentifierRecognizer)][:1]
        if before := [x for x, pipe in earlier if not _is_harmless(nlp, x, pipe)]:
            raise ValueError(
                f"[{name}] cannot redact a stream: {', '.join(before)} before it may find "
                "entities or sentences, and may need the whole text. Disable them"
            )
        # The label of a region is that of its most probable span.
        self._stream = labeler.stream(
            nlp.tokenizer,
            max_lag=max_lag,
            probabilities=True,
            control=control,
            identifiers=finders[0] if finders else None,
        )
        self._words: list[str] = []  # final tokens with their blanks
        self._starts: list[int] = []  # their first characters
        self._held = ""  # what of them is not emitted
        self._inside: list[float] = []  # upper bounds of their probabilities to be in a span
        self._found: list[Region] = []  # spans
        self._near: list[Region] = []  # those that are not emitted
        self._strings: dict[str, String] = {}
        self._index = StringIndex()
        self._pooled: dict[str, tuple[float, int]] = {}  # sum and number of the occurrences' p
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
        words = Words(old, self._starts)
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
            Region(s.start_char, s.end_char, s.label, s.probability or 0)
            for s in (*final.candidates, *final.identifiers)
        ]
        self._found += new
        self._near += new
        # A candidate can be final before its words are.
        spans = [span.move(-first) for span in self._near if first <= span.start and span.end <= at]
        k = bisect_left(self._starts, first)
        words = Words(self._held, [start - first for start in self._starts[k:]])
        for string in find_strings(words, spans) if spans else ():
            known = self._strings.get(string.text)
            if known is None or known.is_word or (known.name and not any(string[2:])):
                self._strings[string.text] = string
                self._index.add(string.text)

    def _emit(self, closed: bool) -> str:
        first = self._emitted
        repeats, cut = self._find_repeats()
        spans = [s._replace(start=max(s.start, first)) for s in self._near]
        regions = merge_regions([*spans, *(region for region, _, _ in repeats)])
        end = first + len(self._held) if closed else cut
        if self._replacer.vault is not None and not closed:
            # A placeholder by chance may go on, unless a region covers its beginning.
            known = self._held[: end - first]
            end = first + self._replacer.vault.find_beginning(known)
        for region in reversed(regions):
            if region.start < end < region.end:
                end = region.start
        for _, string, p in (one for one in repeats if one[0].end <= end):
            total, n = self._pooled.get(string, (0.0, 0))
            self._pooled[string] = total + p, n + 1
        regions = [region for region in regions if region.end <= end]
        text, self._held = self._held[: end - first], self._held[end - first :]
        moved = [region.move(-first) for region in regions]
        moved = add_literals(text, moved, self._replacer)
        regions = [region.move(first) for region in moved]
        new, replaced = replace_regions(text, moved, self._replacer)
        self._replaced += [region.move(self._length) for region in replaced]
        self._regions += regions
        self._parts.append(new)
        self._length += len(new)
        self._emitted = end
        self._near = [span for span in self._near if span.end > end]
        return new

    def _find_repeats(self) -> tuple[list[tuple[Region, str, float]], int]:
        """Return the occurrences of strings that are not emitted: each with its probability.

        Also returns the first character of a word that may begin a found string, or the end.
        """
        starts, first, end_of_text = self._starts, self._emitted, self._emitted + len(self._held)
        if not self._strings:
            return [], end_of_text
        places, cut = self._index.find(Folded(self._held))
        found = []
        pooled: dict[str, tuple[float, int]] = {}
        for text, start, end in places:
            string = self._strings[text]
            if not string.is_in(self._held[start:end]):
                continue
            start, end = start + first, end + first
            word = bisect_right(starts, start) - 1
            p = min(self._inside[word : bisect_left(starts, end)])
            total, n = pooled.get(text) or self._pooled.get(text, (0.0, 0))
            pooled[text] = total + p, n + 1
            if name := string.name:
                more, n_more = pooled.get(name) or self._pooled.get(name, (0.0, 0))
                total, n = total + more, n + n_more
            total, n = total + p, n + 1
            if total >= MIN_POOLED * n:
                found.append((Region(start, end, string.label, total / n, True), text, p))
        if cut == len(self._held):
            return found, end_of_text
        return found, max(first, starts[bisect_right(starts, first + cut) - 1])


def _is_harmless(nlp: Language, name: str, pipe: Any) -> bool:
    """Return whether a component sets nothing that a stream of text reads, or streams too."""
    meta = nlp.get_pipe_meta(name)
    if isinstance(pipe, IdentifierRecognizer):
        return True
    return bool(meta.assigns) and not meta.retokenizes and _HARMLESS.issuperset(meta.assigns)
