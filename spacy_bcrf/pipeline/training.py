"""Training of a component: the loss of a batch, online steps, and one pass over a new corpus."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from spacy.errors import Errors
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import logger, minibatch
from thinc.api import Model
from tqdm import tqdm

from bcrf.chain import Potentials
from bcrf.chain.potentials import NotFiniteError, raise_deferred
from bcrf.chain.unlikelihood import unlikelihood_loss
from spacy_bcrf.annotation.arrays import UNKNOWN
from spacy_bcrf.annotation.token_differences import TokenDifferences
from spacy_bcrf.layers.linear_chain import find_obstacle, sparse_chains
from spacy_bcrf.layers.protocol import LabelingModel
from spacy_bcrf.readers.split_corpus import find_losses

from .codecs import Codec
from .gold import Gold, GoldProblems, find_trimmed
from .held_out import Blocks, HeldOut
from .prediction import BATCH_SIZE, Component, name_doc

SAMPLE_SIZE = 10
"""Number of documents that initialize a network."""

GRADIENT_BATCH = 8
"""Most documents of a gradient step of a sparse linear chain."""
MANY_TAGS = 1000
"""A chain with more tags is slow."""
SECONDS, BYTES = 5e-9, 36
"""Per word in training, chain and pair of tags: 1,001 to 4,001 tags, one thread."""
LOSS_TERMS = "an additional loss such as entity_ratio or label_smoothing"

LossTerm = Callable[[Potentials, Gold, Potentials], float]
"""Returns an additional loss of a batch and adds its gradient to the last argument, in place."""


def check_learns_from_gradients(pipe: Component, what: str) -> None:
    """Raise ValueError if a chain cannot learn from gradients. what: the part that does."""
    if obstacle := find_obstacle(pipe.labeling.model):
        raise ValueError(f"[{pipe.name}] {what} learns from gradients, but {obstacle}")


def learn_online(
    labeling: LabelingModel, examples: list[Example], gold: Gold | None
) -> tuple[float, list[list[Example]]]:
    """Make an online step a document. RETURNS the loss, and groups that learn from gradients:

    documents with incorrect spans, or with additional losses, if gold is None, GRADIENT_BATCH.
    """
    if gold is None:
        return 0.0, list(minibatch(examples, GRADIENT_BATCH))
    docs = [example.predicted for example in examples]
    rejected = gold.leave_out_rejections(docs) if gold.rejections else []
    learn = labeling.hooks.learn
    assert learn is not None
    return learn(labeling.model, docs, gold.tags, gold.lattice), [[examples[i]] for i in rejected]


def compute_loss(
    pipe: Component, potentials: Potentials, gold: Gold, terms: Iterable[LossTerm]
) -> tuple[float, Potentials, bool]:
    """Return the sum of the documents' losses, its gradient, and whether anything is annotated."""
    # A sum, as in spaCy's tagger and ner, so that components on a shared tok2vec weigh alike. In
    # short trials the mean over tokens did better on JNLPBA, worse on EWT, mixed on WNUT17.
    if gold.lattice is not None:
        potentials = potentials.restrict(pipe.labeling.asarray(gold.lattice))
    losses, gradient = pipe.labeling.objective.loss(potentials, gold.tags)
    loss = float(losses.sum())
    if type(losses) is not np.ndarray:
        raise_deferred(losses)
    more_loss = 0.0
    if gold.rejections:
        allowed = potentials.restrict(gold.tags)
        losses, more = unlikelihood_loss(pipe.labeling.inference, allowed, gold.rejections)
        more_loss += float(losses.sum())
        add_gradient(gradient, more)
    more_loss += sum(term(potentials, gold, gradient) for term in terms)
    tags = gold.tags
    is_annotated = not tags.all() if tags.dtype == bool else (tags != UNKNOWN).any()
    return loss + more_loss, gradient, bool(is_annotated or more_loss)


def add_gradient(gradient: Potentials, more: Potentials, times: float = 1) -> None:
    """Add a gradient to another in place, in the precision of the first."""
    dtype = gradient.unary.dtype
    gradient.unary[...] += (times * more.unary).astype(dtype)
    gradient.transitions[...] += (times * more.transitions).astype(dtype)


def diverged(pipe: Component, docs: Sequence[Doc], error: NotFiniteError) -> ValueError:
    remedy = (
        "Lower training.optimizer.learn_rate, or set training.optimizer.grad_clip. If the first "
        "step fails, check the vectors"
        if pipe.labeling.hooks.learn is None
        else "Lower the rate of the sparse linear chain"
    )
    return ValueError(
        f"[{pipe.name}] training diverged: the scores of {name_doc(docs, error)} are NaN or "
        f"infinite. {remedy}"
    )


