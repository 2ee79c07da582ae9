"""Annotation to review in place of predictions, and the suspects of `audit` among it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Span

from spacy_bcrf.io.shards import find_files, read_docs
from spacy_bcrf.io.text import CorpusError, read_lines
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

from ..paths import check_corpus


def read_annotation(
    nlp: Language, labeler: SequenceLabeler, corpus: Path
) -> Iterator[Sequence[Span]]:
    """Yield the spans of each document. ValueError names the document of an unknown label."""
    check_corpus(corpus)
    for file in find_files(corpus):
        for i, doc in enumerate(read_docs(file, nlp.vocab)):
            spans = labeler.codec.find_spans(doc)
            for span in spans:
                if span.label_ not in labeler.labels:
                    raise ValueError(
                        f"{file}: document {i} has the label {span.label_!r}, but "
                        f"{labeler.name} has {', '.join(labeler.labels)}"
                    )
            yield spans


def keep_suspects(
    documents: Iterable[dict[str, Any]], path: Path, labels: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the documents with suspects. All other spans count as accepted.

    documents: of `read_predictions` with gold spans. path: JSON lines that `audit` wrote.
    CorpusError names a line that does not fit the documents.
    """
    suspects: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for line in read_lines(path):
        try:
            record = json.loads(line.text)
            suspects[int(record["doc"])].append((line.number, record))
        except (ValueError, TypeError, KeyError):
            raise CorpusError(
                f"{path}:{line.number}: no suspect; expected a line that `audit` wrote"
            ) from None
    n = 0
    for i, document in enumerate(documents):
        n = i + 1
        places = []
        for number, record in suspects.get(i, ()):
            if record["text"] != document["text"]:
                raise CorpusError(f"{path}:{number}: document {i} of the corpus has another text")
            for part in (record, record["suggestion"] or {}):
                places.append((part.get("start", 0), part.get("end", 0)))
        if not places:
            continue
        starts, ends = document["starts"], document["ends"]
        for span in document["spans"]:
            start, end = starts[span[0]], ends[span[1] - 1]
            is_suspect = any(start < last and first < end for first, last in places)
            span.append("open" if is_suspect or not span[4] else "accepted")
        yield document
    if beyond := [number for i, found in suspects.items() if i >= n for number, _ in found]:
        raise CorpusError(f"{path}:{min(beyond)}: the corpus has only {n:,} documents")
