"""What the foreign taggers of a component reach alone: by argmax, and decoded validly."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import spacy
from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc

from bcrf.schemes import read_spans
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.layers.linear_chain import sparse_chains
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.scores.foreign_labels import OUTSIDE, Merge, split_label
from spacy_bcrf.scores.token_scores import Scorer, TokenScores

Spans = set[tuple[int, int, str]]
"""First character, one past the last, and label."""


def make_decoder(lang: str, source: dict[str, Any], labels: Iterable[str]) -> Language:
    """Return a pipeline that decodes the scores of a source. Nothing is learned.

    source: see `scores.token_scores`. ValueError if the source scores none of the labels.
    """
    nlp = spacy.blank(lang)
    model = {"@architectures": "spacy-bcrf.ScoreHead.v1", "scores": [source]}
    ner: Any = nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    for label in labels:
        ner.add_label(label)
    nlp.initialize()
    for scorer in find_scorers(ner):
        scorer.keeps = False
    return nlp


def find_scorers(labeler: SequenceLabeler) -> list[Scorer]:
    """Return the sources of a component's model."""
    of_chains = [s for chain in sparse_chains(labeler.model) for s in chain.scorers]
    of_heads = [s for node in labeler.model.walk() for s in node.attrs.get("scorers", ())]
    return [*of_chains, *of_heads]


def compare_sources(
    labeler: SequenceLabeler, lang: str, docs: Sequence[Doc], gold: Sequence[Spans]
) -> list[dict[str, Any]]:
    """Return precision, recall and F of each source, by argmax and decoded validly.

    [] for a component without sources, or of another annotation than entities. docs: tokens.
    """
    rows: list[dict[str, Any]] = []
    if not labeler.codec.of_entities:
        return rows
    for scorer in find_scorers(labeler):
        by_argmax = map(partial(argmax_spans, scorer.merge), docs, scorer.find(docs))
        rows.append({"source": scorer.name, "how": "argmax", **_score(by_argmax, gold)})
        try:
            nlp = make_decoder(lang, scorer.config, labeler.labels)
        except ValueError:  # none of its labels is ours
            continue
        copies = (copy_words(doc, nlp.vocab) for doc in docs)
        decoded = ({(e.start_char, e.end_char, e.label_) for e in d.ents} for d in nlp.pipe(copies))
        rows.append({"source": scorer.name, "how": "decoded", **_score(decoded, gold)})
    return rows


def argmax_spans(merge: Merge, doc: Doc, scores: TokenScores) -> Spans:
    """Return the spans of the best label of each token, as conlleval reads invalid ones."""
    tags: list[str | None] = []
    best = merge.apply(scores.values).argmax(axis=1).tolist()
    for k, silent in zip(best, scores.silent, strict=True):
        prefix, name = split_label(merge.labels[k])
        tags.append(OUTSIDE if silent or name == OUTSIDE else f"{prefix or 'I'}-{name}")
    spans = [(doc[start:end], label) for start, end, label in read_spans(tags)]
    return {(span.start_char, span.end_char, label) for span, label in spans}


def _score(found: Iterable[Spans], gold: Sequence[Spans]) -> dict[str, float]:
    counts = PRFScore()
    for spans, right in zip(found, gold, strict=True):
        counts.score_set(spans, right)
    return {"precision": counts.precision, "recall": counts.recall, "f": counts.fscore}
