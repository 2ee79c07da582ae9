"""Annotation to review in place of predictions, and the suspects of `audit` among it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Span

from bcrf.io.text import CorpusError, read_lines
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.readers.doc_files import check_corpus, find_files, read_docs


def read_annotation(
    nlp: Language, labeler: SequenceLabeler, corpus: Path, is_complete: list[bool]
) -> Iterator[Sequence[Span]]:
    """Yield the spans of documents. is_complete: gets whether all tokens are annotated."""
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
            is_complete.append(not labeler.codec.unannotated(doc).any())
            yield spans


def keep_suspects(
    documents: Iterable[dict[str, Any]], path: Path, labels: Sequence[str], complete: Sequence[bool]
) -> Iterator[dict[str, Any]]:
    """Yield the documents with suspects, as choices between gold and suggestion.

    All other gold spans count as accepted. documents: of `read_predictions` with gold spans. path:
    JSON lines that `audit` wrote. complete: of the corpus; the last decision completes such a
    document. CorpusError names a line that does not fit the documents.
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
    if not suspects:
        raise CorpusError(f"{path}: has no suspects: `audit` found none")
    n = 0
    for i, document in enumerate(documents):
        n = i + 1
        if i in suspects:
            for number, record in suspects[i]:
                if record["text"] != document["text"]:
                    raise CorpusError(
                        f"{path}:{number}: document {i} of the corpus has another text"
                    )
                try:
                    _add_choice(document, record, labels)
                except ValueError as error:
                    raise CorpusError(f"{path}:{number}: {error}") from None
            document["spans"] = sorted(
                [*span, "accepted"] if span[4] and len(span) == 5 else span
                for span in document["spans"]
                if span[4] or len(span) == 6
            )
            yield {**document, "closes": complete[i]}
    if beyond := [number for i, found in suspects.items() if i >= n for number, _ in found]:
        raise CorpusError(f"{path}:{min(beyond)}: the corpus has only {n:,} documents")


def _add_choice(document: dict[str, Any], record: dict[str, Any], labels: Sequence[str]) -> None:
    """Add the choice of a suspect, and open its spans."""
    pair: list[str | None] = []
    gold = record if record["label"] else None
    versions = ((gold, record["p_gold"]), (record["suggestion"], record["p_suggestion"]))
    for version, p in versions:
        if version is None:
            pair.append(None)
            continue
        if version["label"] not in labels:
            raise ValueError(f"label {version['label']!r}; expected one of {', '.join(labels)}")
        try:
            start = document["starts"].index(version["start"])
            end = document["ends"].index(version["end"]) + 1
        except ValueError:
            raise ValueError("the suspect does not begin and end with tokens") from None
        place = [start, end, labels.index(version["label"])]
        found = next((span for span in document["spans"] if span[:3] == place), None)
        if found is None:
            if version is gold:
                raise ValueError("the corpus has no such annotation")
            document["spans"].append(found := [*place, round(p, 4), False])
        found[5:] = ["open"]
        pair.append(":".join(map(str, place)))
    choice = {"kind": record["kind"], "names": ["gold", "suggestion"], "pair": pair}
    document.setdefault("choices", []).append(choice)
    document["score"] = max(record["score"], document.get("score", record["score"]))
