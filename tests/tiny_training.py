"""Tiny networks that learn a few sentences in a few steps.

Tests use `spacy.blank("xx")`: the tokenizer's exceptions of a language take 0.1 s.
"""

from collections.abc import Sequence
from typing import Any

from spacy.language import Language
from spacy.training import Example
from spacy.util import fix_random_seed
from thinc.api import Adam, Optimizer

RATE = 0.02
TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 16,
    "depth": 1,
    "embed_size": 100,
    "window_size": 1,
    "maxout_pieces": 3,
    "subword_features": False,
}
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "*"}


def network(head: str = "BCRF", tok2vec: dict[str, Any] = TOK2VEC) -> dict[str, Any]:
    """Return the config of a model. head: its name, with "/pairwise" for pairwise transitions."""
    name, _, transitions = head.partition("/")
    return {
        "@architectures": "spacy-bcrf.SequenceLabeler.v1",
        "tok2vec": tok2vec,
        "head": {"@layers": f"spacy-bcrf.{name}.v1", "transitions": transitions or "shared"},
    }


def optimizer() -> Optimizer:
    """Return an optimizer for few steps. Weights stay where the loss becomes zero."""
    return Adam(RATE, beta1=0.1)  # little momentum


def train(nlp: Language, examples: Sequence[Example], steps: int = 20) -> dict[str, float]:
    """Initialize and train a pipeline. Return the losses of the last step."""
    fix_random_seed(0)
    nlp.initialize(lambda: examples, sgd=optimizer())
    return update(nlp, examples, steps)


def update(nlp: Language, examples: Sequence[Example], steps: int = 20) -> dict[str, float]:
    """Train an initialized pipeline. Return the losses of the last step."""
    losses: dict[str, float] = {}
    for _ in range(steps):
        losses = nlp.update(examples, losses={})
    return losses