@dataclass
class Corpus:
    """What one pass over the training data finds. labels: all, in spans, in `annotated_labels`.

    layers: see `Codec.count_layers`. blocks: choose what to hold out. n_trimmed: spans with
    whitespace at an edge. differences: of gold tokens from the pipeline's.
    """

    n_docs: int = 0
    sample: list[Doc] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    annotated: set[str] = field(default_factory=set)
    problems: GoldProblems = field(default_factory=GoldProblems)
    layers: Counter[tuple[str, int]] = field(default_factory=Counter)
    n_trimmed: int = 0
    differences: TokenDifferences = field(default_factory=TokenDifferences)
    blocks: Blocks = field(default_factory=Blocks)


def scan_corpus(
    pipe: Component,
    get_examples: Callable[[], Iterable[Example]],
    labels: Sequence[str] | None,
    set_labels: Callable[[Iterable[str]], None],
    nlp: Language | None,
) -> Corpus:
    """Read the training data once: labels, features, problems of gold, and a sample.

    labels: labels of the component, None for all of the data. set_labels: gets the labels found so
    far, so that the gold of a batch can be checked. nlp: see `Gazetteers.load`.
    ValueError and warnings: see `_check_corpus`.
    """
    if isinstance(labels, str):
        raise ValueError(f"[{pipe.name}] labels must be a list of strings, got {labels!r}")
    method = f"{type(pipe).__name__}.initialize"
    # spaCy's validate_get_examples would read the corpus once more.
    if not callable(get_examples):
        raise TypeError(Errors.E930.format(method=method, obj=type(get_examples)))
    start_counting = pipe.labeling.hooks.start_counting
    count = start_counting and start_counting(pipe.labeling.model, nlp)
    found = Corpus()
    if labels is not None:
        set_labels(labels)
    what = f"[{pipe.name}] reading"
    examples = _naming_missing(get_examples())
    shown = tqdm(examples, what, delay=5, leave=False, unit="docs", disable=None)
    for batch in minibatch(shown, BATCH_SIZE):
        validate_examples(batch, method)
        known = len(found.labels)
        for example in batch:
            reference = example.reference
            of_doc = pipe.codec.find_labels(reference)
            found.labels |= of_doc
            is_whole = not pipe.codec.unannotated(reference).any()
            found.blocks.add(example, of_doc, is_whole=is_whole)
            found.used |= pipe.codec.find_used_labels(reference)
            if partial := pipe.codec.partial:
                found.annotated.update(partial.find_annotated_labels(reference) or ())
            found.layers.update(pipe.codec.count_layers(example))
            found.n_trimmed += len(find_trimmed(pipe.codec, reference))
            if pipe.codec.unit != "word":
                found.differences.add(example.predicted, reference)
        if labels is None and len(found.labels) > known:
            set_labels(sorted(found.labels))
        docs = [example.predicted for example in batch]
        found.sample += docs[: SAMPLE_SIZE - len(found.sample)]
        if count:
            count(docs)
        if pipe.codec.labels:
            found.problems.add(batch, pipe.read_gold(batch).problems)
        found.n_docs += len(batch)
    if not found.n_docs:
        raise ValueError(Errors.E923.format(name=pipe.name))
    _check_corpus(pipe, found)
    return found


def _naming_missing(examples: Iterable[Example]) -> Iterator[Example]:
    try:
        yield from examples
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error.filename}: no such file. Paths of a config are relative to the current folder "
            f"{Path.cwd()}; `spacy train --paths.train FILE` sets another"
        ) from None


def check_pipeline(nlp: Language, name: str, model: Model, codec: Codec) -> None:
    """Warn of unread vectors and of lossy readers. ValueError if two write one span group."""
    key = codec.settings.get("spans_key")
    for other in nlp.pipe_names if key is not None else ():
        writes = "doc.spans" in nlp.get_pipe_meta(other).assigns
        if other != name and writes and nlp.get_pipe_config(other).get("spans_key") == key:
            raise ValueError(
                f"[{name}] {other} writes doc.spans[{key!r}] too, and the later component replaces "
                "the spans. Set another spans_key in one of them"
            )
    config = nlp.config.interpolate()
    for note in find_losses(config, nlp.vocab):
        warnings.warn(note, stacklevel=3)
    vectors = config["initialize"]["vectors"]
    if not vectors or model.name != "linear_chain":
        return
    models: Any = (pipe.model for _, pipe in nlp.pipeline if hasattr(pipe, "model"))
    if not any(node.name == "static_vectors" for each in models for node in each.walk()):
        warnings.warn(
            f"[{name}] the model is a linear chain over features, and reads no word vectors: "
            f"[initialize] vectors = {vectors!r} has no effect. For a network that reads them, see "
            "`python -m spacy bcrf init --help`, or set vectors = null",
            stacklevel=3,
        )


