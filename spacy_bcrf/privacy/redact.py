"""De-identification: replaced spans of a recall promise, and their further occurrences."""

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.annotation.folding import fold
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.loading import annotate_before
from spacy_bcrf.pipeline.codecs.span_tagging import OUTSIDE_TAG
from spacy_bcrf.pipeline.predict_in_parts import predict_in_parts
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import Control

from .documents import read_document
from .nodes import Bounds, Document
from .occurrences import Region, String, Words, find_places, merge_regions, merge_repeats
from .recall_promise import choose_promise, find_labels
from .replacer import Replacer
from .vault import LITERAL, Vault, clean_label


class Redacted(NamedTuple):
    """A redacted text. spans: the replacements, in its characters. regions: in the old ones.

    left: the places in it where a found string, or one of its words, still stands. In a format,
    `regions` and `left` count the characters of its joined texts, the old and the new ones, and
    behind these the characters of `Document.markup`.
    """

    text: str
    spans: list[Region]
    regions: list[Region]
    left: list[Region]

    def to_json(self, vault: Vault | None = None) -> dict[str, Any]:
        """Return text, spans and vault as JSON values, without anything of the old text."""
        found = {"text": self.text, "spans": [span._asdict() for span in self.spans]}
        return found if vault is None else {**found, "vault": vault.id}

    def counts(self) -> dict[str, int]:
        """Return numbers that add up: of texts, spans, places left and characters."""
        return {
            "texts": 1,
            "spans": len(self.spans),
            "left": len(self.left),
            "replaced": sum(region.end - region.start for region in self.regions),
            "written": sum(span.end - span.start for span in self.spans),
            "characters": len(self.text),
        }


def redact(
    nlp: Language,
    docs: Iterable[Doc],
    pipe: str | None = None,
    *,
    style: str = "label",
    threshold: float | None = None,
    promise: str | None = None,
    key: bytes = b"",
    vault: Vault | None = None,
    return_exceptions: bool = False,
) -> Iterator[Any]:
    """Yield the `Redacted` texts of documents without annotation.

    It replaces the spans of the component's recall promise, the entities of earlier components, and
    all further occurrences in the document of the found strings and their words, whose pooled
    posterior is at least MIN_POOLED: the mean over the occurrences of the probability to be in a
    span. Strings are compared by `Folded`, without possessives. Then it looks for them in its own
    output: `Redacted.left`.

    style, key, vault: see `Replacer`. threshold, promise: see `find_promise`, which needs either.
    return_exceptions: yield the exception of a text that fails, in its place, and go on.
    """
    redactor = Redactor(
        nlp, pipe, Replacer(style, key, vault), threshold=threshold, promise=promise
    )
    for batch in minibatch(docs, BATCH_SIZE):
        for found in redactor.redact(batch):
            if isinstance(found, Exception) and not return_exceptions:
                raise found
            yield found


class Redactor:
    """Redaction by one component of a pipeline. name, labeler: of the component."""

    def __init__(
        self,
        nlp: Language,
        pipe: str | None,
        replacer: Replacer,
        *,
        threshold: float | None = None,
        promise: str | None = None,
    ) -> None:
        """threshold, promise: see `find_promise`. ValueError without either."""
        self.nlp, self.replacer = nlp, replacer
        self.name, self.labeler, self.promise = choose_promise(nlp, pipe, threshold, promise)
        replacer.expect(find_labels(nlp, self.name))

    def redact(self, docs: list[Doc]) -> list[Redacted | Exception]:
        """Return the redacted texts of a batch, or the exception of a text that fails alone."""
        try:
            return list(self._redact(docs))
        except Exception:
            # The components may have annotated some of the documents.
            fresh = [copy_words(doc, self.nlp.vocab) for doc in docs]
            return predict_in_parts(self._redact_again, fresh)

    def _redact_again(self, docs: Sequence[Doc]) -> list[Redacted]:
        return self._redact([copy_words(doc, self.nlp.vocab) for doc in docs])

    def _redact(self, docs: Sequence[Doc]) -> list[Redacted]:
        return self.redact_documents([(read_document(doc.text, "plain"), [doc]) for doc in docs])

    def read(self, document: Document) -> tuple[Document, list[Doc]]:
        """Return a document with the tokens of each of its texts."""
        bounds = zip(document.intros, document.texts, strict=True)
        texts = (intro + document.text[start:end] for intro, (start, end) in bounds)
        return document, list(map(self.nlp.make_doc, texts))

    def redact_documents(self, read: Sequence[tuple[Document, Sequence[Doc]]]) -> list[Redacted]:
        """Redact documents of `read`. An exception is of any."""
        every = [doc for _, docs in read for doc in docs]
        annotated = annotate_before(self.nlp, self.name, every) if every else ()
        batch = list(annotated)
        found = zip(batch, find_private_spans(self.labeler, batch, self.promise), strict=True)
        return [
            replace_texts(document, list(islice(found, len(docs))), self.replacer)
            for document, docs in read
        ]

    def redact_strings(self, texts: Sequence[str]) -> list[str]:
        """Return the redacted texts of one document."""
        read = self.read(read_document(json.dumps(texts), ".json"))
        (found,) = self.redact_documents([read])
        return list(json.loads(found.text))


