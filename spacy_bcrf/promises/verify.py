"""`verify`: which spans of a language model, or of any source, a trained pipeline believes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from bcrf.chain.potentials import counted
from spacy_bcrf.annotation.arrays import doc_bounds
from spacy_bcrf.corpora.formats.votes import VotedDoc
from spacy_bcrf.loading import annotate_before, find_labeler
from spacy_bcrf.pipeline.calibration import find_gold
from spacy_bcrf.pipeline.platt_scaling import PlattScaling
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.result import Result

from .evidence import Kept, Promise, fit_threshold
from .risk import Units
from .seen import check_unseen, drop_copies


class VerifiedSpan(NamedTuple):
    """A given span, in characters. probability: that it is right. kept: by the promise, None
    without one."""

    place: str
    source: str
    start: int
    end: int
    text: str
    label: str
    probability: float
    kept: bool | None


@dataclass(repr=False)
class Verified(Result):
    """Given spans with their probabilities. promise: its threshold is of posteriors. n_gold: the
    spans of gold documents, which calibrate the probabilities, those of a text that several records
    have once. notes: doubts about the gold."""

    spans: list[VerifiedSpan]
    promise: Kept | None
    n_gold: int
    notes: list[str]

    def rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("source", "label", "spans", "expected right", "kept")]
        for source, label in sorted({(one.source, one.label) for one in self.spans}):
            of = [one for one in self.spans if (one.source, one.label) == (source, label)]
            right = sum(one.probability for one in of)
            kept = "-" if self.promise is None else f"{sum(map(bool, (x.kept for x in of))):,}"
            rows.append((source or "-", label, f"{len(of):,}", f"{right:,.0f}", kept))
        return rows


def verify(
    nlp: Language,
    voted: Sequence[VotedDoc],
    pipe: str | None = None,
    *,
    gold: Sequence[Doc] = (),
    labels: Mapping[str, str] | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
) -> Verified:
    """Return the probability that given spans are right, from the posterior of a trained pipeline.

    voted: see `corpora.formats.votes`, of the pipeline's tokenizer. gold: documents with known
    spans; the given spans of their texts map posteriors to probabilities (Platt scaling by
    label), because that a source proposes a span is evidence too, and these texts are not verified.
    labels: of the component, for other ones of the spans; O drops spans, and a note counts them.
    precision: promised as in `control`, with this confidence, for the mean over documents of the
    right share of the kept spans; needs gold that training has not seen. ValueError for labels that
    the component does not have, and as from `control`.
    """
    if precision is not None and not (0 < precision < 1 and 0 < confidence < 1):
        raise ValueError(f"expected numbers between 0 and 1, got {precision} and {confidence}")
    if precision is not None and not gold:
        raise ValueError("a promise of precision needs gold documents with given spans: give gold")
    name, labeler = find_labeler(nlp, pipe)
    gold, notes = drop_copies(gold)
    notes += check_unseen(labeler, gold) if gold else []
    found = {doc.text: find_gold(labeler.codec, doc) for doc in gold}
    known = {text: spans for text, spans in found.items() if spans is not None}
    if len(known) < len(gold):
        n = len(gold) - len(known)
        notes.append(f"{n:,} gold documents are left out: some of their tokens have no annotation")
    rows, docs_of, p, n_dropped = _find_posteriors(nlp, name, voted, labels or {})
    notes += [f"the map of labels drops {counted(n_dropped, 'span')}"] if n_dropped else []
    if not rows:
        raise ValueError("there are no spans to verify")
    texts = [voted[i].doc.text for i in docs_of]
    in_gold = np.array([text in known for text in texts])
    if gold and not in_gold.any():
        raise ValueError(
            f"none of the {len(known):,} gold documents that are annotated as a whole has the text "
            "of given spans"
        )
    promise, probabilities, n_gold = None, p, 0
    if gold:
        # Records of equal texts are one document, and their equal spans of a source one span.
        keys = [(text, *one[1:4], one.label) for text, one in zip(texts, rows, strict=True)]
        first = {key: i for i, key in reversed([*enumerate(keys)])}
        judged = [i for i in sorted(first.values()) if in_gold[i]]
        n_gold = len(judged)
        right = np.array([keys[i][2:] in known[texts[i]] for i in judged])
        of_rows = [one.label for one in rows]
        scaling = PlattScaling.fit("label", p[judged], right, [of_rows[i] for i in judged])
        probabilities = scaling.apply(p, of_rows)
        if precision is not None:
            docs, of_span = np.unique([texts[i] for i in judged], return_inverse=True)
            units = Units(of_span, p[judged], right, len(docs))
            wanted = Promise(tuple(labeler.labels), precision, 1 - confidence)
            promise = fit_threshold(units, "precision", wanted, name=name)
    kept = [None if promise is None else bool(x >= promise.threshold) for x in p]
    spans = [
        one._replace(probability=float(x), kept=k)
        for one, x, k, is_known in zip(rows, probabilities, kept, in_gold, strict=True)
        if not is_known
    ]
    return Verified(spans, promise, n_gold, notes)


def _find_posteriors(
    nlp: Language, name: str, voted: Sequence[VotedDoc], ours: Mapping[str, str]
) -> tuple[list[VerifiedSpan], NDArray[np.int64], NDArray[np.float64], int]:
    """Return the spans of all sources, the numbers of their records (M,), posteriors (M,), and how
    many spans the map of labels drops."""
    labeler: Any = nlp.get_pipe(name)
    ids = {label: i for i, label in enumerate(labeler.labels)}
    rows: list[VerifiedSpan] = []
    of_doc: list[int] = []
    found, n_dropped = [np.zeros(0)], 0
    docs = annotate_before(nlp, name, (one.doc.copy() for one in voted))
    for batch in minibatch(enumerate(docs), BATCH_SIZE):
        of_batch = [doc for _, doc in batch]
        at = []
        for (i, doc), (first, _) in zip(batch, doc_bounds(of_batch), strict=True):
            one = voted[i]
            for source, votes in one.by_source.items():
                for start, end, theirs, _ in votes.votes:
                    label = ours.get(theirs, theirs)
                    if label == "O":
                        n_dropped += 1
                        continue
                    if label not in ids:
                        known = ", ".join(ids)
                        raise ValueError(
                            f"{one.place}: {name} has no label {label!r}; expected one of {known}, "
                            "or a map from it (--labels)"
                        )
                    span = doc[start:end]
                    place = span.start_char, span.end_char, span.text
                    rows.append(VerifiedSpan(one.place, source, *place, label, 0.0, None))
                    of_doc.append(i)
                    at.append((first + start, first + end, ids[label]))
        given = tuple(np.array(at, dtype="int32").reshape(-1, 3).T)
        posterior = labeler.posterior(labeler.find_potentials(of_batch))
        found.append(labeler.confidences(posterior, given))
    posteriors = np.concatenate(found).astype("float64")
    return rows, np.array(of_doc, dtype="int64"), posteriors, n_dropped
