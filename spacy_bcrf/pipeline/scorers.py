"""Scorers of entities and of span groups that count gold spans that cut tokens, as missed.

Without such spans they are spaCy's scorers. With them, spans are compared by characters.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from spacy.pipeline.spancat import spancat_score
from spacy.scorer import PRFScore, get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.annotation.misaligned import find_misaligned, find_touched


def score_entities(examples: Iterable[Example], **settings: Any) -> dict[str, Any]:
    """Return precision, recall and F of `Doc.ents`, in total and by label, as spaCy names them."""
    examples = list(examples)
    if not any(find_misaligned(example.reference) for example in examples):
        return get_ner_prf(examples)

    def is_annotated(doc: Doc) -> bool:
        return doc.has_annotation("ENT_IOB")

    return _score(examples, lambda doc: doc.ents, is_annotated, None, "ents")


def score_spans(examples: Iterable[Example], *, spans_key: str, **settings: Any) -> dict[str, Any]:
    """Return precision, recall and F of a span group, as `score_entities` does."""
    examples = list(examples)
    if not any(find_misaligned(example.reference, spans_key) for example in examples):
        return spancat_score(examples, spans_key=spans_key, **settings)

    def find(doc: Doc) -> Iterable[Span]:
        return doc.spans.get(spans_key, ())

    def is_annotated(doc: Doc) -> bool:
        return spans_key in doc.spans

    return _score(examples, find, is_annotated, spans_key, f"spans_{spans_key}")


def _score(
    examples: Iterable[Example],
    find: Callable[[Doc], Iterable[Span]],
    is_annotated: Callable[[Doc], bool],
    spans_key: str | None,
    name: str,
) -> dict[str, Any]:
    scores: defaultdict[str, PRFScore] = defaultdict(PRFScore)
    for example in examples:
        reference = example.reference
        misaligned = find_misaligned(reference, spans_key)
        if not (misaligned or is_annotated(reference)):
            continue
        gold = {*_in_characters(find(reference)), *misaligned}
        found = {*_in_characters(find(example.predicted))}
        if spans_key is None:
            # As in spaCy, missing annotation judges no span. That of gold spans is known.
            touched = find_touched(reference, misaligned)
            is_open = [t for t in reference if not t.ent_iob and t.i not in touched]
            open_characters = {i for t in is_open for i in range(t.idx, t.idx + len(t))}
            found = {s for s in found if s in gold or open_characters.isdisjoint(range(*s[:2]))}
        for label in {label for *_, label in gold | found}:
            of_label = ({s for s in spans if s[2] == label} for spans in (found, gold))
            scores[label].score_set(*of_label)
    total = sum(scores.values(), PRFScore())
    keys = ("p", total.precision), ("r", total.recall), ("f", total.fscore)
    by_label = {label: score.to_dict() for label, score in scores.items()}
    return {f"{name}_{key}": value for key, value in keys} | {f"{name}_per_type": by_label}


def _in_characters(spans: Iterable[Span]) -> Iterable[tuple[int, int, str]]:
    return ((span.start_char, span.end_char, span.label_) for span in spans)


def note_scorer(name: str, scorer: Callable | None, n: int) -> list[str]:
    """Return a note if a component's scorer does not see n gold spans that cut tokens."""
    if not n or scorer in (score_entities, score_spans):
        return []
    return [
        f"[{name}] {n:,} gold spans cut tokens, and the scorer does not count them. Set scorer = "
        '{"@scorers": "spacy-bcrf.ner_scorer.v1"}, of span groups "spacy-bcrf.spans_scorer.v1"'
    ]


def make_ner_scorer() -> Callable:
    """Return `score_entities`, registered as `spacy-bcrf.ner_scorer.v1`."""
    return score_entities


def make_spans_scorer() -> Callable:
    """Return `score_spans`, registered as `spacy-bcrf.spans_scorer.v1`."""
    return score_spans