def find_regions(
    labeler: Any, batch: list[Doc], promise: Control | None = None
) -> Iterator[list[Region]]:
    """Yield the regions to replace, by a promise of recall. batch: annotated before it."""
    found = find_private_spans(labeler, batch, promise or labeler.control)
    for doc, (spans, inside) in zip(batch, found, strict=True):
        yield merge_repeats(Words.of(doc, doc.text), spans, inside)[0]


Found = tuple[list[Region], NDArray]
"""Spans of a document, and the probabilities (n,) of its tokens to be in one."""


def find_private_spans(labeler: Any, batch: list[Doc], promise: Control) -> Iterator[Found]:
    """Yield the found spans of documents, and the probabilities of tokens."""
    marginals = labeler.token_marginals(batch, ignore_annotation=False)
    settings = labeler.settings.change(labeler.name, {"control": promise})
    predictions = labeler.predict(batch, settings)
    for doc, prediction, of_doc in zip(batch, predictions, marginals, strict=True):
        assert prediction.candidates is not None, "the promise is of recall"
        found = [
            Region(doc[start].idx, doc[end - 1].idx + len(doc[end - 1]), labeler.labels[label], p)
            for start, end, label, p in prediction.candidates
        ]
        found += [Region(ent.start_char, ent.end_char, ent.label_, 1.0) for ent in doc.ents]
        codec = labeler.codec
        # The chains side by side are independent: a token is O in all, or inside.
        inside = 1 - of_doc[:, OUTSIDE_TAG :: codec.n_tags].prod(axis=1)
        for ent in doc.ents:  # of earlier components, with labels that this one may not have
            inside[ent.start : ent.end] = 1
        yield found, inside


def replace_spans(
    doc: Doc,
    spans: list[Region],
    inside: NDArray,
    replacer: Replacer,
    text: str | None = None,
) -> Redacted:
    """Return a document without found spans and repeats. inside: (n,), see `find_private_spans`.

    text: the joined tokens, if they are known.
    """
    text = doc.text if text is None else text
    replacer.begin(text)
    regions, strings = merge_repeats(Words.of(doc, text), spans, inside) if spans else ([], [])
    regions = add_literals(text, regions, replacer)
    if not regions:
        return Redacted(text, [], [], [])
    new, replaced = replace_regions(text, regions, replacer)
    left = list(find_left(text, regions, new, replaced, strings))
    return Redacted(new, replaced, regions, left)


