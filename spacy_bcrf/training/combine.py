"""Combination of trained components: one component with the weighted sum of their potentials."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from bcrf.chain import CRF, Potentials
from bcrf.chain.side_by_side import rows_by_chain
from bcrf.kernels import Array
from bcrf.linear.lbfgs import LBFGSSettings, minimize
from spacy_bcrf.annotation.arrays import UNKNOWN, doc_lengths
from spacy_bcrf.layers.potential_sum import Sum, call_part, sum_potentials, weight_gradients
from spacy_bcrf.loading import make_examples
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.result import Result

# Precision of the Gaussian prior of the weights. It keeps them finite if the sum is always right.
_PRIOR = 1e-3


PartsBatch = tuple[list[Potentials], Array, NDArray[np.bool_] | None]
"""Potentials of the parts on the same documents, in float64 without constraints; `Gold.tags`
and the lattice."""


class Combination:
    """The sum of the potentials of K components that predict the same tags.

    pipes: trained, on the CPU. examples: annotated by earlier components. ValueError without gold.
    """

    def __init__(self, pipes: Sequence[SequenceLabeler], examples: Sequence[Example]) -> None:
        self._pipe = pipes[0]
        self._batches: list[PartsBatch] = []
        self.n_tokens = 0
        """Number of tokens with gold annotation."""
        codec = self._pipe.codec
        for batch in minibatch(examples, BATCH_SIZE):
            docs = [example.predicted for example in batch]
            if not any(len(doc) for doc in docs):
                continue
            gold, _, _, lattice, _ = self._pipe.read_gold(batch)
            rows = rows_by_chain(doc_lengths(docs), codec.n_chains)
            known = np.empty(len(rows), dtype=bool)
            known[rows] = ~gold.all(axis=1) if gold.dtype == bool else gold != UNKNOWN
            self.n_tokens += int(known.reshape(-1, codec.n_chains).any(axis=1).sum())
            parts = [_raw_potentials(pipe, docs) for pipe in pipes]
            self._batches.append((parts, gold, lattice))
        if not self.n_tokens:
            raise ValueError(
                f"[{self._pipe.name}] none of the {len(examples)} documents has {codec.what} that "
                "the component can learn: no likelihood to fit the weights by"
            )

    def log_likelihood(self, weights: Sequence[float]) -> float:
        """Return the log-likelihood of the gold annotation in a CRF of the summed potentials."""
        return self._evaluate(np.asarray(weights, "float64"))[0]

    def _evaluate(self, weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the log-likelihood and its gradient (K,)."""
        value, gradient = 0.0, np.zeros(len(weights))
        constraints = self._pipe.codec.constraints
        for parts, gold, lattice in self._batches:
            total = sum_potentials(parts, weights.tolist())
            total = total.constrain(constraints)
            total = total if lattice is None else total.restrict(lattice)
            losses, d_total = CRF().loss(total, gold)
            value -= float(losses.sum())
            gradient -= weight_gradients(d_total, parts)
        return value, gradient

    def fit(self) -> list[float]:
        """Return the weights (K,) of largest log-likelihood on the examples, by L-BFGS.

        It is concave in the weights for complete annotation, else the result is a local maximum.
        """

        def evaluate(weights: NDArray) -> tuple[float, NDArray]:
            value, gradient = self._evaluate(weights[0])
            return -value / self.n_tokens, -gradient[None] / self.n_tokens

        n = len(self._batches[0][0])
        settings = LBFGSSettings(c2=_PRIOR / 2 / self.n_tokens, epsilon=1e-6, delta=1e-9)
        (weights,) = minimize(evaluate, np.full((1, n), 1 / n), settings, lambda *_: None)
        return [float(f"{weight:.6g}") for weight in weights.tolist()]


def _raw_potentials(pipe: SequenceLabeler, docs: list[Any]) -> Potentials:
    constraints = pipe.codec.constraints
    try:
        return call_part(pipe.model, docs, False, constraints)[0].astype("float64")
    finally:
        pipe.head.attrs["constraints"] = constraints


