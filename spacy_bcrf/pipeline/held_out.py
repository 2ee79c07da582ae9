"""Training documents that a component does not learn, and what it fits on them.

A model is surest of what it has learned. On documents that it has not learned, one temperature says
how much too sure it is of new documents of the same source (Guo et al. 2017).
"""

import hashlib
import sys
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from spacy.attrs import LOWER  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import read_doc_attributes
from spacy_bcrf.layers.decoding import F

from .calibration import Calibration, expected_error, measure_reliability
from .queries import PosteriorQueries

N_HASHES = 32
"""Number of hashes of texts that a component keeps of the documents of its calibration."""
BLOCK = 400
"""Words of neighbouring documents that are held out together: names recur among neighbours."""
STRIDE, FIRST = 10, 5
"""One block of this many is held out at first, beginning with this one."""
SHARE = 0.05
LEAST, MOST = 3_000, 20_000
"""Words that are held out: SHARE of all, within these bounds and one block of STRIDE."""
SMALLEST = 10_000
"""Words of the smallest corpus that has held-out documents."""
RARE = 10
"""A document with a label that fewer documents have is learned."""
RESAMPLES = 200


def hash_texts(docs: Iterable[Doc]) -> tuple[str, ...]:
    """Return the N_HASHES smallest hashes of texts, a random sample of them."""
    return tuple(sorted(hash_all(docs))[:N_HASHES])


def hash_all(docs: Iterable[Doc]) -> set[str]:
    texts = {doc.text.encode() for doc in docs}
    return {hashlib.blake2b(text, digest_size=8).hexdigest() for text in texts}


class Blocks:
    """Chooses blocks of documents, evenly spread over a corpus that is read once.

    Only documents that are annotated as a whole are in blocks.
    """

    def __init__(self) -> None:
        self.n_docs = 0
        self.n_words = 0
        """Words of documents in blocks."""
        self._stride = STRIDE
        self._n_blocks = self._n_open = 0  # n_open: words of the block that is not full
        self._chosen: list[tuple[int, Example, Collection[str]]] = []
        self._n_with: Counter[str] = Counter()

    def add(self, example: Example, labels: Collection[str], *, is_whole: bool) -> None:
        """Add the next document, its gold labels, and whether it is annotated as a whole."""
        self.n_docs += 1
        self._n_with.update(labels)
        if not is_whole:
            return
        block = self._n_blocks
        self.n_words += len(example.predicted)
        self._n_open += len(example.predicted)
        if self._n_open >= BLOCK:  # a longer document is one block
            self._n_blocks, self._n_open = block + 1, 0
        if block % self._stride == FIRST:
            self._chosen.append((block, example, labels))
        while self.n_words > 2 * MOST * self._stride:
            self._thin()

    def _thin(self) -> None:
        self._stride *= 2
        self._chosen = [row for row in self._chosen if row[0] % self._stride == FIRST]

    def choose(self) -> list[Example]:
        """Return the examples to hold out, without rare labels."""
        if self.n_words < SMALLEST:
            return []
        while self.n_words > self._stride * min(max(LEAST, SHARE * self.n_words), MOST):
            self._thin()
        return [
            example
            for _, example, labels in self._chosen
            if all(self._n_with[label] >= RARE for label in labels)
        ]


