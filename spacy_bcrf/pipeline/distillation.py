"""Learning from a distribution over labelings: distillation, and new labels without forgetting."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Optimizer, set_dropout_rate
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import Bools, allowed_tags, doc_lengths
from spacy_bcrf.chain import CRF, Marginals, Potentials, distillation_loss, rename_tags

from .codecs.entities import EntityCodec
from .codecs.tags import TagCodec
from .sequence_labeler import SequenceLabeler


def update_towards(
    pipe: SequenceLabeler,
    docs: Sequence[Doc],
    target: Marginals,
    *,
    drop: float = 0.0,
    sgd: Optimizer | None = None,
) -> float:
    """Make one gradient step towards target marginals (N, T), and return the loss.

    The network of a head learns by `sgd`. The weights of a sparse linear chain make one AdaGrad
    step a token, see `OnlineLearner.descend`; ValueError if its config sets l1.

    Loss and errors: see `chain.distillation.distillation_loss`.
    """
    set_dropout_rate(pipe.model, drop)
    potentials, backprop = pipe.model.begin_update(list(docs))
    potentials = pipe.codec.restrict(potentials, docs, pipe.model.ops, ignore_annotation=True)
    losses, gradient = distillation_loss(pipe.inference, potentials, target)
    backprop(gradient)
    if sgd is not None:
        pipe.model.finish_update(sgd)
    return float(losses.sum())


def learn(
    pipe: SequenceLabeler,
    docs: Sequence[Doc],
    find_target: Callable[[Sequence[int]], Marginals],
    *,
    passes: int,
    batch_size: int,
    drop: float = 0.0,
    sgd: Optimizer | None = None,
    seed: int = 0,
    progress: str | None = None,
) -> list[float]:
    """Learn from targets in several passes, each in a new random order.

    find_target: returns the target marginals of the documents with these indices.
    batch_size: number of documents in a step. progress: title of the progress bar, None without.

    Returns the mean loss a document of each pass.
    """
    rng = random.Random(seed)
    order = [i for i, doc in enumerate(docs) if len(doc)]
    losses = []
    bar = tqdm(
        total=passes * len(order), desc=progress, unit="docs", disable=progress is None, delay=1
    )
    with bar:
        for _ in range(passes):
            rng.shuffle(order)
            total = 0.0
            for batch in minibatch(order, batch_size):
                of_batch = [docs[i] for i in batch]
                total += update_towards(pipe, of_batch, find_target(batch), drop=drop, sgd=sgd)
                bar.update(len(batch))
            losses.append(total / max(len(order), 1))
    return losses


def teacher_chain(teacher: SequenceLabeler, docs: Sequence[Doc]) -> Potentials:
    """Return the chain of a component's probabilities, see `SequenceLabeler.posterior`."""
    return teacher.posterior(teacher.find_potentials(docs, ignore_annotation=True))


class Extension(NamedTuple):
    """What new annotation teaches a component with new labels.

    tags: (n,) new tag ids of the tokens of one document, -1 for a token without a new label.
    allowed: (n, T) of the teacher's tags, by the annotation of the teacher's labels.
    """

    tags: NDArray[np.int32]
    allowed: Bools


def read_extension(
    pipe: SequenceLabeler, n_old: int, examples: Sequence[Example]
) -> tuple[list[Extension | None], dict[int, str]]:
    """Read the annotation of new labels.

    pipe: the component with the new labels, which come last. n_old: number of the tags without
    them. A document without `annotated_labels` annotates the new labels only. A token without a tag
    has none of the new tags.

    RETURNS an extension for each example, None for one with a problem, and the problems by example.
    The problems are those of `SequenceLabeler.read_gold`, and annotation that leaves open where the
    new labels are.
    """
    gold = pipe.read_gold(examples)
    problems = dict(gold.problems)
    codec, n_tags = pipe.codec, len(pipe.tags)
    for rejection in gold.rejections:
        problems.setdefault(rejection.sequence, "an incorrect span of several tokens")
    found = allowed_tags(pipe.model.ops.to_numpy(gold.tags), n_tags)
    stops = doc_lengths([example.predicted for example in examples]).cumsum()[:-1]
    extensions: list[Extension | None] = []
    for i, (example, allowed) in enumerate(zip(examples, np.split(found, stops), strict=True)):
        is_new = allowed[:, n_old:].any(axis=1)
        if isinstance(codec, TagCodec):
            # Without annotation, all tags are allowed.
            is_new &= ~allowed.all(axis=1)
        single = allowed.sum(axis=1) == 1
        if (is_new & ~single).any():
            token = int((is_new & ~single).argmax())
            new = ", ".join(pipe.labels[-((n_tags - n_old) // codec.tags_per_label) :])
            problems.setdefault(
                i,
                f"{example.predicted[token].text!r} (token {token}) has no annotation of {new}",
            )
        if i in problems:
            extensions.append(None)
            continue
        old = allowed[:, :n_old].copy()
        # Of a new entity, the teacher knows that it is none of its own. Each of its tags can be
        # the tag that a new one replaces.
        old[is_new] = isinstance(codec, TagCodec)
        old[is_new, 0] = True
        tags = np.where(is_new, allowed.argmax(axis=1), -1).astype("int32")
        extensions.append(Extension(tags, old))
    return extensions, problems


def extended_target(
    teacher: SequenceLabeler, docs: Sequence[Doc], extensions: Sequence[Extension], n_tags: int
) -> Marginals:
    """Return target marginals (N, n_tags) of a component with new labels.

    The teacher's chain is conditioned on the annotation: a token of a new entity is O for the
    teacher, and annotation of its own labels holds. Its marginals then move to the new tags, see
    `chain.distillation.rename_tags`. Where the annotation is silent, the teacher decides alone.

    The chain is `Inference.to_crf` of the teacher without its temperature, which the extended
    component keeps.
    """
    chain = teacher.posterior(teacher.find_potentials(docs, ignore_annotation=True), 1.0)
    ops: Any = teacher.model.ops
    tags, allowed = (np.concatenate(parts) for parts in zip(*extensions, strict=True))
    marginals = CRF().marginals(chain.restrict(ops.asarray(allowed)), edges=True)
    return rename_tags(marginals, ops.asarray(tags), n_tags)
