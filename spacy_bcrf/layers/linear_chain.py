"""`spacy-bcrf.LinearChain.v1`"""

from collections.abc import Callable
from typing import Any, Literal

from spacy.tokens import Doc
from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr

from spacy_bcrf import chain
from spacy_bcrf.annotation.label_resize import matching_tags
from spacy_bcrf.chain import Potentials
from spacy_bcrf.kernels import Array
from spacy_bcrf.sparse.gazetteers import Gazetteers
from spacy_bcrf.sparse.learner import Gold, Online
from spacy_bcrf.sparse.model import SparseChain
from spacy_bcrf.sparse.template_sets import get_templates

from .protocol import Hooks, attach, output_attrs


def LinearChain(
    templates: str | list[str],
    *,
    objective: Literal["crf", "sapo", "perceptron", "mira"] = Online.objective,
    n: int = Online.n,
    search: Literal["astar", "beam"] = Online.search,
    beam_width: int = Online.beam_width,
    averaged: bool = Online.averaged,
    rate: float = Online.rate,
    decay: float = Online.decay,
    l2: float = Online.l2,
    threads: int = Online.threads,
    min_freq: int = 1,
    gazetteers: dict[str, str | list[str]] | None = None,
    decoder: str = "viterbi",
) -> Model[list[Doc], Potentials]:
    """A linear chain over boolean features, which learns by itself: one online step a document,
    whatever the batch size. The optimizer of the training config has no part in it.

    templates: see `linear.templates`, or the name of a set of `linear.sets`, such as "chunking".
    objective, n, search, beam_width, averaged, rate, decay, l2, threads: see
        `linear.learner.Online`.
    min_freq: how often a feature has to occur in the training data; 1 if templates look at what
        components before it annotate, see `linear.model.SparseChain`.
    gazetteers: by name, phrases for the templates `gazetteer.name[0]`, or a file with one a line.
    decoder: see `decoding.DECODERS`.
    """
    online = Online(
        objective,
        n=n,
        search=search,
        beam_width=beam_width,
        averaged=averaged,
        rate=rate,
        decay=decay,
        l2=l2,
        threads=threads,
    )
    texts = get_templates(templates) if isinstance(templates, str) else templates
    store = SparseChain(texts, online, min_freq, Gazetteers(gazetteers or {}))
    model: Model[list[Doc], Potentials] = Model(
        "linear_chain",
        forward,
        init=init,
        dims={"nO": None},
        attrs=output_attrs(chain.CRF(), decoder, chain=store),
    )
    hooks = Hooks(is_ready=_is_ready, resize=resize_output, sample_size=None, learn=learn)
    return attach(model, model, hooks)


def _is_ready(model: Model[list[Doc], Potentials]) -> bool:
    return model.attrs["chain"].is_ready


def forward(
    model: Model[list[Doc], Potentials], docs: list[Doc], is_train: bool
) -> tuple[Potentials, Callable]:
    def backprop(_: Potentials) -> list[Doc]:
        raise ValueError("a linear chain learns by online steps, not by gradients: call `learn`")

    potentials = model.attrs["chain"].potentials(docs)
    constraints = model.attrs["constraints"]
    return potentials if constraints is None else constraints.apply(potentials), backprop


def init(model: Model[list[Doc], Potentials], X: list[Doc] | None = None, Y: Any = None) -> None:
    """X: all documents of the training data, since features are counted in them."""
    model.attrs["chain"].initialize(X or [], model.get_dim("nO"))


def learn(
    model: Model[list[Doc], Potentials], docs: list[Doc], gold: Array, lattice: Array | None
) -> float:
    """One step a document, and the sum of the losses before each.

    gold: int32 (N,), -1 for unknown, or bool (N, T); lattice: bool (N, T) or None.
    DivergedError if the rate is too high; the weights are then those last used to predict.
    """
    store: SparseChain = model.attrs["chain"]
    constraints = model.attrs["constraints"]
    if constraints is not None:
        store.chain.constrain(constraints.transitions, constraints.start, constraints.end)
    return store.step(docs, Gold(gold, lattice))


def resize_output(
    model: Model[list[Doc], Potentials], nO: int, tags_per_label: int = 1
) -> Model[list[Doc], Potentials]:
    """Give it nO tags, the new ones last, in place; ValueError for fewer than there are.

    New tags start out as the mean of the old ones that play the same part, see `resize_head`.
    """
    old = model.maybe_get_dim("nO")
    matching = matching_tags(model.name, nO if old is None else old, nO, tags_per_label)
    store: SparseChain = model.attrs["chain"]
    if len(matching) and store.is_ready:
        store.resize_tags(matching)
    model.set_dim("nO", nO, force=True)
    return model


@serialize_attr.register(SparseChain)
def _to_bytes(_: SparseChain, value: SparseChain, name: str, model: Model) -> bytes:
    return value.to_bytes()


@deserialize_attr.register(SparseChain)
def _from_bytes(_: SparseChain, value: bytes, name: str, model: Model) -> SparseChain:
    return _.from_bytes(value)
