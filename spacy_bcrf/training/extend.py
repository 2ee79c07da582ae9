"""`extend`: new labels for a trained component, without forgetting the old ones."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from bcrf.chain import CRF, Marginals, Potentials
from bcrf.chain.distillation import rename_tags
from bcrf.chain.potentials import counted
from spacy_bcrf.annotation.arrays import Bools, allowed_tags, doc_bounds, doc_lengths
from spacy_bcrf.layers.linear_chain import sparse_chains
from spacy_bcrf.loading import find_labeler, make_examples
from spacy_bcrf.pipeline.gold import Gold, find_cause
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.soft_gold import append_tags
from spacy_bcrf.pipeline.training import check_learns_from_gradients
from spacy_bcrf.result import Result

from .combine import own_tok2vec
from .distill import learn_targets, teacher_chain

RATE = 0.3
"""Rate of AdaGrad in a sparse linear chain."""
DROPOUT = 0.1
"""Learning rate of a network."""


Extension = tuple[NDArray[np.int32], Bools]
"""What new annotation of a document teaches: the new tag ids (n,) of its tokens, -1 without a new
label, and the allowed tags (n, T) of the teacher, by the annotation of the teacher's labels."""


def read_extension(
    pipe: SequenceLabeler, n_old: int, examples: Sequence[Example], chain: Potentials
) -> tuple[list[Extension], dict[int, str]]:
    """Read new labels: an extension for each example, and problems by example.

    pipe: the component with the new labels, which come last. n_old: number of the tags without
    them. chain: the teacher's, over these tags. A token without a tag has none of the new tags.
    Problems: of `read_gold`, open new labels, old ones that the teacher's chain forbids.
    """
    gold, codec, n_tags = pipe.read_gold(examples), pipe.codec, len(pipe.tags)
    ops: Any = pipe.model.ops
    allowed = allowed_tags(ops.to_numpy(gold.tags), n_tags)
    is_tag = codec.spans is None
    is_new = allowed[:, n_old:].any(axis=1)
    if is_tag:
        # Without annotation, all tags are allowed.
        is_new &= ~allowed.all(axis=1)
    is_open = is_new & (allowed.sum(axis=1) > 1)
    old = allowed[:, :n_old].copy()
    # The teacher has no label for a new entity. A new tag can replace any tag.
    old[is_new] = is_tag
    old[is_new, 0] = True
    tags = np.where(is_new, allowed.argmax(axis=1), -1).astype("int32")
    bounds = doc_bounds([example.predicted for example in examples])
    open_by_doc = [is_open[start:end] for start, end in bounds]
    known = chain.restrict(ops.asarray(old))
    new = ", ".join(pipe.labels[-((n_tags - n_old) // codec.tags_per_label) :])
    problems = _find_problems(pipe, examples, gold, known, open_by_doc, new)
    return [(tags[start:end], old[start:end]) for start, end in bounds], problems


def _find_problems(
    pipe: SequenceLabeler,
    examples: Sequence[Example],
    gold: Gold,
    known: Potentials,
    is_open: Sequence[Bools],
    new: str,
) -> dict[int, str]:
    """Return why examples teach nothing.

    known: the teacher's chains, by the annotation of its labels. is_open: by example, tokens (n,),
    of each new chain (C n,), whose annotation of the `new` labels is open.
    """
    problems = dict(gold.problems)
    for rejection in gold.rejections:
        i = rejection.sequence // gold.n_chains
        problems.setdefault(i, "an incorrect span of several tokens")
    values = pipe.model.ops.to_numpy(CRF().values(known))
    is_possible = (values > -np.inf).reshape(len(examples), -1).all(axis=1)
    for i, (example, of_doc) in enumerate(zip(examples, is_open, strict=True)):
        if of_doc.any():
            token = example.predicted[int(of_doc.argmax()) % len(example.predicted)]
            problem = f"{token.text!r} (token {token.i}) has no annotation of {new}"
            problems.setdefault(i, problem)
        elif not is_possible[i]:
            problems.setdefault(i, find_cause(pipe.codec, example))
    return problems


def extended_target(chain: Potentials, extensions: Sequence[Extension], n_tags: int) -> Marginals:
    """Return target marginals (N, n_tags) of a component with new labels.

    chain: the teacher's, conditioned on the annotation: a token of a new entity is O for it. Its
    marginals then move to the new tags, see `chain.rename_tags`. Elsewhere the teacher decides.
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
    ops: Any = pipe.model.ops
    lengths = doc_lengths([example.predicted for example in examples])
    allowed = allowed_tags(ops.to_numpy(gold.tags), codec.n_tags)
    by_doc = np.split(allowed, codec.n_chains * lengths.cumsum()[:-1])
    stops = (n_old * lengths).tolist()
    old = np.concatenate([tags[:stop] for tags, stop in zip(by_doc, stops, strict=True)])
    is_open = [tags[stop:].sum(axis=1) > 1 for tags, stop in zip(by_doc, stops, strict=True)]
    known = chain.restrict(ops.asarray(old))
    return by_doc, _find_problems(pipe, examples, gold, known, is_open, "a new label")


@dataclass(repr=False)
class Extended(Result):
    """The result of `extend`.

    losses: mean loss a document of each pass. problems: by example, why it taught nothing.
    """

    losses: list[float]
    problems: dict[int, str]

    def __repr__(self) -> str:
        left_out = f", {counted(len(self.problems), 'document')} left out" if self.problems else ""
        return f"mean loss a document: {self.losses[0]:.3f} to {self.losses[-1]:.3f}{left_out}"


def extend(
    nlp: Language,
    gold: Sequence[Doc],
    labels: Sequence[str],
    pipe: str | None = None,
    *,
    passes: int = 5,
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
    examples = make_examples(nlp, name, gold)
    docs = [example.predicted for example in examples]
    _check_extension(labeler, examples, labels)
    codec, n_tags, n_chains = labeler.codec, len(labeler.tags), labeler.codec.n_chains
    # Without the temperature, which the component keeps.
    chain = teacher_chain(labeler, docs, 1.0)
    _add_labels(labeler, examples, labels)

    def of_docs(at: Iterable[int]) -> Potentials:
        return chain.take([i * n_chains + k for i in at for k in range(n_chains)])

    extensions: list[Any] = []
    problems: dict[int, str] = {}
    read: Any = read_chains if codec.layered else read_extension
    n_old = n_chains if codec.layered else n_tags
    for start in range(0, len(examples), BATCH_SIZE):
        batch = examples[start : start + BATCH_SIZE]
        known = of_docs(range(start, start + len(batch)))
        found, of_batch = read(labeler, n_old, batch, known)
        extensions += found
        problems.update((start + i, problem) for i, problem in of_batch.items())
    if len(problems) == len(examples):
        raise ValueError(
            f"[{name}] none of the {len(examples):,} documents can be learned. The first, "
            f"{docs[0].text[:40]!r}: {problems[0]}"
        )
    kept = [i for i in range(len(examples)) if i not in problems]
    for sparse in sparse_chains(labeler.model):
        rate = RATE if learn_rate is None else learn_rate
        sparse.change_settings(replace(sparse.settings, rate=rate))

    def find_target(at: Sequence[int]) -> Marginals:
        chosen = [kept[i] for i in at]
        known, of_gold = of_docs(chosen), [extensions[i] for i in chosen]
        if not codec.layered:
            return extended_target(known, of_gold, len(labeler.tags))
        lengths = doc_lengths([docs[i] for i in chosen])
        every = append_tags(known, lengths, n_chains, codec.n_tags, codec.n_chains)
        allowed = every.xp.asarray(np.concatenate(of_gold))
        return CRF().marginals(every.restrict(allowed), edges=True)

    options: Any = {"passes": passes, "drop": DROPOUT, "seed": seed}
    options |= {"sgd": sgd, "progress": f"[{name}] learning"}
    losses = learn_targets(labeler, [docs[i] for i in kept], find_target, **options)
    # They were fitted to the old labels.
    labeler.control = labeler.calibration = None
    nlp.get_pipe_config(name).update(control=None, calibration=None)
    _use_averages(labeler, sgd.averages or {})
    return Extended(losses, problems)


def _add_labels(pipe: SequenceLabeler, examples: Sequence[Example], labels: Sequence[str]) -> None:
    """Add labels to a component, and to the annotated labels of entity documents without them."""
    codec = pipe.codec
    # A token without a tag is unannotated, but a token without a span is outside of all labels.
    if codec.partial and codec.unit == "span":
        for example in examples:
            if codec.partial.find_annotated_labels(example.reference) is None:
                example.reference._.annotated_labels = list(labels)
    counts = sum((codec.count_layers(example) for example in examples), Counter[tuple[str, int]]())
    pipe.choose_layers(Counter({key: n for key, n in counts.items() if key[0] in labels}))
    for label in labels:
        pipe.add_label(label)


def _use_averages(pipe: SequenceLabeler, averages: Mapping[Any, Any]) -> None:
    """Set the parameters of a component to their averages. averages: by node and parameter."""
    for node in pipe.model.walk():
        for param in node.param_names:
            if (average := averages.get((node.id, param))) is not None:
                node.set_param(param, average)


def _check_extension(
    pipe: SequenceLabeler, examples: Sequence[Example], labels: Sequence[str]
) -> None:
    name, codec = pipe.name, pipe.codec
    if codec.partial is None:
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
