"""HTML page to review predicted spans, one file that runs without server and network.

The page shows texts and labels as text, and its content security policy runs no other script.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.annotation.arrays import doc_lengths, split_spans
from spacy_bcrf.chain import entropy
from spacy_bcrf.pipeline.chunker import Chunker
from spacy_bcrf.pipeline.ner import EntityRecognizer
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

MIN_CANDIDATE = 0.01
"""Smallest probability of an alternative."""
MIN_SUGGESTION = 0.1
"""Smallest probability of a suggestion, a span that is not predicted."""


class ScoredSpan(NamedTuple):
    """A span. start, end: tokens, `end` is exclusive. label: the index of its label."""

    start: int
    end: int
    label: int
    probability: float


def check_labeler(labeler: SequenceLabeler) -> None:
    """Raise ValueError for a component that predicts no spans, or has no labels."""
    if not isinstance(labeler, EntityRecognizer | Chunker):
        raise ValueError(
            f"{labeler.name} predicts no spans; expected a component bcrf_ner or bcrf_chunker"
        )
    if not labeler.labels:
        raise ValueError(f"{labeler.name} has no labels; expected a trained component")


def read_predictions(
    labeler: SequenceLabeler, docs: Iterable[Doc], max_alternatives: int
) -> Iterator[dict[str, Any]]:
    """Yield each document with its spans and their probabilities, as JSON.

    docs: annotated by all earlier components. max_alternatives: largest number for each span.

    - `text`, and `starts` and `ends` of its tokens in characters (code points).
    - `spans`: [start, end, label, probability, whether it is predicted] without overlaps, in
      tokens. The others are suggestions, of at least MIN_SUGGESTION.
    - `alternatives`: [start, end, label, probability] of further spans that overlap these.
    - `errors`: the expected number of wrong and of missed spans, that is 1 - p of each predicted
      span and p of all others of at least MIN_CANDIDATE. `entropy`: in nats per token.
    """
    codec, ops = labeler.codec, labeler.model.ops
    for batch in minibatch(docs, BATCH_SIZE):
        potentials = labeler.find_potentials(batch)
        posterior = labeler.posterior(potentials)
        lengths = doc_lengths(batch)
        predicted = codec.predictions(labeler.decode(potentials), lengths)
        p = labeler.confidences(posterior, predicted)
        found = codec.candidates(posterior, MIN_CANDIDATE, ops)
        entropies = ops.to_numpy(entropy(posterior)).tolist()
        for doc, best, candidates, value in zip(
            batch,
            split_spans(batch, *predicted, p),
            split_spans(batch, *found),
            entropies,
            strict=True,
        ):
            spans = [ScoredSpan(*span) for span in best]
            others = [ScoredSpan(*span) for span in candidates]
            yield {
                "text": doc.text,
                "starts": [token.idx for token in doc],
                "ends": [token.idx + len(token) for token in doc],
                **_choose(spans, others, max_alternatives),
                "entropy": round(value / max(1, len(doc)), 4),
            }


def _choose(
    predicted: Sequence[ScoredSpan], candidates: Sequence[ScoredSpan], max_alternatives: int
) -> dict[str, Any]:
    """Return `spans`, `alternatives` and `errors` of a document, see `read_predictions`."""
    shown = list(predicted)
    known = {span[:3] for span in predicted}
    others = [span for span in candidates if span[:3] not in known]
    others.sort(key=lambda span: -span.probability)
    for span in others:
        if span.probability >= MIN_SUGGESTION and not any(_overlap(span, s) for s in shown):
            shown.append(span)
    known = {span[:3] for span in shown}
    alternatives = {
        other
        for span in shown
        for other in [s for s in others if s[:3] not in known and _overlap(s, span)][
            :max_alternatives
        ]
    }
    n = len(predicted)
    errors = sum(1 - s.probability for s in predicted) + sum(s.probability for s in others)
    return {
        "spans": sorted([*_rounded(span), i < n] for i, span in enumerate(shown)),
        "alternatives": sorted(map(_rounded, alternatives)),
        "errors": round(errors, 4),
    }


def _rounded(span: ScoredSpan) -> list[Any]:
    return [*span[:3], round(min(span.probability, 1), 4)]


def _overlap(one: ScoredSpan, other: ScoredSpan) -> bool:
    return one.start < other.end and other.start < one.end


class PageCounts(NamedTuple):
    """Counts of a page. empty: documents without tokens, which the page leaves out."""

    docs: int
    predicted: int
    suggestions: int
    empty: int

    def __str__(self) -> str:
        empty = f"; {self.empty:,} empty docs left out" if self.empty else ""
        return (
            f"{self.docs:,} docs, {self.predicted:,} predicted spans, "
            f"{self.suggestions:,} suggestions{empty}"
        )


def review_page(
    nlp: Language,
    labeler: SequenceLabeler,
    predictions: Iterable[dict[str, Any]],
    texts: Path,
    max_alternatives: int,
) -> tuple[str, PageCounts]:
    """Return the page of `read_predictions`, and its counts. ValueError without documents.

    The browser keeps the work under a hash of pipeline, texts and predictions. So pages of two
    models do not share it.
    """
    found = list(predictions)
    documents = [document for document in found if document["starts"]]
    if not documents:
        raise ValueError(f"{texts}: found no texts; expected some with at least one token")
    reviewed = [(document["text"], document["starts"], document["spans"]) for document in documents]
    identity = [nlp.meta["name"], nlp.meta["version"], labeler.name, labeler.labels, reviewed]
    data = {
        "key": hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        "title": f"{texts.name}: {labeler.name} of {nlp.meta['lang']}_{nlp.meta['name']}",
        "file": f"{texts.name.split('.')[0] or 'texts'}.reviewed.jsonl",
        "labels": labeler.labels,
        "maxAlternatives": max_alternatives,
        "documents": documents,
    }
    is_predicted = [span[-1] for document in documents for span in document["spans"]]
    counts = PageCounts(
        len(documents),
        sum(is_predicted),
        len(is_predicted) - sum(is_predicted),
        len(found) - len(documents),
    )
    return fill_page(data), counts


def fill_page(data: dict[str, Any]) -> str:
    """Return the page of these data."""
    html, script = (read_part(f"review_page.{suffix}") for suffix in ("html", "js"))
    style = read_part("palette.css") + read_part("review_page.css")
    # Without "<" no text ends the script element or starts a comment.
    escaped = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return Template(html).substitute(
        style=style,
        script=script,
        data=escaped,
        style_hash=policy_hash(style),
        script_hash=policy_hash(script),
    )


def read_part(name: str) -> str:
    """Return a file beside this module, a part of a page."""
    return Path(__file__).with_name(name).read_text(encoding="utf8")


def policy_hash(content: str) -> str:
    """Return the hash of an element's content, for the content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
