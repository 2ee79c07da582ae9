"""What a component can be asked about its predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.annotation.arrays import UNKNOWN, find_bounds
from spacy_bcrf.chain import CRF, Potentials, entropy, nbest

from . import confidence
from .labels import Labels

# How many documents are asked about at once.
BATCH_SIZE = 128


class Alternative(NamedTuple):
    """One of the labelings a document could have.

    annotation: for each token its tag, or the entities as spans of the document.
    probability: of the whole labeling, among all.
    """

    annotation: list[Any]
    probability: float


class Predicted(NamedTuple):
    """A batch of documents, of which something is to be said: into their user data.

    posterior: what probabilities are computed from. tags: int32 (N,), UNKNOWN for a tag that is
    none of the component's.
    """

    docs: list[Doc]
    posterior: Potentials
    tags: NDArray[np.int32]
    user_data: list[confidence.UserData]


class PosteriorQueries(Labels):
    """The part of a component that answers them, from its potentials.

    `ignore_annotation` in a question: whether to take documents as if they had nothing of what the
    component annotates, so that it can be asked about its own output; else entities that are there
    stay, as in prediction. What comes before it in the pipeline must have annotated the documents.
    """

    _annotate: tuple[str, ...]
    _temperature: float

    @property
    def annotate(self) -> tuple[str, ...]:
        """What to say of predictions in custom attributes, see `confidence.ANNOTATIONS`."""
        return self._annotate

    @annotate.setter
    def annotate(self, annotate: Sequence[str]) -> None:
        confidence.check_annotate(self.name, annotate)
        self._annotate = tuple(annotate)

    @property
    def temperature(self) -> float:
        """Divides all scores before probabilities are computed from them."""
        return self._temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        confidence.check_temperature(self.name, temperature)
        self._temperature = temperature

    @abstractmethod
    def find_potentials(self, docs: list[Doc], ignore_annotation: bool = False) -> Potentials:
        """Scores of the tags, -inf for what a document does not leave open.
        ignore_annotation: as if it had none of what the component itself annotates."""

    @abstractmethod
    def _interpret(self, doc: Doc, tags: NDArray[np.int32]) -> list[Any]:
        """An `Alternative`'s annotation."""

    def nbest(
        self, docs: Iterable[Doc], n: int = 5, *, ignore_annotation: bool = True
    ) -> list[list[Alternative]]:
        """The n best labelings of each document, best first; fewer if there are not as many."""
        found = []
        for batch in minibatch(docs, BATCH_SIZE):
            posterior = self.with_temperature(self.find_potentials(batch, ignore_annotation))
            log_z = CRF().log_partition(posterior)
            best = nbest(posterior, n)
            for doc, (tags, scores), z in zip(batch, best, log_z, strict=True):
                probabilities = self.model.ops.to_numpy(self.model.ops.xp.exp(scores - z))
                found.append(
                    [
                        Alternative(self._interpret(doc, ids), float(p))
                        for ids, p in zip(
                            self.model.ops.to_numpy(tags), probabilities.clip(max=1), strict=True
                        )
                    ]
                )
        return found

    def token_marginals(
        self, docs: Iterable[Doc], *, ignore_annotation: bool = True
    ) -> list[NDArray[np.floating]]:
        """(n, T) for each document: the probability of each of `tags` at each token."""
        found = []
        for batch in minibatch(docs, BATCH_SIZE):
            posterior = self.with_temperature(self.find_potentials(batch, ignore_annotation))
            marginals = self.model.ops.to_numpy(CRF().marginals(posterior).unary)
            found += [marginals[start:end] for start, end in find_bounds(batch)]
        return found

    def uncertainty(
        self, docs: Iterable[Doc], by: str = "entropy", *, ignore_annotation: bool = True
    ) -> NDArray[np.float64]:
        """(B,) how unsure the component is of each document, for choosing what to annotate next.

        by: "entropy", of the labelings, in nats per token; "confidence", 1 less the probability of
        the best labeling; "margin", 1 less by how much it is more probable than the second best.
        """
        if by not in confidence.UNCERTAINTIES:
            known = ", ".join(confidence.UNCERTAINTIES)
            raise ValueError(f"[{self.name}] uncertainty is measured by one of {known}, got {by!r}")
        found = [np.zeros(0)]
        for batch in minibatch(docs, BATCH_SIZE):
            posterior = self.with_temperature(self.find_potentials(batch, ignore_annotation))
            found.append(self.model.ops.to_numpy(confidence.UNCERTAINTIES[by](posterior)))
        return np.concatenate(found)

    def confidences(self, posterior: Potentials, predictions: Any) -> NDArray[np.floating]:
        """(M,) probabilities of predictions, see `compare_with_gold`."""
        return self._tag_confidences(posterior, *predictions)

    def _tag_confidences(
        self, posterior: Potentials, tokens: NDArray[np.int64], tags: NDArray[np.int32]
    ) -> NDArray[np.floating]:
        """(M,) probabilities of tags at tokens."""
        marginals = self.model.ops.to_numpy(CRF().marginals(posterior).unary)
        return marginals[tokens, tags].clip(max=1)

    def with_temperature(self, potentials: Potentials) -> Potentials:
        """Those that probabilities are computed from."""
        return potentials if self.temperature == 1 else potentials.scale(1 / self.temperature)

    def _say(self, what: str, predicted: Predicted) -> None:
        """Add one of `annotate` to the documents' user data; None for what depends on a tag that
        is UNKNOWN."""
        say = {
            "confidence": self._say_tags,
            "tag_confidence": self._say_tags,
            "entropy": self._say_entropy,
            "probability": self._say_labeling,
        }
        say[what](predicted)

    def _say_tags(self, predicted: Predicted) -> None:
        docs, posterior, tags, user_data = predicted
        p: Any = self._tag_confidences(posterior, np.arange(len(tags)), tags)
        said: Any = np.where(tags == UNKNOWN, None, p)
        confidence.say_of_tokens(docs, "tag_confidence", said, user_data)

    def _say_entropy(self, predicted: Predicted) -> None:
        entropies = self.model.ops.to_numpy(entropy(predicted.posterior))
        confidence.say_entropy(entropies, predicted.docs, predicted.user_data)

    def _say_labeling(self, predicted: Predicted) -> None:
        docs, posterior, tags, user_data = predicted
        ops: Any = self.model.ops
        labeling = ops.asarray(tags.clip(min=0))
        p = ops.to_numpy(confidence.labeling_probabilities(posterior, labeling))
        is_unknown = [(tags[start:end] == UNKNOWN).any() for start, end in find_bounds(docs)]
        said: Any = np.where(is_unknown, None, p)
        confidence.say_of_docs("sequence_probability", said, user_data)
