"""`bcrf_tagger`: one tag per token, a fine-grained or universal part of speech."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_bcrf.chain import Inference, Potentials
from spacy_bcrf.chain.label_smoothing import smooth_labels
from spacy_bcrf.layers.linear_chain import sparse_chain

from .codecs import TagCodec
from .control import Control, is_number
from .gold import Gold
from .platt_scaling import PlattScaling
from .queries import PosteriorQueries
from .sequence_labeler import SequenceLabeler


def score_tags(
    examples: Iterable[Example], *, attribute: str = "tag", **settings: Any
) -> dict[str, Any]:
    """Return `tag_acc` or `pos_acc`, as spaCy's own tagger and morphologizer compute them."""
    return Scorer.score_token_attr(examples, attribute, **settings)


def make_scorer() -> Callable:
    """Return `score_tags`, registered as `spacy-bcrf.Tagger.v1`."""
    return score_tags


class Tagger(PosteriorQueries, SequenceLabeler):
    """Predict `Token.tag` or `Token.pos`.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_tagger", config={"attribute": "pos"})
    >>> isinstance(component, spacy_bcrf.Tagger)
    True
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str = "bcrf_tagger",
        *,
        attribute: str = "tag",
        overwrite: bool = False,
        label_smoothing: float = 0.0,
        scorer: Callable | None = score_tags,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
        calibration: PlattScaling | None = None,
        threshold: float = 0.0,
        control: Control | None = None,
    ) -> None:
        """attribute: "tag" or "pos". overwrite: whether to replace preset tags.
        label_smoothing: the share of each gold tag that training spreads over all tags, in [0, 1).
        scorer, annotate, temperature, calibration, threshold, control: see `SequenceLabeler`.
        """
        # `settings` needs it before the base has the list of losses.
        self._label_smoothing = label_smoothing
        self._tag_codec = codec = TagCodec(name, attribute, overwrite)
        super().__init__(
            vocab,
            model,
            name,
            codec,
            scorer=scorer,
            annotate=annotate,
            temperature=temperature,
            calibration=calibration,
            threshold=threshold,
            control=control,
        )
        self.label_smoothing = label_smoothing
        objective = self._objective_without_probabilities()
        if label_smoothing and objective:
            # Without probabilities, smoothing would pull all scores together at no cost.
            self.label_smoothing = 0.0
            warnings.warn(
                f"[{name}] label_smoothing = {label_smoothing} has no effect: {objective} has no "
                "probabilities",
                stacklevel=2,
            )

    def _objective_without_probabilities(self) -> str | None:
        """Return the name of an objective without probabilities, None if the objective has some."""
        if self._labeling.hooks.learn is not None:
            chain = sparse_chain(self.model)
            assert chain
            name = chain.settings.objective
            return name if name in ("sapo", "perceptron", "mira") else None
        objective = self.head.attrs["objective"]
        return None if isinstance(objective, Inference) else type(objective).__name__

    @property
    def settings(self) -> dict[str, Any]:
        """See `SequenceLabeler.settings`."""
        tagger = {"label_smoothing": self.label_smoothing, "overwrite": self.overwrite}
        return {**super().settings, **tagger}

    @property
    def label_smoothing(self) -> float:
        """The share of each gold tag that training spreads over all tags, in [0, 1)."""
        return self._label_smoothing

    @label_smoothing.setter
    def label_smoothing(self, label_smoothing: float) -> None:
        if not is_number(label_smoothing, 0, 1) or label_smoothing == 1:
            raise ValueError(
                f"[{self.name}] label_smoothing must be a number in [0, 1), got {label_smoothing!r}"
            )
        self._label_smoothing = label_smoothing
        self._set_loss_term(self._smooth, label_smoothing > 0)

    @property
    def overwrite(self) -> bool:
        """Whether predictions replace the tags that a document has."""
        return self._tag_codec.overwrite

    @overwrite.setter
    def overwrite(self, overwrite: bool) -> None:
        self._tag_codec.overwrite = overwrite

    def _smooth(self, potentials: Potentials, gold: Gold, gradient: Potentials) -> float:
        return smooth_labels(self.label_smoothing, potentials, gold.tags, gradient)
