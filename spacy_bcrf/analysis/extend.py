"""`extend`: new labels for a trained component, without forgetting the old ones."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from bcrf.chain import CRF, Marginals, Potentials
from bcrf.chain.distillation import rename_tags
from spacy_bcrf.annotation.arrays import Bools, allowed_tags, doc_lengths, find_bounds
from spacy_bcrf.layers.linear_chain import sparse_chains
from spacy_bcrf.pipeline.gold import find_cause
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.soft_gold import append_tags
from spacy_bcrf.pipeline.training import check_learns_from_gradients

from .combine import own_tok2vec
from .distill import learn, teacher_chain
from .loading import find_labeler, make_examples
from .result import Result

RATE = 0.3
"""Rate of AdaGrad in a sparse linear chain."""


Extension = tuple[NDArray[np.int32], Bools]
"""What new annotation of a document teaches: the new tag ids (n,) of its tokens, -1 without a new
label, and the allowed tags (n, T) of the teacher, by the annotation of the teacher's labels."""


def read_extension(
    pipe: SequenceLabeler, n_old: int, examples: Sequence[Example], chain: Potentials
) -> tuple[list[Extension], dict[int, str]]:
    """Read new labels: an extension for each example, and problems by example.

    pipe: the component with the new labels, which come last. n_old: number of the tags without
    them. chain: the teacher's, over these tags. A token without a tag has none of the new tags.
    Problems: of `read_gold`, new labels that are left open, old ones that the teacher's chain
    forbids.
    """
    gold = pipe.read_gold(examples)
    problems = dict(gold.problems)
    codec, n_tags = pipe.codec, len(pipe.tags)
    new = ", ".join(pipe.labels[-((n_tags - n_old) // codec.tags_per_label) :])
    for rejection in gold.rejections:
        problems.setdefault(rejection.sequence, "an incorrect span of several tokens")
    ops: Any = pipe.model.ops
    allowed = allowed_tags(ops.to_numpy(gold.tags), n_tags)
    is_tag = codec.outside is None
    is_new = allowed[:, n_old:].any(axis=1)
    if is_tag:
        # Without annotation, all tags are allowed.
        is_new &= ~allowed.all(axis=1)
    is_open = is_new & (allowed.sum(axis=1) > 1)
    old = allowed[:, :n_old].copy()
    # Of a new entity, the teacher knows that it is none of its own. A new tag can replace any tag.
    old[is_new] = is_tag
    old[is_new, 0] = True
    tags = np.where(is_new, allowed.argmax(axis=1), -1).astype("int32")
    values = ops.to_numpy(CRF().values(chain.restrict(ops.asarray(old))))
    extensions = []
    bounds = find_bounds([example.predicted for example in examples])
    for i, (example, (start, end)) in enumerate(zip(examples, bounds, strict=True)):
        extensions.append((tags[start:end], old[start:end]))
        if is_open[start:end].any():
            token = int(is_open[start:end].argmax())
            word = example.predicted[token].text
            problems.setdefault(i, f"{word!r} (token {token}) has no annotation of {new}")
        elif not values[i] > -np.inf:
            problems.setdefault(i, find_cause(codec, example))
    return extensions, problems


def extended_target(chain: Potentials, extensions: Sequence[Extension], n_tags: int) -> Marginals:
    """Return target marginals (N, n_tags) of a component with new labels.

    chain: the teacher's, conditioned on the annotation: a token of a new entity is O for it. Its
    marginals then move to the new tags, see `chain.rename_tags`. Where the annotation is silent,
    the teacher decides alone.
    """
    xp = chain.xp
    tags, allowed = (np.concatenate(parts) for parts in zip(*extensions, strict=True))
    marginals = CRF().marginals(chain.restrict(xp.asarray(allowed)), edges=True)
    return rename_tags(marginals, xp.asarray(tags), n_tags)


def read_chains(
    pipe: SequenceLabeler, n_old: int, examples: Sequence[Example], chain: Potentials
) -> tuple[list[Bools], dict[int, str]]:
    """Read new labels with chains of their own: allowed tags (C n, T), see `read_extension`."""
    gold, codec = pipe.read_gold(examples), pipe.codec
    problems = dict(gold.problems)
    for rejection in gold.rejections:
        problems.setdefault(
            rejection.sequence // codec.n_chains, "an incorrect span of several tokens"
        )
    ops: Any = pipe.model.ops
    lengths = doc_lengths([example.predicted for example in examples])
    allowed = allowed_tags(ops.to_numpy(gold.tags), codec.n_tags)
    by_doc = np.split(allowed, codec.n_chains * lengths.cumsum()[:-1])
    old = np.concatenate([tags[: n_old * n] for tags, n in zip(by_doc, lengths, strict=True)])
    values = ops.to_numpy(CRF().values(chain.restrict(ops.asarray(old))))
    is_possible = (values > -np.inf).reshape(-1, n_old).all(axis=1)
    for i, (tags, n) in enumerate(zip(by_doc, lengths.tolist(), strict=True)):
        if (is_open := tags[n_old * n :].sum(axis=1) > 1).any():
            token = int(is_open.argmax()) % n
            word = examples[i].predicted[token].text
            problems.setdefault(i, f"{word!r} (token {token}) has no annotation of a new label")
        elif not is_possible[i]:
            problems.setdefault(i, find_cause(codec, examples[i]))
    return by_doc, problems


@dataclass(repr=False)
class Extended(Result):
    """The result of `extend`.

    losses: mean loss a document of each pass. problems: by example, why it taught nothing.
    had_control: whether the component had a promise, which does not hold for other labels.
    """

    losses: list[float]
    problems: dict[int, str]
    had_control: bool

    def __repr__(self) -> str:
        left_out = f", {len(self.problems):,} documents left out" if self.problems else ""
        return f"mean loss a document: {self.losses[0]:.3f} to {self.losses[-1]:.3f}{left_out}"


def extend(
    nlp: Language,
    gold: Sequence[Doc],
    labels: Sequence[str],
    pipe: str | None = None,
    *,
    passes: int = 5,
    batch_size: int | None = None,
    drop: float = 0.0,
    learn_rate: float | None = None,
    seed: int = 0,
) -> Extended:
    """Add labels to a trained component, and learn them from documents without forgetting.

    pipe: name of a `bcrf_ner`, `bcrf_spans` or `bcrf_tagger`, None for the only component. Its
    marginals before the extension teach the old labels. gold: documents that annotate the new
    labels. learn_rate: of the pipeline's optimizer, by default the config's, or of AdaGrad in a
    sparse linear chain, by default `RATE`.

    The component gets a network of its own. An entity document without `annotated_labels` gets the
    new labels there. Documents with problems of `read_extension` are left out. ValueError as from
    `_check_extension`, and if no document is left.
    """
    name, labeler = find_labeler(nlp, pipe)
    own_tok2vec(nlp, name)
    sgd = nlp.create_optimizer()
    if learn_rate is not None:
        sgd.learn_rate = learn_rate
    found = _extend(
        labeler,
        make_examples(nlp, name, gold),
        labels,
        RATE if learn_rate is None else learn_rate,
        passes=passes,
        batch_size=batch_size,
        drop=drop,
        sgd=sgd,
        seed=seed,
    )
    nlp.get_pipe_config(name).update(control=None, calibration=None)
    for node in labeler.model.walk():
        for param in node.param_names:
            if (average := (sgd.averages or {}).get((node.id, param))) is not None:
                node.set_param(param, average)
    return found


def _extend(
    pipe: SequenceLabeler,
    examples: Sequence[Example],
    labels: Sequence[str],
    rate: float,
    **options: Any,
) -> Extended:
    """Extend a component. rate: of AdaGrad. options: of `learn`."""
    _check_extension(pipe, examples, labels)
    codec, n_old, n_chains = pipe.codec, len(pipe.tags), pipe.codec.n_chains
    # Without the temperature, which the component keeps.
    chain = teacher_chain(pipe, [example.predicted for example in examples], 1.0)
    for example in examples:
        codec.annotate_only(example.reference, labels)
    counts = sum((codec.count_layers(example) for example in examples), Counter[tuple[str, int]]())
    pipe.choose_layers(Counter({key: n for key, n in counts.items() if key[0] in labels}))
    for label in labels:
        pipe.add_label(label)

    def of_docs(at: Iterable[int]) -> Potentials:
        """Return the teacher's chains of documents."""
        return chain.take([i * n_chains + k for i in at for k in range(n_chains)])

    extensions: list[Any] = []
    problems: dict[int, str] = {}
    for start in range(0, len(examples), BATCH_SIZE):
        batch = examples[start : start + BATCH_SIZE]
        known = of_docs(range(start, start + len(batch)))
        found: Sequence[Any]
        if codec.may_overlap:
            found, of_batch = read_chains(pipe, n_chains, batch, known)
        else:
            found, of_batch = read_extension(pipe, n_old, batch, known)
        extensions += found
        problems.update((start + i, problem) for i, problem in of_batch.items())
    if len(problems) == len(examples):
        raise ValueError(
            f"[{pipe.name}] none of the {len(examples):,} documents can be learned. The first, "
            f"{examples[0].text[:40]!r}: {problems[0]}"
        )
    kept = [i for i in range(len(examples)) if i not in problems]
    for sparse in sparse_chains(pipe.model):
        sparse.change_settings(replace(sparse.settings, rate=rate))

    def find_target(at: Sequence[int]) -> Marginals:
        chosen = [kept[i] for i in at]
        known, gold = of_docs(chosen), [extensions[i] for i in chosen]
        if not codec.may_overlap:
            return extended_target(known, gold, len(pipe.tags))
        lengths = doc_lengths([examples[i].predicted for i in chosen])
        every = append_tags(known, lengths, n_chains, codec.n_tags, codec.n_chains)
        allowed = every.xp.asarray(np.concatenate(gold))
        return CRF().marginals(every.restrict(allowed), edges=True)

    losses = learn(
        pipe,
        [examples[i].predicted for i in kept],
        find_target,
        progress=f"[{pipe.name}] learning",
        **options,
    )
    had_control = pipe.control is not None
    # They were fitted to the old labels.
    pipe.control = pipe.calibration = None
    return Extended(losses, problems, had_control)


def _check_extension(
    pipe: SequenceLabeler, examples: Sequence[Example], labels: Sequence[str]
) -> None:
    name, codec = pipe.name, pipe.codec
    if not codec.can_extend:
        raise ValueError(
            f"[{name}] predicts {codec.what}; only bcrf_ner, bcrf_spans and bcrf_tagger can be "
            "extended"
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
    check_learns_from_gradients(pipe, "an extension")
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
