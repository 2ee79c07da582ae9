"""`spacy-bcrf.LinearChain.v1`: a linear chain over boolean features, trained online."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model, NumpyOps
from thinc.model import deserialize_attr, serialize_attr
from thinc.util import to_numpy

from bcrf.chain import Constraints, Potentials
from bcrf.chain.label_resize import matching_tags
from bcrf.kernels import Array
from bcrf.linear.learner import OnlineSettings
from spacy_bcrf.scores.foreign_tagger import make_taggers
from spacy_bcrf.sparse.gazetteers import Gazetteers
from spacy_bcrf.sparse.model import SparseChain
from spacy_bcrf.sparse.start_from_scores import start_from_scores
from spacy_bcrf.sparse.template_sets import get_templates
from spacy_bcrf.sparse.word_tables import WordTables

from .protocol import Hooks, attach, output_attrs


def LinearChain(
    templates: str | list[str],
    *,
    min_freq: int = 1,
    feature_dropout: float = 0.0,
    gazetteers: dict[str, str | list[str]] | None = None,
    clusters: dict[str, str | dict[str, str]] | None = None,
    two_pass: bool = False,
    scores: list[dict[str, Any]] | None = None,
    decoder: str = "viterbi",
    threads: int = 1,
    **online: Any,
) -> Model[list[Doc], Potentials]:
    """Build a linear chain over boolean features, from documents to potentials.

    One online step a document trains it, whatever the batch size and the optimizer of the config.
    Incorrect spans of several tokens and additional losses such as `entity_ratio` take gradient
    steps of the likelihood, see `SequenceLabeler.update`.

    templates: feature templates, see `sparse.templates`, or the name of one of the
        `sparse.template_sets`, such as "chunking".
    min_freq: least number of occurrences of a feature in the training data, see `SparseChain`.
    feature_dropout: the probability that training drops a feature of a token.
    gazetteers: phrases by name, for templates such as `gazetteer.name[0]`, or the path of a file,
        see `sparse.gazetteers.read_phrases`.
    clusters: clusters by word, by name, for templates such as `cluster.name(4,6,10,20)[0]`, or the
        path of a file, see `sparse.word_tables.WordTables`.
    two_pass: whether a second chain reads the tags that a first one gives a word elsewhere in the
        document, see `sparse.two_pass`. `initialize` keeps the training data meanwhile.
    scores: foreign taggers, see `scores.foreign_tagger`, from whose decoding learning starts.
    decoder: see `decoding.DECODERS`. threads: without effect.
    online: objective, order, n, n_iter, search, beam_width, averaged, optimizer, rate, decay, l2,
        l1: see `bcrf.linear.OnlineSettings`.
    """
    if threads != 1:
        warnings.warn(
            f"threads = {threads} of spacy-bcrf.LinearChain.v1 has no effect any more: one thread "
            "learns. Remove the setting",
            stacklevel=2,
        )
    settings = OnlineSettings(**online)
    options: Any = {"min_freq": min_freq, "feature_dropout": feature_dropout, "two_pass": two_pass}
    sparse = make_sparse_chain(templates, settings, gazetteers, clusters, scores=scores, **options)
    return make_linear_chain(sparse, decoder)


def _signature() -> Signature:
    """Return the signature of `LinearChain`, from which configs read names and types of options."""
    own = signature(LinearChain)
    first, *others, _ = own.parameters.values()
    types = get_type_hints(OnlineSettings)
    online = [
        Parameter(x.name, Parameter.KEYWORD_ONLY, default=x.default, annotation=types[x.name])
        for x in fields(OnlineSettings)
        if x.name != "seed"
    ]
    return own.replace(parameters=[first, *online, *others])


LinearChain.__signature__ = _signature()  # type: ignore[attr-defined]


def make_sparse_chain(
    templates: str | list[str],
    settings: OnlineSettings,
    gazetteers: dict[str, str | list[str]] | None,
    clusters: dict[str, str | dict[str, str]] | None,
    *,
    scores: list[dict[str, Any]] | None = None,
    **options: Any,
) -> SparseChain:
    """Return a chain of the options of `LinearChain`. options: see `SparseChain`."""
    template_set = templates if isinstance(templates, str) else None
    texts = get_templates(templates) if isinstance(templates, str) else templates
    return SparseChain(
        texts,
        settings,
        template_set=template_set,
        gazetteers=Gazetteers(gazetteers or {}),
        tables=WordTables(clusters or {}),
        taggers=make_taggers(scores),
        **options,
    )


def make_linear_chain(sparse: SparseChain, decoder: str) -> Model[list[Doc], Potentials]:
    """Build the model of a sparse chain. decoder: see `decoding.DECODERS`."""
    model: Model[list[Doc], Potentials] = Model(
        "linear_chain",
        forward,
        init=init,
        dims={"nO": None},
        attrs=output_attrs(sparse.settings.inference, decoder, chain=sparse),
        # Its potentials are NumPy arrays, also where a GPU runs the networks of a pipeline.
        ops=NumpyOps(),
    )
    hooks = Hooks(_is_ready, resize_output, _columns, start_counting, learn)
    return attach(model, model, hooks)


def sparse_chains(model: Model) -> Iterator[SparseChain]:
    """Yield the sparse linear chains of a labeling model: a sum can have several."""
    return (node.attrs["chain"] for node in model.walk() if "chain" in node.attrs)


def sparse_chain(model: Model) -> SparseChain | None:
    """Return the first sparse linear chain of a labeling model, None if it has no such chain."""
    return next(sparse_chains(model), None)


def is_chain_alone(model: Model) -> bool:
    """Return whether a labeling model is `spacy-bcrf.LinearChain.v1`, not a hybrid or a sum."""
    return model.name == "linear_chain"


def find_obstacle(model: Model) -> str | None:
    """Return why a labeling model cannot learn from gradients, l1 or order 2; None if it can."""
    obstacles = (chain.settings.find_obstacle() for chain in sparse_chains(model))
    return next(filter(None, obstacles), None)


def _is_ready(model: Model[list[Doc], Potentials]) -> bool:
    return model.attrs["chain"].is_ready


def _columns(model: Model[list[Doc], Potentials]) -> list[int]:
    return model.attrs["chain"].features.attributes


def forward(
    model: Model[list[Doc], Potentials], docs: list[Doc], is_train: bool
) -> tuple[Potentials, Callable]:
    """Return the potentials of a batch, and the function that makes AdaGrad steps, see `descend`.

    So a chain learns as a part of `spacy-bcrf.Sum.v1`. A component of the chain alone uses `learn`.
    """
    sparse: SparseChain = model.attrs["chain"]
    step: Callable[[Potentials], None] | None = None
    constraints: Constraints | None = model.attrs["constraints"]
    if is_train:
        potentials, step = sparse.begin_update(docs)
        potentials = potentials.constrain(constraints)
    else:
        potentials = sparse.potentials(docs, constraints)

    def backprop(gradient: Potentials) -> list[Doc]:
        if step is None:
            raise ValueError("a prediction has no gradient; call begin_update in place of predict")
        step(Potentials(*map(to_numpy, gradient.arrays)))
        return []

    return potentials, backprop


def init(model: Model[list[Doc], Potentials], X: list[Doc] | None = None, Y: Any = None) -> None:
    sparse: SparseChain = model.attrs["chain"]
    sparse.initialize(X or [], model.get_dim("nO"))
    if model.attrs["tags"] is not None:
        start_from_scores(sparse, model.attrs["tags"])


def start_counting(
    model: Model[list[Doc], Potentials], nlp: Language | None
) -> Callable[[list[Doc]], None]:
    sparse: SparseChain = model.attrs["chain"]
    return sparse.start_counting(nlp)


def learn(
    model: Model[list[Doc], Potentials], docs: list[Doc], gold: Array, lattice: Array | None
) -> float:
    """Make one online step a document, see `OnlineLearner.step`. RETURNS the sum of the losses."""
    sparse: SparseChain = model.attrs["chain"]
    return sparse.step(docs, gold, lattice, model.attrs["constraints"])


def resize_output(
    model: Model[list[Doc], Potentials], nO: int, tags_per_label: int = 1, n_chains: int = 1
) -> Model[list[Doc], Potentials]:
    """Append tags in place, up to nO, see `label_resize`. ValueError for more tags than nO."""
    old = model.maybe_get_dim("nO")
    matching = matching_tags(model.name, nO if old is None else old, nO, tags_per_label)
    sparse: SparseChain = model.attrs["chain"]
    sparse.n_chains = n_chains
    if len(matching) and sparse.is_ready:
        sparse.resize_tags(matching, n_chains)
    model.set_dim("nO", nO, force=True)
    return model


@serialize_attr.register(SparseChain)
def _to_bytes(_: SparseChain, value: SparseChain, name: str, model: Model) -> bytes:
    return value.to_bytes()


@deserialize_attr.register(SparseChain)
def _from_bytes(_: SparseChain, value: bytes, name: str, model: Model) -> SparseChain:
    return _.from_bytes(value)
