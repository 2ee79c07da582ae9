"""What a component can be asked about its predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.util import minibatch

from ..chain import CRF, Potentials, entropy, nbest
from . import confidence
from .annotation import find_bounds

# How many documents are asked about at once.
BATCH_SIZE = 128


class Alternative(NamedTuple):
    """One of the labelings a document could have.

    annotation: for each token its tag, or the entities as spans of the document.
    probability: of the whole labeling, among all.
    """

    annotation: list[Any]
    probability: float


class Questions(TrainablePipe, ABC):
    """The part of a component that answers them, from its potentials.

    temperature: divides all scores before probabilities are computed from them.
    """

    temperature: float

    @abstractmethod
    def _find_potentials(self, docs: list[Doc], ignore_annotation: bool = False) -> Potentials:
        """Scores of the tags, -inf for what a document does not leave open.
        ignore_annotation: as if it had none of what the component itself annotates."""

    @abstractmethod
    def _interpret(self, doc: Doc, tags: NDArray[np.int32]) -> list[Any]:
        """An `Alternative`'s annotation."""

    def nbest(self, docs: Iterable[Doc], n: int = 5) -> list[list[Alternative]]:
        """The n best labelings of each document, best first; fewer if there are not as many.

        Like all these questions, it is answered as if the component had not annotated the
        documents yet. What comes before it in the pipeline must have.
        """
        found = []
        for batch in minibatch(docs, BATCH_SIZE):
            posterior = self._soften(self._find_potentials(batch, ignore_annotation=True))
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

    def token_marginals(self, docs: Iterable[Doc]) -> list[NDArray[np.floating]]:
        """(n, T) for each document: the probability of each of `tags` at each token."""
        found = []
        for batch in minibatch(docs, BATCH_SIZE):
            posterior = self._soften(self._find_potentials(batch, ignore_annotation=True))
            marginals = self.model.ops.to_numpy(CRF().marginals(posterior).unary)
            found += [marginals[start:end] for start, end in find_bounds(batch)]
        return found

    def uncertainty(self, docs: Iterable[Doc], by: str = "entropy") -> NDArray[np.float64]:
        """(B,) how unsure the component is of each document, for choosing what to annotate next.

        by: "entropy", of the labelings, in nats per token; "confidence", 1 less the probability of
        the best labeling; "margin", 1 less by how much it is more probable than the second best.
        Otherwise as `nbest`.
        """
        if by not in confidence.UNCERTAINTIES:
            known = ", ".join(confidence.UNCERTAINTIES)
            raise ValueError(f"[{self.name}] uncertainty is measured by one of {known}, got {by!r}")
        found = [np.zeros(0)]
        for batch in minibatch(docs, BATCH_SIZE):
            posterior = self._soften(self._find_potentials(batch, ignore_annotation=True))
            found.append(self.model.ops.to_numpy(confidence.UNCERTAINTIES[by](posterior)))
        return np.concatenate(found)

    def confidences(self, posterior: Potentials, predictions: Any) -> NDArray[np.floating]:
        """(M,) probabilities of predictions, see `judge`."""
        return self._tag_confidences(posterior, *predictions)

    def _tag_confidences(
        self, posterior: Potentials, tokens: NDArray[np.int64], tags: NDArray[np.int32]
    ) -> NDArray[np.floating]:
        """(M,) probabilities of tags at tokens."""
        marginals = self.model.ops.to_numpy(CRF().marginals(posterior).unary)
        return marginals[tokens, tags].clip(max=1)

    def _soften(self, potentials: Potentials) -> Potentials:
        """Those that probabilities are computed from."""
        return potentials if self.temperature == 1 else potentials.scale(1 / self.temperature)

    def _say(
        self,
        what: str,
        docs: list[Doc],
        posterior: Potentials,
        tags: NDArray[np.int32],
        user_data: list[dict[tuple, float]],
    ) -> None:
        """Add one of `annotate` to the documents' user data."""
        ops: Any = self.model.ops
        if what in ("confidence", "tag_confidence"):
            p = self._tag_confidences(posterior, np.arange(len(tags)), tags)
            confidence.say_of_tokens(docs, "tag_confidence", p, user_data)
        elif what == "entropy":
            confidence.say_entropy(ops.to_numpy(entropy(posterior)), docs, user_data)
        else:
            p = ops.to_numpy(confidence.labeling_probabilities(posterior, ops.asarray(tags)))
            confidence.say_of_docs("sequence_probability", p, user_data)