class HeldOut:
    """The held-out examples of a component in training, none after loading.

    is_stale: the component has learned since it was fitted.
    """

    def __init__(
        self,
        examples: Sequence[Example] = (),
        n_docs: int = 0,
        nlp: Language | None = None,
        *,
        fits_threshold: bool = True,
    ) -> None:
        """n_docs: number of training documents. nlp: its components before ours annotate the
        examples.

        fits_threshold: whether to fit the threshold of the decoder for F.
        """
        self.examples = list(examples)
        self.n_docs = n_docs
        self.is_stale = self._is_open = self._is_scored = self._is_saved = False
        self._fits_threshold = fits_threshold
        self._nlp = None if nlp is None else weakref.ref(nlp)
        training = nlp.config.get("training", {}) if self.examples and nlp else {}
        self._annotating = training.get("annotating_components", ())
        self._words = {_read_words(example.predicted) for example in self.examples}

    def __reduce__(self) -> tuple:
        return HeldOut, ()  # a copy of the component learns everything

    def find(self, examples: Sequence[Example]) -> list[int]:
        """Return the indices of examples with the words of a held-out document."""
        if not self._words:
            return []
        return [i for i, eg in enumerate(examples) if _read_words(eg.predicted) in self._words]

    def leave_out(self, examples: Sequence[Example]) -> list[Example]:
        """Return the other examples."""
        found = {*self.find(examples)}
        return [example for i, example in enumerate(examples) if i not in found]

    def note_learned(self) -> None:
        self.is_stale = self._is_open = bool(self.examples)
        self._is_scored = self._is_saved = False

    def end_fit(self, pipe: PosteriorQueries) -> None:
        if self.is_stale:
            self._calibrate(pipe)
        self._is_open = False

    def note_scored(self) -> None:
        self._is_scored = True

    def calibrate_before(self, pipe: PosteriorQueries) -> None:
        """Calibrate a component that has learned, before it predicts.

        A component that annotates in training predicts after each step: it waits for a save.
        """
        if self.is_stale and pipe.name not in self._annotating:
            self._calibrate(pipe)

    def end_training(self, pipe: PosteriorQueries) -> None:
        """Calibrate a component that has learned, before it is saved. At the end, print the error.

        `spacy train` scores and saves each step of an evaluation, and saves once more at the end.
        """
        is_end = self._is_open and (not self._is_scored or self._is_saved)
        self._is_saved = True
        if self.is_stale or is_end:
            found = self._calibrate(pipe)
            if is_end:
                self._is_open = False
                is_for_f = pipe.labeling.decoder == F
                more = f". Threshold of the decoder for F {pipe.settings.threshold}" * is_for_f
                line = f"[{pipe.name}] {describe(self, found, pipe.settings.temperature)}{more}"
                # spaCy's logger is silent without --verbose.
                print(line, file=sys.stderr)

    def _calibrate(self, pipe: PosteriorQueries) -> Calibration:
        self.is_stale = False
        labeling, examples = pipe.labeling, self._annotate(pipe.name)
        # Not the spans of the decoder for F, which depend on the temperature.
        found = Calibration(pipe, examples, ignore_annotation=False, decode=labeling.decode)
        near = pipe.settings.temperature if pipe.settings.calibrated_on else None
        temperature = round(found.fit_few(near=near), 4)
        pipe.change_setting("temperature", temperature)
        if labeling.decoder == F and self._fits_threshold:
            pipe.change_setting("threshold", found.fit_threshold(temperature))
        pipe.change_setting("calibrated_on", hash_texts(eg.reference for eg in self.examples))
        return found

    def _annotate(self, name: str) -> list[Example]:
        """Return the examples, annotated by the components before `name`."""
        nlp = self._nlp and self._nlp()
        pipes = nlp.pipeline if nlp else []
        names = [pipe_name for pipe_name, _ in pipes]
        before = pipes[: names.index(name)] if name in names else []
        if not before:
            return self.examples
        docs = [example.predicted.copy() for example in self.examples]
        for _, pipe in before:
            docs = list(pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs))
        references = (example.reference for example in self.examples)
        return [Example(*pair) for pair in zip(docs, references, strict=True)]


def describe(held_out: HeldOut, calibration: Calibration, temperature: float) -> str:
    """Describe a fitted temperature: the calibration error, cross-fitted on two halves, and its
    interval."""
    correct, n = calibration.correct, len(calibration.correct)
    first = np.arange(n) < n // 2
    p = np.zeros(n)
    for half in (first, ~first):
        p[~half] = calibration.confidence(calibration.fit_few(half))[~half]
    rng = np.random.default_rng(0)
    draws = (rng.integers(n, size=n) for _ in range(RESAMPLES if n else 0))
    errors = [measure_reliability(p[draw], correct[draw]).error for draw in draws] or [0.0]
    low, high = np.quantile(errors, (0.025, 0.975))
    before = measure_reliability(calibration.confidence(1.0), correct).error
    return (
        f"temperature {temperature:.2f}, fitted on {len(held_out.examples):,} of "
        f"{held_out.n_docs:,} training documents, which are not learned. Calibration error of "
        f"{n:,} predictions on them {measure_reliability(p, correct).error:.3f} ({low:.3f} to "
        f"{high:.3f}), of perfectly calibrated ones {expected_error(p):.3f}, without the "
        f"temperature {before:.3f}"
    )


def _read_words(doc: Doc) -> bytes:
    return read_doc_attributes(doc, [LOWER]).tobytes()
