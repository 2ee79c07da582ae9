"""`bcrf_tagger`: one tag per token, a fine-grained or universal part of speech."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from spacy.scorer import Scorer
from spacy.training import Example

from bcrf.chain import Inference, Potentials
from bcrf.chain.label_smoothing import smooth_labels
from spacy_bcrf.layers.linear_chain import sparse_chain

from .codecs import TagCodec
from .gold import Gold
from .sequence_labeler import SequenceLabeler
from .settings import Setting, TaggerSettings
from .training import LossTerm


def score_tags(
    examples: Iterable[Example], *, attribute: str = "tag", **settings: Any
) -> dict[str, Any]:
    """Return `tag_acc` or `pos_acc`, as spaCy's own tagger and morphologizer compute them."""
    return Scorer.score_token_attr(examples, attribute, **settings)


def make_tag_scorer() -> Callable:
    """Return `score_tags`, registered as `spacy-bcrf.Tagger.v1`."""
    return score_tags


class Tagger(SequenceLabeler):
    """Predict `Token.tag` or `Token.pos`.

    >>> import spacy
    >>> spacy.blank("xx").add_pipe("bcrf_tagger", config={"attribute": "pos"})
    <Tagger 'bcrf_tagger': linear_chain, no labels>
    """

    _codec: TagCodec
    overwrite = Setting[bool]()
    label_smoothing = Setting[float]()
    _reported = 0.0  # the label smoothing without effect that a warning has named

    def _objective_without_probabilities(self) -> str | None:
        """Return the name of an objective without probabilities, None if the objective has some."""
        if self.labeling.hooks.learn is not None:
            chain = sparse_chain(self.model)
            assert chain
            name = chain.settings.objective
            return name if name in ("sapo", "perceptron", "mira") else None
        objective = self.head.attrs["objective"]
        return None if isinstance(objective, Inference) else type(objective).__name__

    def _apply(self, settings: TaggerSettings) -> list[LossTerm]:
        self._codec.overwrite = settings.overwrite
        if not settings.label_smoothing:
            return []
        if objective := self._objective_without_probabilities():
            # Without probabilities, smoothing would pull all scores together at no cost.
            if settings.label_smoothing != self._reported:
                self._reported = settings.label_smoothing
                warnings.warn(
                    f"[{self.name}] label_smoothing = {settings.label_smoothing} has no effect: "
                    f"{objective} has no probabilities",
                    stacklevel=2,
                )
            return []
        return [self._smooth]

    def _smooth(self, potentials: Potentials, gold: Gold, gradient: Potentials) -> float:
        return smooth_labels(self.label_smoothing, potentials, gold.tags, gradient)