def check_same(name: str, pipelines: dict[str, Language]) -> None:
    """Raise ValueError unless the component `name` of all pipelines can be one component.

    pipelines: pipelines by the name that errors use. They must agree in language, tokenizer,
    vectors, factory, labels and settings of the tags, and in the names of the components before.
    """
    (first, one), *others = pipelines.items()
    for second, other in others:
        pairs = zip(_describe(one, name), _describe(other, name), strict=True)
        for (what, ours, shown), (_, theirs, other_shown) in pairs:
            if ours != theirs:
                raise ValueError(
                    f"{name} has other {what}: {shown} in {first}, but {other_shown} in {second}"
                )


def _describe(nlp: Language, name: str) -> list[tuple[str, Any, str]]:
    """Return what `check_same` compares: its name, its value, and the value as text."""
    pipe: Any = nlp.get_pipe(name)
    vectors: Any = nlp.vocab.vectors
    factory, settings = nlp.get_pipe_meta(name).factory, pipe.codec.settings
    tokenizer = nlp.config["nlp"]["tokenizer"]["@tokenizers"]
    rules = getattr(nlp.tokenizer, "to_bytes", lambda exclude: b"")(exclude=["vocab"])
    content = zlib.crc32(vectors.to_bytes()) if vectors.n_keys else 0
    size = f"{vectors.n_keys} of width {vectors.shape[1]}" if vectors.n_keys else "none"
    names = nlp.pipe_names[: nlp.pipe_names.index(name)]
    before = [other for other in names if not hasattr(nlp.get_pipe(other), "listener_map")]
    return [
        ("factories", factory, factory),
        ("settings of the tags", settings, str(settings)),
        ("labels", pipe.labels, ", ".join(pipe.labels)),
        ("tags", pipe.tags, ", ".join(pipe.tags)),  # layers that each training chose
        ("languages", nlp.lang, str(nlp.lang)),
        ("tokenizers", (tokenizer, rules), f"{tokenizer} with rules {zlib.crc32(rules):08x}"),
        ("vectors", (vectors.shape, content), size),
        ("components before it", before, ", ".join(before) or "none"),
    ]


def own_tok2vec(nlp: Language, name: str) -> None:
    """Make a component independent of the others: its listeners become copies of what they hear.

    The config of its model has values in place of references to other sections. Removes an upstream
    component that no other component listens to.
    """
    pipe: Any = nlp.get_pipe(name)
    # Such as ${components.tok2vec.model.encode.width} and ${paths.clusters}.
    components = nlp.config.interpolate()["components"]
    for each in nlp.pipe_names:
        if "model" in components[each]:
            nlp.get_pipe_config(each)["model"] = components[each]["model"]
    pipeline: list[tuple[str, Any]] = list(nlp.pipeline)
    for upstream, tok2vec in pipeline:
        if not getattr(tok2vec, "listener_map", {}).get(name):
            continue
        paths = _listeners(nlp.get_pipe_config(name)["model"], ["model"])
        with_name = [path for path, of in paths if of in ("*", upstream)]
        nlp.replace_listeners(upstream, pipe.name, with_name)
        if not tok2vec.listening_components:
            nlp.remove_pipe(upstream)


def _listeners(block: dict[str, Any], path: list[str]) -> list[tuple[str, str]]:
    if "Listener" in str(block.get("@architectures")):
        return [(".".join(path), block.get("upstream", "*"))]
    below = ((key, value) for key, value in block.items() if isinstance(value, dict))
    return [found for key, value in below for found in _listeners(value, [*path, key])]


