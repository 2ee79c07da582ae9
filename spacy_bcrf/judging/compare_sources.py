"""What the foreign taggers of a component reach alone: by argmax, and decoded validly."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.util import load_model_from_config

from bcrf.schemes import read_spans
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.layers.model_taggers import find_taggers
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.scores.find_sources import name_path
from spacy_bcrf.scores.foreign_labels import OUTSIDE, Merge, split_label
from spacy_bcrf.scores.foreign_tagger import TokenScores

CharSpans = set[tuple[int, int, str]]
"""First character, one past the last, and label."""


def make_decoder(lang: str, source: dict[str, Any], labels: Iterable[str]) -> Language:
    """Return a pipeline that decodes the scores of a source. Nothing is learned.

    source: see `scores.foreign_tagger`. ValueError if the source scores none of the labels.
    """
    paths, source = name_path(source)
    model = {"@architectures": "spacy-bcrf.ScoreHead.v1", "scores": [source]}
    config = {
        "paths": paths,
        "nlp": {"lang": lang, "pipeline": ["ner"]},
        "components": {"ner": {"factory": "bcrf_ner", "model": model}},
    }
    nlp: Language = load_model_from_config(config, auto_fill=True)
    ner: Any = nlp.get_pipe("ner")
    for label in labels:
        ner.add_label(label)
    nlp.initialize()
    return nlp


def compare_sources(
    labeler: SequenceLabeler, lang: str, docs: Sequence[Doc], gold: Sequence[CharSpans]
) -> list[dict[str, Any]]:
    """Return precision, recall and F of each source, by argmax and decoded validly.

    [] for a component without sources, or of another annotation than entities. docs: tokens.
    """
    rows: list[dict[str, Any]] = []
    if labeler.codec.unit != "span" or labeler.codec.layered:
        return rows
    for tagger in find_taggers(labeler.model):
        by_argmax = map(partial(argmax_spans, tagger.merge), docs, tagger.find(docs))
        rows.append({"source": tagger.name, "how": "argmax", **_score(by_argmax, gold)})
        try:
            nlp = make_decoder(lang, tagger.config, labeler.labels)
        except ValueError:  # none of its labels is ours
            continue
        copies = (copy_words(doc, nlp.vocab) for doc in docs)
        decoded = ({(e.start_char, e.end_char, e.label_) for e in d.ents} for d in nlp.pipe(copies))
        rows.append({"source": tagger.name, "how": "decoded", **_score(decoded, gold)})
    return rows


def argmax_spans(merge: Merge, doc: Doc, scores: TokenScores) -> CharSpans:
    """Return the spans of the best label of each token, as conlleval reads invalid ones."""
    tags: list[str | None] = []
    best = merge.apply(scores.values).argmax(axis=1).tolist()
    for k, silent in zip(best, scores.silent, strict=True):
        prefix, name = split_label(merge.labels[k])
        tags.append(OUTSIDE if silent or name == OUTSIDE else f"{prefix or 'I'}-{name}")
    spans = [(doc[start:end], label) for start, end, label in read_spans(tags)]
    return {(span.start_char, span.end_char, label) for span, label in spans}


def _score(found: Iterable[CharSpans], gold: Sequence[CharSpans]) -> dict[str, float]:
    counts = PRFScore()
    for spans, right in zip(found, gold, strict=True):
        counts.score_set(spans, right)
    return {"precision": counts.precision, "recall": counts.recall, "f": counts.fscore}
