"""`spacy-bcrf.Corpus.v1`: spaCy's corpus reader, whose sentences keep partial annotation.

spaCy's reader splits documents by `Span.as_doc`, which copies neither custom attributes nor span
groups. So "annotated for these labels" would become "no other entity".
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Corpus, Example
from spacy.vocab import Vocab

from spacy_bcrf.annotation.extensions import UserData, set_extensions
from spacy_bcrf.annotation.misaligned import NAME
from spacy_bcrf.annotation.partial import AMBIGUOUS

from .doc_files import read_docs

PARTIAL = {"annotated_labels", "allowed_labels", "allowed_tags", NAME}


def make_split_reader(
    path: Path | None,
    gold_preproc: bool = False,
    max_length: int = 0,
    limit: int = 0,
    augmenter: Callable | None = None,
) -> Callable[[Language], Iterator[Example]]:
    """Return a corpus reader with the options of `spacy.Corpus.v1`. ValueError without a path.

    gold_preproc: read each sentence as a document, with the tokens of the file. max_length: split
    documents of this many tokens or more into sentences; 0 for none. A span that crosses a sentence
    start is left out, and the tokens of such an entity or ambiguous span are missing annotation.
    A warning counts documents and sentences of `max_length` tokens, which are left out.
    """
    if path is None:
        raise ValueError("[Corpus] path is missing; expected a .spacy file or a folder of them")
    options: Any = {"gold_preproc": gold_preproc, "max_length": max_length, "limit": limit}
    return SplitCorpus(path, augmenter=augmenter, **options)


class SplitCorpus(Corpus):
    """spaCy's reader with partial annotation of sentences, see `make_split_reader`."""

    def make_examples(self, nlp: Language, reference_docs: Iterable[Doc]) -> Iterator[Example]:
        """Yield the examples of documents shorter than `max_length`, and of sentences."""
        set_extensions()
        n_long = 0
        for doc in reference_docs:
            is_long = 0 < self.max_length <= len(doc)
            for part in split_doc(doc) if is_long else [doc]:
                if 0 < self.max_length <= len(part):
                    n_long += 1
                elif len(part):
                    yield self._make_example(nlp, part, False)
        if n_long:
            warnings.warn(
                f"{self.path}: left out {n_long:,} documents or sentences of {self.max_length} "
                "tokens or more. Raise max_length, or annotate sentence starts",
                stacklevel=2,
            )

    def make_examples_gold_preproc(
        self, nlp: Language, reference_docs: Iterable[Doc]
    ) -> Iterator[Example]:
        set_extensions()
        for doc in reference_docs:
            for part in split_doc(doc):
                if len(part):
                    yield self._make_example(nlp, part, True)


def split_doc(doc: Doc) -> list[Doc]:
    """Return a document's sentences as documents with all annotation, itself without sentences."""
    return [_cut(sent) for sent in doc.sents] if doc.has_annotation("SENT_START") else [doc]


def _cut(sent: Span) -> Doc:
    doc = sent.as_doc()
    # `as_doc` copies no attribute of the document, and attributes of tokens beyond the sentence.
    old: UserData = sent.doc.user_data
    data: UserData = doc.user_data
    for key, value in old.items():
        if not _is_extension(key) or key[2] is None:
            data[key] = value
        elif sent.start_char <= key[2] < sent.end_char:
            offsets = (None if x is None else x - sent.start_char for x in key[2:])
            data[(*key[:2], *offsets)] = value
    for name, group in sent.doc.spans.items():
        inside: list[Span] = []
        cut: list[Span] = []
        for span in group:
            start, end = max(span.start, sent.start), min(span.end, sent.end)
            if start < end:
                part = Span(doc, start - sent.start, end - sent.start, label=span.label)
                (inside if (start, end) == (span.start, span.end) else cut).append(part)
        doc.spans[name] = SpanGroup(doc, name=name, spans=inside)
        if name == AMBIGUOUS and cut:
            doc.set_ents([], missing=cut, default="unmodified")
    return doc


def _is_extension(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 4 and key[0] == "._."


def find_losses(config: dict[str, Any], vocab: Vocab) -> Iterator[str]:
    """Yield notes on corpora whose partial annotation spaCy's reader loses. config: filled."""
    for name, block in config.get("corpora", {}).items():
        settings = block if isinstance(block, dict) else {}
        path, longest = settings.get("path"), settings.get("max_length", 0)
        is_split = settings.get("gold_preproc") or longest
        is_spacy = settings.get("@readers") == "spacy.Corpus.v1"
        if not (is_spacy and is_split and path and Path(path).exists()):
            continue
        lost: Counter[str] = Counter()
        for doc in read_docs(Path(path), vocab):
            if len(doc) >= longest:
                lost.update(_find_partial(doc))
        if n := lost.pop(NAME, 0):
            lost[f"{n:,} gold spans that cut tokens"] = n
        if lost:
            yield (
                f"[corpora.{name}] spacy.Corpus.v1 splits documents of {path}, and their sentences "
                f"lose {', '.join(sorted(lost))}. Set @readers = spacy-bcrf.Corpus.v1"
            )


def _find_partial(doc: Doc) -> Iterator[str]:
    """Yield the names of the annotation of a document that `Span.as_doc` does not copy."""
    data: UserData = doc.user_data
    for key, value in data.items():
        if _is_extension(key) and key[1] in PARTIAL and value is not None:
            yield key[1]
    yield from (f"doc.spans[{key!r}]" for key, group in doc.spans.items() if len(group))