def replace_texts(
    document: Document, found: Sequence[tuple[Doc, Found]], replacer: Replacer
) -> Redacted:
    """Return a document without found spans and repeats. found: of each of its texts.

    A found string of one text is sought in all of them. Regions are places of the joined text.
    """
    if document.is_plain:
        ((doc, (spans, inside)),) = found
        return replace_spans(doc, spans, inside, replacer, document.text)
    text = document.text
    replacer.begin(text)
    every, regions = list[Region](), list[Region]()
    words, tokens = Words(text, []), list[NDArray]()
    bounds = zip(document.intros, document.texts, found, strict=True)
    for intro, (first, last), (doc, (spans, inside)) in bounds:
        of_text = Words.of(doc, text[first:last], n := len(intro))
        spans = [one._replace(start=max(one.start, n)).move(-n) for one in spans if one.end > n]
        inside = inside[len(inside) - len(of_text.starts) :]
        words.starts.extend(first + start for start in of_text.starts)
        tokens.append(inside)
        regions += (one.move(first) for one in merge_repeats(of_text, spans, inside)[0])
        every += (one.move(first) for one in spans)
    strings: list[String] = []
    if every:
        more, strings = merge_repeats(words, every, np.concatenate(tokens), document.markup)
        regions += more
    if replacer.vault is not None:
        placeholders = replacer.vault.find(document.source)
        places = [place for one in placeholders for place in document.find(one.start, one.end)]
        regions += [Region(start, end, LITERAL, 1.0) for start, end in places]
    regions = _widen(document, _cut(document, merge_regions(regions)))
    numbers = {x[:2] for x in regions if replacer.vault and document.is_number(x.start)}
    while (more := _cut(document, add_literals(text, regions, replacer, numbers))) != regions:
        regions = more
    new, replaced = replace_regions(text, regions, replacer, numbers)
    parts = [(*r[:2], new[s.start : s.end]) for r, s in zip(regions, replaced, strict=True)]
    source, at = document.write(parts)
    spans = [s._replace(start=a, end=b) for s, (a, b) in zip(replaced, at, strict=True)]
    left = list(find_left(text, regions, new, replaced, strings))
    if strings:
        left += (x.move(len(new)) for x in find_left("", [], document.markup, [], strings))
    return Redacted(source, spans, regions, left)


def _cut(document: Document, regions: Iterable[Region]) -> list[Region]:
    return [
        one._replace(start=start, end=end)
        for one in regions
        for start, end in document.cut(one.start, one.end)
    ]


def _widen(document: Document, regions: list[Region]) -> list[Region]:
    """Widen regions to the texts that change as a whole. The label is of the highest score."""
    found: dict[Bounds, Region] = {}
    for one in sorted(regions, key=lambda one: (not one.repeated, one.score)):
        for start, end in document.find_whole(one.start) or [one[:2]]:
            found[start, end] = one._replace(start=start, end=end)
    return sorted(found.values())


def add_literals(
    text: str, regions: list[Region], replacer: Replacer, numbers: Collection[Bounds] = ()
) -> list[Region]:
    """Add what looks like a numbered placeholder in the new text, but is none.

    So `restore` finds only placeholders that `redact` made.
    """
    if replacer.vault is None:
        return regions
    while True:
        new, spans = replace_regions(text, regions, replacer, numbers)
        made = {(span.start, span.end) for span in spans}
        found = [one[:2] for one in replacer.vault.find(new) if one[:2] not in made]
        # The parts of the old text that stay: start and end in the new text, and shift to the old.
        starts = [(0, 0), *((s.end, r.end - s.end) for s, r in zip(spans, regions, strict=True))]
        ends = [*(span.start for span in spans), len(new)]
        literals = [
            Region(max(start, first) + shift, min(end, last) + shift, LITERAL, 1.0)
            for start, end in found
            for (first, shift), last in zip(starts, ends, strict=True)
            if start < last and first < end
        ]
        if not literals:
            return regions
        regions = sorted([*regions, *literals])


def replace_regions(
    text: str, regions: list[Region], replacer: Replacer, numbers: Collection[Bounds] = ()
) -> tuple[str, list[Region]]:
    """Return the new text, and the regions in its characters. numbers: places of them in JSON."""
    parts, spans, at, length = [], [], 0, 0
    for region in regions:
        old = text[region.start : region.end]
        new = replacer.replace(old, region.label, region[:2] in numbers)
        length += region.start - at
        spans.append(region._replace(start=length, end=length + len(new)))
        parts += [text[at : region.start], new]
        at, length = region.end, length + len(new)
    return "".join([*parts, text[at:]]), spans


def find_left(
    old: str, regions: list[Region], new: str, spans: list[Region], strings: list[String]
) -> Iterator[Region]:
    """Yield the places where strings stand in a new text. Skip places inside a replacement."""
    ends = [span.end for span in spans]
    for string, places in find_places(new, strings):
        for start, end in places:
            k = bisect_left(ends, end)
            if k < len(spans) and spans[k].start <= start:
                region, span = regions[k], spans[k]
                labels = f"[{span.label}]", f"[{clean_label(span.label)}_"  # also numbered
                is_label = new.startswith(labels, span.start, span.end)
                if is_label or string.text not in fold(old[region.start : region.end]):
                    continue
            yield Region(start, end, string.label, 0.0, True)
