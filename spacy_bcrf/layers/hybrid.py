"""`spacy-bcrf.Hybrid.v1`: a network and a sparse linear chain that learn from one loss."""

import math
from functools import partial
from pathlib import Path
from typing import Any, Literal

import srsly
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from bcrf.chain import Potentials
from bcrf.linear.learner import OnlineSettings
from spacy_bcrf.sparse.add_weights import add_weights

from .linear_chain import make_linear_chain, make_sparse_chain, sparse_chain
from .network import LabelingNetwork
from .potential_sum import init as init_sum
from .potential_sum import make_sum


def Hybrid(
    tok2vec: Model[list[Doc], list[Floats2d]],
    head: Model[list[Floats2d], Potentials],
    templates: str | list[str],
    *,
    sparse_weight: float | Literal["learned"] = 1.0,
    feature_dropout: float = 0.1,
    rate: float = 0.2,
    l2: float = 0.0,
    min_freq: int = 1,
    gazetteers: dict[str, str | list[str]] | None = None,
    clusters: dict[str, str | dict[str, str]] | None = None,
    two_pass: bool = False,
    scores: list[dict[str, Any]] | None = None,
    init_sparse: str | None = None,
    init_neural: str | None = None,
) -> Model[list[Doc], Potentials]:
    """Build a model whose potentials sum a head's and the scores of boolean features.

    One loss, the head's, trains both. The network learns by the optimizer of the config, the
    features by AdaGrad, one step a token, in the backpropagation.

    tok2vec, head: see `LabelingNetwork`. The head sets objective and decoder.
    templates, min_freq, gazetteers, clusters, feature_dropout, two_pass, scores: see
        `LinearChain`.
    sparse_weight: weight of the features' potentials, or "learned": a parameter that starts from 1.
    rate: AdaGrad's learning rate. l2: lambda of lambda / 2 |w|^2 of the features' weights.
    init_sparse, init_neural: folder of a trained component with the same tags, such as
        `model-best/ner`. Initialization adds its features' weights, or takes its network.
    """
    weight = 1.0 if sparse_weight == "learned" else sparse_weight
    if not math.isfinite(weight):
        raise ValueError(f"sparse_weight must be finite, got {weight}")
    settings = OnlineSettings("crf", optimizer="adagrad", averaged=False, rate=rate, l2=l2)
    options: Any = {"min_freq": min_freq, "feature_dropout": feature_dropout, "two_pass": two_pass}
    sparse = make_sparse_chain(templates, settings, gazetteers, clusters, scores=scores, **options)
    decoder, objective = head.attrs["decoder"].name, head.attrs["objective"]
    parts = [LabelingNetwork(tok2vec, head), make_linear_chain(sparse, decoder)]
    is_learned = sparse_weight == "learned"
    model = make_sum("hybrid", parts, [1.0, weight], objective, decoder, is_learned)
    model.set_ref("tok2vec", tok2vec)
    if head.has_dim("nO"):
        model.set_dim("nO", head.get_dim("nO"))
    model.init = partial(init, init_neural=init_neural, init_sparse=init_sparse)
    return model


def init(
    model: Model[list[Doc], Potentials],
    X: list[Doc] | None = None,
    Y: Any = None,
    *,
    init_neural: str | None,
    init_sparse: str | None,
) -> None:
    """Initialize both parts. ValueError for other tags, templates, networks, and damaged files."""
    init_sum(model, X)
    tags = model.attrs["tags"]
    neural, sparse = model.layers
    if init_neural is not None:
        data, _ = _read_component("init_neural", init_neural, tags)
        try:
            neural.from_bytes(data)
        except (ValueError, KeyError, AttributeError) as error:
            raise ValueError(
                f"init_neural = {init_neural!r} has another network than tok2vec and head of the "
                f"config: {error}"
            ) from error
    if init_sparse is not None:
        _, attrs = _read_component("init_sparse", init_sparse, tags)
        chains = [node["chain"] for node in attrs if "chain" in node]
        if not chains:
            raise ValueError(
                f"init_sparse = {init_sparse!r} has no boolean features; expected a component with "
                "spacy-bcrf.LinearChain.v1 or spacy-bcrf.Hybrid.v1"
            )
        chain = sparse_chain(sparse)
        assert chain is not None
        try:
            add_weights(chain, chains[0])
        except ValueError as error:
            raise ValueError(f"init_sparse = {init_sparse!r}: {error}") from error


def _read_component(
    option: str, folder: str, tags: list[str] | None
) -> tuple[bytes, list[dict[str, bytes]]]:
    """Read the model of a saved component. RETURNS its bytes and the attributes of its layers."""
    path = Path(folder) / "model"
    if not path.is_file():
        raise ValueError(
            f"{option} = {folder!r} has no file `model`; expected the folder of a trained "
            "component, such as model-best/ner"
        )
    data = path.read_bytes()
    try:
        attrs = srsly.msgpack_loads(data)["attrs"]
        found = [srsly.msgpack_loads(node["tags"]) for node in attrs if "tags" in node]
    # msgpack raises exceptions of several types.
    except Exception as error:
        raise ValueError(f"{option} = {folder!r}: {path} is damaged: {error}") from error
    if tags is not None and tags not in found:
        trained = next((names for names in found if names), "none")
        raise ValueError(f"{option} = {folder!r} has the tags {trained}, but the data have {tags}")
    return data, attrs