PARTIAL = ("attribute_ruler",)
"""Factories of components that set an attribute of some tokens only."""


def check_output(nlp: Language, name: str, codec: Codec, texts: Sequence[str]) -> None:
    """Raise ValueError if no prediction of a component can appear in the pipeline's documents.

    texts: of training documents.
    """
    docs = [nlp.make_doc(text) for text in texts if text]
    who = "the tokenizer" if docs and all(map(codec.is_preset, docs)) else None
    for other in nlp.pipe_names[: nlp.pipe_names.index(name)] if name in nlp.pipe_names else ():
        meta = nlp.get_pipe_meta(other)
        ours = getattr(nlp.get_pipe(other), "codec", None)
        assigned = meta.assigns if ours is None else [f"token.{ours.settings.get('attribute')}"]
        if meta.factory not in PARTIAL and codec.is_hidden_by(assigned):
            who = who or f"the earlier component {other!r}"
    if who is not None:
        raise ValueError(
            f"[{name}] {who} sets {codec.what} of all tokens, which overwrite = false keeps: no "
            f"prediction would appear. Set components.{name}.overwrite = true"
        )


def note_cost(name: str, codec: Codec) -> Iterator[str]:
    """Yield a note if a chain has too many tags for fast transitions."""
    n_tags = len(codec.tags) // codec.n_chains
    if n_tags > MANY_TAGS:
        yield (
            f"[{name}] {len(codec.labels):,} labels have {n_tags:,} tags, and time and memory grow "
            f"with the square of them: training takes about {SECONDS * n_tags**2:.1g} s a word and "
            f"{BYTES * n_tags**2 >> 20:,} MiB. Merge labels or take bcrf_spans, whose cost is "
            'linear in them; scheme = "BIO" halves the tags'
        )


def report_layers(name: str, codec: Codec, chosen: str, lost: str) -> None:
    """Log the description of the chosen layers. Warn of what they leave out and cost."""
    if chosen:
        logger.info("[%s] %s", name, chosen)
    if lost:
        warnings.warn(f"[{name}] {lost}", stacklevel=3)
    for note in note_cost(name, codec):
        warnings.warn(note, stacklevel=3)


def fit_first_chains(
    pipe: Component, get_examples: Callable[[], Iterable[Example]], held_out: HeldOut
) -> None:
    """Train the first chains of `two_pass`, after `scan_corpus`. They read the corpus once more."""
    model = pipe.labeling.model
    chains = [chain for chain in sparse_chains(model) if chain.first]
    if chains:
        examples = held_out.leave_out(list(get_examples()))
        docs, gold, ops = [eg.predicted for eg in examples], pipe.read_gold(examples), model.ops
        gold.leave_out_rejections(docs)
        for chain in chains:
            chain.fit_first(docs, ops.to_numpy(gold.tags), pipe.codec.tags)


def _check_corpus(pipe: Component, corpus: Corpus) -> None:
    """Compare labels with the training data. ValueError for none or unknown ones. Warns of gaps."""
    name, codec = pipe.name, pipe.codec
    nothing = f"[{name}] {{}}none of the {corpus.n_docs} training documents has {codec.what}. "
    if not codec.labels:
        raise ValueError(
            f"{nothing.format('no labels: ')}{codec.where_lost}Annotate the documents, call "
            f"add_label, or set initialize.components.{name}.labels"
        )
    if missing := sorted(codec.find_missing()):
        raise ValueError(
            f"[{name}] exclusive has the label {', '.join(missing)}, but the labels are "
            f"{', '.join(codec.labels)}; for more, set initialize.components.{name}.labels"
        )
    # Without a corpus, nlp.initialize passes one document without annotation.
    if not corpus.labels and corpus.n_docs > 1:
        warnings.warn(f"{nothing.format('')}Training cannot learn the labels", stacklevel=3)
    if unknown := sorted(corpus.labels.difference(codec.labels)):
        raise ValueError(
            f"[{name}] the examples have unknown labels: {', '.join(unknown)}. The component has "
            f"{', '.join(codec.labels)}"
        )
    if corpus.n_trimmed:
        warnings.warn(
            f"[{name}] {corpus.n_trimmed:,} spans of the training data start or end on whitespace. "
            "Training trims them, and evaluation does not. `python -m spacy bcrf debug` names the "
            "first ones",
            stacklevel=3,
        )
    for note in corpus.differences.note(f"[{name}] the training data"):
        warnings.warn(note, stacklevel=3)
    if unused := sorted(corpus.annotated - corpus.used):
        warnings.warn(
            f"[{name}] annotated_labels has {', '.join(unused)}, but no span of the training data "
            "has this label. Check the spelling",
            stacklevel=3,
        )
