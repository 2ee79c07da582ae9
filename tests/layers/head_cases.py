"""The heads under test, and samples of their options that contain every pair of values."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations, cycle, product
from typing import Any

import pytest
from thinc.api import Model, NumpyOps

from bcrf.schemes import BILUO
from spacy_bcrf.layers.head import Transitions
from spacy_bcrf.layers.heads import BCRF, CRF, MIRA, SAPO, MeanField, Perceptron, Unstructured

BUILDERS = {
    "CRF": CRF,
    "BCRF": BCRF,
    "MeanField": MeanField,
    "Unstructured": Unstructured,
    "SAPO": SAPO,
    "Perceptron": Perceptron,
    "MIRA": MIRA,
    "NBestMIRA": partial(MIRA, n=5),
}
TRANSITIONS: tuple[Transitions, ...] = ("shared", "pairwise")
HIDDEN_WIDTHS = (0, 3)
LABELS = ["A", "B"]
LENGTHS = (3, 0, 1, 6, 2)
WIDTH = 4


@dataclass(frozen=True)
class Head:
    """A head by name, with shared or pairwise transitions, and linear tag scores or an MLP."""

    name: str
    transitions: Transitions
    hidden_width: int

    def __str__(self) -> str:
        return f"{self.name}-{self.transitions}" + "-hidden" * bool(self.hidden_width)

    def build(self, **options: Any) -> Model:
        """Build the head."""
        shared = {"transitions": self.transitions, "hidden_width": self.hidden_width}
        return BUILDERS[self.name](transition_width=3, **shared, **options)

    def randomize(self, rng, n_tags, scale=1.0, dtype="float32", **options: Any) -> Model:
        """Build the head with normally distributed parameters."""
        model = self.build(nO=n_tags, nI=WIDTH, **options)
        model.initialize()
        for node in model.walk():
            node.ops = NumpyOps(use_blis=dtype == "float32")
            for name in node.param_names:
                value = rng.normal(size=node.get_param(name).shape, scale=scale)
                node.set_param(name, value.astype(dtype))
        return model


def each_head(*order: Transitions) -> pytest.MarkDecorator:
    """Parametrize with every head; the heads take the given transitions in turn.

    Every third head scores tags with a hidden layer.
    """
    settings = zip(BUILDERS, cycle(order), cycle((0, 0, HIDDEN_WIDTHS[1])))
    heads = [Head(*setting) for setting in settings]
    return pytest.mark.parametrize("head", heads, ids=str)


def each_pair(**factors: Iterable) -> pytest.MarkDecorator:
    """Parametrize with a sample of heads and factors: each pair of two values occurs in a case."""
    options = (list(BUILDERS), list(TRANSITIONS), list(HIDDEN_WIDTHS))
    cases = [
        (Head(name, transitions, hidden_width), *values)
        for name, transitions, hidden_width, *values in covering(
            *options, *map(list, factors.values())
        )
    ]
    return pytest.mark.parametrize(", ".join(["head", *factors]), cases, ids=str)


def covering(*factors: list) -> list[tuple]:
    """Choose few combinations so that each pair of values of two factors occurs in one of them.

    Greedy: each choice covers as many uncovered pairs as possible.
    """
    pairs = {case: set(combinations(enumerate(case), 2)) for case in product(*factors)}
    uncovered = set().union(*pairs.values())
    chosen = []
    while uncovered:
        chosen.append(max(pairs, key=lambda case: len(pairs[case] & uncovered)))
        uncovered -= pairs[chosen[-1]]
    return chosen


def random_vectors(rng, dtype="float32"):
    """Return token vectors of documents with LENGTHS."""
    return [rng.normal(size=(length, WIDTH)).astype(dtype) for length in LENGTHS]


def biluo_constraints(labels):
    """Return the hard constraints of BILUO."""
    return BILUO.constraints(labels)
