"""Gradient steps towards soft gold: marginals of a teacher, or of the component as it was."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import Model, Optimizer, set_dropout_rate

from bcrf.chain import CRF, Marginals, Potentials
from bcrf.chain.distillation import distillation_loss
from bcrf.chain.side_by_side import join_chains, rows_by_chain, split_chains
from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.layers.protocol import LabelingModel

from .gold import find_lattice
from .prediction import Component
from .training import check_learns_from_gradients

# As in online steps: tokens that are nearly certain would take most of the time.
_NEGLIGIBLE = 1e-4


def update_towards(
    pipe: Component,
    docs: Sequence[Doc],
    target: Marginals,
    *,
    drop: float = 0.0,
    sgd: Optimizer | None = None,
) -> float:
    """Make one gradient step towards target marginals (N, T), and return the loss.

    Networks learn by `sgd`, chains by AdaGrad. Loss and errors: `distillation_loss`.
    """
    set_dropout_rate(pipe.labeling.model, drop)
    potentials, backprop = pipe.labeling.model.begin_update(list(docs))
    lattice = find_lattice(pipe.codec, docs)
    if lattice is not None:
        ops: Any = pipe.labeling.model.ops
        potentials = potentials.restrict(ops.asarray(lattice))
    return _descend(pipe, potentials, backprop, target, sgd)


def rehearse(
    pipe: Component,
    teacher: Model[list[Doc], Potentials] | None,
    docs: Sequence[Doc],
    *,
    drop: float = 0.0,
    sgd: Optimizer | None = None,
) -> float:
    """Make one gradient step towards the marginals of an earlier copy of the component's model.

    teacher: None without a copy; then it warns and learns nothing. It knows no later labels: both
    distributions are conditioned on its tags, and documents with others preset are left out.
    RETURNS the loss. ValueError if the model listens to a tok2vec, or learns no gradients.
    """
    if teacher is None:
        warnings.warn(
            f"[{pipe.name}] rehearsal needs a copy of the trained model: call nlp.resume_training "
            "before the first update",
            stacklevel=3,
        )
        return 0.0
    view = LabelingModel(pipe.name, teacher)
    assert view.tags is not None
    check_learns_from_gradients(pipe, "rehearsal")
    upstreams = (getattr(node, "upstream_name", None) for node in teacher.walk())
    if upstream := next(filter(None, upstreams), None):
        raise ValueError(
            f"[{pipe.name}] rehearsal needs a component with its own tok2vec, but this one listens "
            f"to {upstream!r}. Call nlp.replace_listeners before nlp.resume_training"
        )
    n_tags, n_chains = pipe.codec.n_tags, pipe.codec.n_chains
    n_old = max(1, len(view.tags) // n_tags)
    chains = rows_by_chain(doc_lengths(docs), n_chains) % n_chains
    allowed = np.zeros((len(chains), n_tags), dtype=bool)
    allowed[chains < n_old, : len(view.tags)] = True
    # A later chain side by side is certain in both distributions.
    allowed[chains >= n_old, 0] = True
    lattice = find_lattice(pipe.codec, docs)
    if lattice is not None:
        allowed &= lattice
    by_doc = np.split(allowed, n_chains * doc_lengths(docs).cumsum()[:-1])
    kept = [i for i, tags in enumerate(by_doc) if len(tags) and tags.any(axis=1).all()]
    if not kept:
        return 0.0
    docs, mask = [docs[i] for i in kept], view.asarray(np.concatenate([by_doc[i] for i in kept]))
    known = append_tags(teacher.predict(docs), doc_lengths(docs), n_old, n_tags, n_chains)
    chain = view.inference.to_crf(known.restrict(mask))
    set_dropout_rate(pipe.labeling.model, drop)
    potentials, backprop = pipe.labeling.model.begin_update(docs)
    target = CRF().marginals(chain, edges=True)
    return _descend(pipe, potentials.restrict(mask), backprop, target, sgd)


def append_tags(
    potentials: Potentials, lengths: NDArray[np.int32], n_old: int, n_tags: int, n_chains: int
) -> Potentials:
    """Append tags, or chains to n_old ones, with the score 0. lengths: of the documents."""
    xp, transitions = potentials.xp, potentials.transitions
    unary = join_chains(potentials.unary, lengths, n_old, xp)
    if transitions.ndim == 3:  # equal in all chains of a document
        of_token = join_chains(transitions, lengths, n_old, xp)
        transitions = of_token.reshape(len(unary), n_old, *transitions.shape[1:])[:, 0]
    more = n_tags - transitions.shape[-1]
    around = [(0, 0)] * (transitions.ndim - 2) + [(0, more)] * 2
    unary = xp.pad(unary, [(0, 0), (0, n_tags * n_chains - unary.shape[1])])
    return split_chains(unary, xp.pad(transitions, around), lengths, n_chains, xp)


def _descend(
    pipe: Component,
    potentials: Potentials,
    backprop: Callable[[Potentials], Any],
    target: Marginals,
    sgd: Optimizer | None,
) -> float:
    """Make one step against the gradient of the distillation loss, and return the loss."""
    losses, gradient = distillation_loss(pipe.labeling.inference, potentials, target)
    if pipe.labeling.hooks.learn is not None:
        gradient.unary[abs(gradient.unary).max(axis=1) <= _NEGLIGIBLE] = 0
    backprop(gradient)
    if sgd is not None:
        pipe.labeling.model.finish_update(sgd)
    return float(losses.sum())
