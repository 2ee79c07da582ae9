"""Learning from a distribution over labelings: distillation, and new labels without forgetting."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Optimizer, set_dropout_rate
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import Bools, allowed_tags, doc_lengths
from spacy_bcrf.annotation.partial import read_annotated_labels
from spacy_bcrf.chain import CRF, Marginals, Potentials, distillation_loss, rename_tags
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.layers.protocol import get_hooks

from .codecs.entities import EntityCodec
from .codecs.tags import TagCodec
from .sequence_labeler import SequenceLabeler

RATE = 0.3
"""Rate of AdaGrad in a sparse linear chain."""

# As in online steps: tokens that are nearly certain would take most of the time.
_NEGLIGIBLE = 1e-4

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
    lattice = pipe.codec.lattice(docs)
    if lattice is not None:
        ops: Any = pipe.model.ops
        potentials = potentials.restrict(ops.asarray(lattice))
    losses, gradient = distillation_loss(pipe.inference, potentials, target)
    if get_hooks(pipe.model).learn is not None:
        gradient.unary[abs(gradient.unary).max(axis=1) <= _NEGLIGIBLE] = 0
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
    chain = teacher.posterior(teacher.find_potentials(docs), 1.0)
    ops: Any = teacher.model.ops
    tags, allowed = (np.concatenate(parts) for parts in zip(*extensions, strict=True))
    marginals = CRF().marginals(chain.restrict(ops.asarray(allowed)), edges=True)
    return rename_tags(marginals, ops.asarray(tags), n_tags)


class Extended(NamedTuple):
    """The result of `extend`.

    losses: mean loss a document of each pass. problems: by example, why it taught nothing.
    had_control: whether the component had a promise, which does not hold for other labels.
    """

    losses: list[float]
    problems: dict[int, str]
    had_control: bool


def extend(
    pipe: SequenceLabeler,
    teacher: SequenceLabeler,
    examples: Sequence[Example],
    labels: Sequence[str],
    *,
    passes: int = 10,
    batch_size: int = 8,
    drop: float = 0.0,
    sgd: Optimizer | None = None,
    rate: float | None = None,
    seed: int = 0,
) -> Extended:
    """Add labels to a trained component, and learn them from examples without forgetting.

    pipe: a `bcrf_ner` or `bcrf_tagger`. teacher: an unchanged copy of it. examples: documents whose
    references annotate the new labels. sgd: the optimizer of a network. rate: of AdaGrad in a
    sparse linear chain, by default `RATE`.

    An entity reference without `annotated_labels` gets the new labels there. Examples with problems
    of `read_extension` are left out.

    Raises ValueError for labels that the component has, examples without one of the new labels or
    with other unknown labels, no example without a problem, other kinds of components.
    """
    _check_extension(pipe, examples, labels)
    n_old = len(teacher.tags)
    for example in examples:
        is_entity = isinstance(pipe.codec, EntityCodec)
        if is_entity and read_annotated_labels(example.reference) is None:
            example.reference._.annotated_labels = list(labels)
    for label in labels:
        pipe.add_label(label)
    extensions: list[Extension | None] = []
    problems: dict[int, str] = {}
    for batch in minibatch(examples, 128):
        start = len(extensions)
        found, of_batch = read_extension(pipe, n_old, batch)
        extensions += found
        problems.update((start + i, problem) for i, problem in of_batch.items())
    if len(problems) == len(examples):
        raise ValueError(
            f"[{pipe.name}] none of the {len(examples):,} documents can be learned. The first, "
            f"{examples[0].text[:40]!r}: {problems[0]}"
        )
    kept = [(eg.predicted, ext) for eg, ext in zip(examples, extensions, strict=True) if ext]
    docs, targets = [doc for doc, _ in kept], [ext for _, ext in kept]
    _set_rate(pipe, RATE if rate is None else rate)
    losses = learn(
        pipe,
        docs,
        lambda at: extended_target(
            teacher, [docs[i] for i in at], [targets[i] for i in at], len(pipe.tags)
        ),
        passes=passes,
        batch_size=batch_size,
        drop=drop,
        sgd=sgd,
        seed=seed,
        progress=f"[{pipe.name}] learning",
    )
    had_control = pipe.control is not None
    pipe.control = None
    return Extended(losses, problems, had_control)


def _check_extension(
    pipe: SequenceLabeler, examples: Sequence[Example], labels: Sequence[str]
) -> None:
    """Raise ValueError if `extend` cannot add the labels."""
    name, codec = pipe.name, pipe.codec
    if not isinstance(codec, EntityCodec | TagCodec):
        raise ValueError(
            f"[{name}] predicts {codec.what}; only bcrf_ner and bcrf_tagger can be extended"
        )
    if known := [label for label in labels if label in pipe.labels]:
        raise ValueError(
            f"[{name}] has the label {', '.join(known)} already; its labels are "
            f"{', '.join(pipe.labels)}"
        )
    if len(set(labels)) != len(labels) or not labels:
        raise ValueError(f"[{name}] expected different new labels, got {', '.join(labels)}")
    if not pipe.labels:
        raise ValueError(f"[{name}] has no labels; expected a trained component")
    found = set().union(*(codec.find_labels(example.reference) for example in examples))
    annotated = {span.label_ for eg in examples for span in codec.find_spans(eg.reference)}
    if missing := [label for label in labels if label not in annotated]:
        raise ValueError(
            f"[{name}] none of the {len(examples):,} documents has the new label "
            f"{', '.join(missing)}; they have {', '.join(sorted(annotated)) or 'no annotation'}"
        )
    if unknown := sorted(found.difference(pipe.labels, labels)):
        raise ValueError(
            f"[{name}] the documents have the unknown labels {', '.join(unknown)}; expected them "
            f"among the new labels, or only {', '.join((*pipe.labels, *labels))}"
        )


def _set_rate(pipe: SequenceLabeler, rate: float) -> None:
    """Set the rate of AdaGrad in the sparse linear chain of a component, if it has one."""
    chain = sparse_chain(pipe.model)
    if chain is not None:
        chain.change_settings(replace(chain.settings, rate=rate))