def sum_pipelines(name: str, pipelines: dict[str, Language], weights: Sequence[float]) -> Language:
    """Return the first pipeline, in which `name` sums the potentials of all pipelines.

    pipelines: pipelines by the names of the parts, see `check_same` and `own_tok2vec`. The first
    one changes. The result has temperature 1, no threshold, no promise and no map of confidences.
    """
    nlp, *others = pipelines.values()
    pipes: list[Any] = [other.get_pipe(name) for other in pipelines.values()]
    by_name = dict(zip(pipelines, weights, strict=True))
    models = {part: pipe.model for part, pipe in zip(pipelines, pipes, strict=True)}
    for pipe in pipes:
        pipe.head.attrs["constraints"] = None
    blocks = {part: other.get_pipe_config(name)["model"] for part, other in pipelines.items()}
    target = pipes[0]
    summed = Sum(models, by_name)
    summed.set_dim("nO", len(target.tags))
    summed.attrs["tags"] = target.tags
    summed.attrs["constraints"] = target.codec.constraints
    for string in chain.from_iterable(other.vocab.strings for other in others):
        nlp.vocab.strings.add(string)
    target.model = summed
    config = nlp.get_pipe_config(name)
    # They were fitted to the part, not to the sum.
    target.control = target.calibration = None
    target.temperature, target.threshold, target.calibrated_on = 1.0, 0.0, ()
    config["model"] = {"@architectures": "spacy-bcrf.Sum.v1", "decoder": "viterbi"}
    config["model"] |= {"weights": by_name, "parts": blocks}
    return nlp


@dataclass(repr=False)
class Combined(Result):
    """A component that sums the potentials of several pipelines.

    nlp: the first pipeline, with the sum. name: of the component. weights: by pipeline. n_tokens:
    number of gold tokens. log_likelihoods: per gold token, of each pipeline alone and of the "sum".
    """

    nlp: Language
    name: str
    weights: dict[str, float]
    n_tokens: int
    log_likelihoods: dict[str, float]

    def rows(self) -> list[tuple[str, ...]]:
        found = [
            (part, f"{self.weights.get(part, 1):.4f}", f"{value:.4f}")
            for part, value in self.log_likelihoods.items()
        ]
        return [("pipeline", "weight", "log-likelihood per token"), *found]


def combine(
    pipelines: dict[str, Language], gold: Sequence[Doc], pipe: str | None = None
) -> Combined:
    """Sum the potentials of a component of several pipelines. Gold documents decide the weights.

    pipelines: by name; all change. pipe: the component, None for the only one in common. ValueError
    as from `check_same` and `Combination`.
    """
    name = find_common(pipelines, pipe)
    check_same(name, pipelines)
    for nlp in pipelines.values():
        own_tok2vec(nlp, name)
    nlp = next(iter(pipelines.values()))
    pipes: list[Any] = [other.get_pipe(name) for other in pipelines.values()]
    combination = Combination(pipes, make_examples(nlp, name, gold))
    weights = combination.fit()
    rows = [*np.eye(len(weights)).tolist(), weights]
    values = [combination.log_likelihood(row) / combination.n_tokens for row in rows]
    summed = sum_pipelines(name, pipelines, weights)
    by_name = dict(zip(pipelines, weights, strict=True))
    likelihoods = dict(zip([*pipelines, "sum"], values, strict=True))
    return Combined(summed, name, by_name, combination.n_tokens, likelihoods)


def find_common(pipelines: dict[str, Language], name: str | None) -> str:
    """Return the component that all pipelines have, or the only one. ValueError lists them."""
    ours = {
        part: [key for key, pipe in nlp.pipeline if isinstance(pipe, SequenceLabeler)]
        for part, nlp in pipelines.items()
    }
    first, *others = ours.values()
    common = [key for key in first if all(key in keys for keys in others)]
    shown = "; ".join(f"{part} has {', '.join(keys) or 'none'}" for part, keys in ours.items())
    if name is None and len(common) == 1:
        return common[0]
    if name is None and common:
        raise ValueError(f"pipe is missing; expected one of {', '.join(common)}")
    if name not in common:
        wanted = f"component {name!r} of spacy-bcrf" if name else "component of spacy-bcrf"
        raise ValueError(f"the pipelines have no enabled {wanted} in common: {shown}")
    return name
