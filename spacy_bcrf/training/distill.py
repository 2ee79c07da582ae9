"""`distill`: a small sparse linear chain that learns soft labels of a pipeline or of sources."""

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np
import spacy
from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Optimizer
from tqdm import tqdm

from bcrf.chain import CRF, Marginals, Potentials, viterbi
from bcrf.kernels import Array
from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.formats.votes import DocVotes, VotedDoc
from spacy_bcrf.corpora.identity import keep_identity
from spacy_bcrf.layers.linear_chain import is_chain_alone
from spacy_bcrf.layers.protocol import get_hooks
from spacy_bcrf.loading import annotate_before, find_labeler
from spacy_bcrf.pipeline.codecs.entities import EntityCodec
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.soft_gold import update_towards
from spacy_bcrf.result import Result
from spacy_bcrf.sparse.features import SCORE
from spacy_bcrf.weak.aggregate import aggregate
from spacy_bcrf.weak.aggregated import Aggregated
from spacy_bcrf.weak.array_shards import load_shard, save_shard, write_missing
from spacy_bcrf.weak.sources import Source
from spacy_bcrf.weak.vote_marginals import vote_marginals

from .combine import own_tok2vec

HELD_OUT = 20
"""One document of this many in a shard is not learned, and compares student and teacher."""


@dataclass(repr=False)
class Distilled(Result):
    """A student. nlp: its pipeline. name: of the component. losses: mean loss a document by pass.

    agreement: F against the teacher's predictions by label, on `n_held_out` documents that it did
    not learn. sources: see `aggregate`. n_reused: shards that an earlier call had labeled.
    """

    nlp: Language
    name: str
    losses: list[float]
    agreement: dict[str, float]
    n_held_out: int
    n_shards: int
    n_reused: int = 0
    sources: Aggregated | None = None

    def __repr__(self) -> str:
        return f"{self.name}: mean loss a document {self.losses[0]:.3f} to {self.losses[-1]:.3f}"

    def lines(self) -> Iterator[str]:
        """Yield the figures of sources, the agreement by label, and the loss, as text."""
        if self.sources is not None:
            yield from self.sources.lines()
        if self.agreement:
            yield f"agreement with the teacher on {self.n_held_out:,} texts not learned, F"
            yield from (f"  {label}: {100 * f:.1f}" for label, f in self.agreement.items())
        yield repr(self)

    def rows(self) -> list[tuple[str, ...]]:
        rows = [(label, f"{f:.3f}") for label, f in self.agreement.items()]
        return [("label", "agreement"), *rows]


class TeacherShard(NamedTuple):
    """Documents and their targets. find_target: of the documents with these indices.

    held_out: documents that are not learned. best: the teacher's labelings (N,) of them.
    """

    docs: list[Doc]
    find_target: Callable[[Sequence[int]], Marginals]
    held_out: Sequence[Doc] = ()
    best: Array | None = None


TeacherShards = list[Callable[[], TeacherShard]]


def distill(
    teacher: Language,
    docs: Iterable[Doc],
    pipe: str | None = None,
    *,
    templates: str | None = None,
    passes: int = 5,
    rate: float = 0.3,
    batch_size: int = 1,
    shard_size: int = 2000,
    folder: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    seed: int = 0,
    corpus: str = "the corpus",
) -> Distilled:
    """Train a sparse linear chain on the marginals of a trained pipeline on documents.

    docs: without annotation, from the teacher's tokenizer. templates: a set, by default the
    features of a teacher that is a sparse chain, without its `scores`; else "pos" for tags, "ner"
    for spans. rate: of AdaGrad. batch_size: documents in a step. shard_size: documents in memory.
    folder: keeps the labeled shards, so that the same call resumes. identity: of teacher and
    documents, see `keep_identity`. corpus: its name, for errors. ValueError without documents.
    """
    name, labeler = find_labeler(teacher, pipe)
    own_tok2vec(teacher, name)
    factory = teacher.get_pipe_meta(name).factory
    features: dict[str, Any] = {"templates": templates}
    if templates is None:
        features = _find_features(labeler, teacher.get_pipe_config(name)["model"])
    of_teacher = {k: v for k, v in teacher.get_pipe_config(name).items() if k != "factory"}
    # The targets have the temperature of the teacher. The other settings fit its model alone.
    of_teacher |= {"temperature": 1.0, "calibration": None, "calibrated_on": []}
    of_teacher |= {k: v for k, v in (("threshold", 0.0), ("control", None)) if k in of_teacher}
    nlp = _make_student(teacher, factory, name, of_teacher, features, rate)
    with TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        target = Path(place)
        if identity is not None:
            keep_identity(target / "manifest.json", identity)
        write = partial(_write_shard, teacher, name)
        paths, n_reused = write_missing(docs, target, shard_size, write, "labeling")
        if not paths:
            raise ValueError(f"{corpus}: there are no texts")
        shards: TeacherShards = [partial(_read_shard, path, nlp) for path in paths]
        cast(Any, nlp.get_pipe(name)).codec.state = labeler.codec.state
        student = _train(nlp, name, labeler.labels, shards, passes, batch_size, seed)
    student.n_reused = n_reused
    return student


def distill_votes(
    voted: Sequence[VotedDoc],
    nlp: Language,
    *,
    seed: int = 0,
    corpus: str = "the corpus",
    **options: Any,
) -> Distilled:
    """Train a sparse linear chain on the votes of several sources, or the weighted ones of one.

    voted: see `corpora.formats.votes`. nlp: the pipeline whose tokenizer made the
    documents. options: see `distill`. ValueError without any entity.
    """
    every = [found for one in voted for found in one.by_source.values()]
    labels = sorted({vote.label for found in every for vote in found.votes})
    if not labels:
        raise ValueError(f"{corpus}: none of the {len(voted):,} records has an entity")
    names = sorted({name for one in voted for name in one.by_source})
    docs = [one.doc for one in voted]
    if len(names) > 1:
        by_doc = {id(one.doc): one.by_source for one in voted}

        def find(name: str, docs: Sequence[Doc]) -> list[DocVotes | None]:
            return [by_doc[id(doc)].get(name) for doc in docs]

        sources = [Source(name, partial(find, name)) for name in names]
        with TemporaryDirectory() as folder:
            output = Path(folder) / "shards"
            output.mkdir()
            merged = aggregate(docs, sources, labels, output, corpus=corpus)
            student = distill_aggregated(output, nlp, labels, seed=seed, **options)
        student.sources = merged
        return student
    codec: EntityCodec = cast(Any, EntityCodec)("BILUO")
    codec.set_labels(labels, nlp.vocab.strings)
    targets = [
        vote_marginals(one, found.votes, codec) for one, found in zip(voted, every, strict=True)
    ]

    def find_target(at: Sequence[int]) -> Marginals:
        unary, edges = zip(*(targets[i] for i in at), strict=True)
        return Marginals(np.concatenate(unary), np.concatenate(edges))

    return _distill_shards(
        [lambda: TeacherShard(docs, find_target)], nlp, labels, seed=seed, **options
    )


def distill_aggregated(
    folder: Path, nlp: Language, labels: Sequence[str], **options: Any
) -> Distilled:
    """Train a sparse linear chain on what `aggregate` wrote to a folder. options: see `distill`."""
    paths = [path.with_suffix("") for path in sorted(folder.glob("*.npz"))]
    if not paths:
        raise ValueError(f"{folder}: has no shards; expected the output of aggregate")
    shards: TeacherShards = [partial(_read_shard, path, nlp, True) for path in paths]
    return _distill_shards(shards, nlp, labels, **options)


def _distill_shards(
    shards: TeacherShards,
    nlp: Language,
    labels: Sequence[str],
    *,
    templates: str = "ner",
    passes: int = 5,
    rate: float = 0.3,
    batch_size: int = 1,
    seed: int = 0,
) -> Distilled:
    student = _make_student(nlp, "bcrf_ner", "ner", {}, {"templates": templates}, rate)
    return _train(student, "ner", labels, shards, passes, batch_size, seed)


def learn_targets(
    pipe: SequenceLabeler,
    docs: Sequence[Doc],
    find_target: Callable[[Sequence[int]], Marginals],
    *,
    passes: int,
    batch_size: int | None = None,
    drop: float = 0.0,
    sgd: Optimizer | None = None,
    seed: int = 0,
    progress: str | None = None,
) -> list[float]:
    """Learn from targets in random order. RETURNS the mean loss a document of each pass.

    find_target: returns the target marginals of the documents with these indices. batch_size: by
    default 1 for a sparse linear chain, else 8. progress: title of the bar, None without.
    """
    if batch_size is None:
        batch_size = 8 if get_hooks(pipe.model).learn is None else 1
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


def teacher_chain(
    teacher: SequenceLabeler, docs: Sequence[Doc], temperature: float | None = None
) -> Potentials:
    """Return the chain of a component's probabilities. temperature: by default the component's."""
    return Potentials.join(
        [
            teacher.posterior(teacher.find_potentials(batch), temperature)
            for batch in minibatch(docs, BATCH_SIZE)
        ]
    )


def _train(
    nlp: Language,
    name: str,
    labels: Iterable[str],
    shards: TeacherShards,
    passes: int,
    batch_size: int,
    seed: int,
) -> Distilled:
    """Make the weights of a sparse chain, and train them, with one shard in memory."""
    pipe: Any = nlp.get_pipe(name)
    for label in labels:
        pipe.add_label(label)
    docs = shards[0]().docs
    with warnings.catch_warnings():
        # The targets are the annotation. Training adds the features of further documents.
        warnings.filterwarnings("ignore", message=".* Training cannot learn the labels")
        nlp.initialize(lambda: [Example(doc, doc) for doc in docs])
    order = np.random.default_rng(seed)
    losses = []
    with tqdm(total=passes * len(shards), desc=f"[{name}] learning", unit="shards") as bar:
        for number in range(passes):
            total, n_docs = 0.0, 0
            for i in order.permutation(len(shards)).tolist():
                docs, find_target, *_ = shards[i]()
                (loss,) = learn_targets(
                    pipe, docs, find_target, passes=1, batch_size=batch_size, seed=seed + number
                )
                total, n_docs = total + loss * len(docs), n_docs + len(docs)
                bar.update()
            losses.append(total / n_docs)
    return Distilled(nlp, name, losses, *_compare(pipe, shards), len(shards))


def _compare(student: SequenceLabeler, shards: TeacherShards) -> tuple[dict[str, float], int]:
    """Return F against the teacher's best labelings by label, and the number of documents."""
    scores, n_docs = [PRFScore() for _ in student.labels], 0
    for make in shards:
        *_, docs, best = make()
        if best is not None:
            n_docs += len(docs)
            labelings = student.decode(student.find_potentials(docs)), best
            found, gold = (
                list(zip(*student.codec.predictions(tags, doc_lengths(docs)), strict=True))
                for tags in labelings
            )
            for k, score in enumerate(scores):
                score.score_set(*({s for s in of if s[2] == k} for of in (found, gold)))
    return {k: s.fscore for k, s in zip(student.labels, scores, strict=True) if len(s)}, n_docs


def _find_features(teacher: SequenceLabeler, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a student's features, which a sparse chain shares with its student."""
    if not is_chain_alone(teacher.model):
        return {"templates": "pos" if teacher.codec.spans is None else "ner"}
    features = {k: model[k] for k in ("templates", "clusters", "gazetteers") if model.get(k)}
    if isinstance(features["templates"], list):
        features["templates"] = [t for t in features["templates"] if f"{SCORE}." not in t]
    return features


def _make_student(
    base: Language,
    factory: str,
    name: str,
    config: dict[str, Any],
    features: Mapping[str, Any],
    rate: float,
) -> Language:
    """Return a pipeline with the tokenizer of another one and a sparse chain. It has no weights.

    features: the settings `templates`, `clusters` and `gazetteers`.
    """
    nlp = spacy.blank(
        base.lang or "xx", config={"nlp": {"tokenizer": base.config["nlp"]["tokenizer"]}}
    )
    tokenizer, of_base = cast(Any, nlp.tokenizer), cast(Any, base.tokenizer)
    if hasattr(of_base, "to_bytes"):
        tokenizer.from_bytes(of_base.to_bytes())
    model = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        **features,
        "objective": "crf",
        "optimizer": "adagrad",
        "rate": rate,
        # Soft targets regularize already.
        "feature_dropout": 0.0,
    }
    nlp.add_pipe(factory, name, config={**config, "model": model})
    return nlp


def _write_shard(teacher: Language, name: str, path: Path, docs: list[Doc]) -> None:
    pipe: Any = teacher.get_pipe(name)
    before = list(annotate_before(teacher, name, docs))
    chain = teacher_chain(pipe, before)
    unary, transitions = map(pipe.model.ops.to_numpy, (chain.unary, chain.transitions))
    save_shard(path, before, unary=unary, transitions=transitions)


def _read_shard(path: Path, nlp: Language, is_merged: bool = False) -> TeacherShard:
    """Return documents and targets. is_merged: whether `aggregate` wrote them."""
    keys = ("unary", "transitions", "weights") if is_merged else ("unary", "transitions")
    stored, (unary, transitions, *weights) = load_shard(path, nlp.vocab, keys)
    # Entities of `aggregate` would restrict the student.
    docs = [copy_words(doc, nlp.vocab) for doc in stored]
    lengths = doc_lengths(docs)
    n_chains = max(1, len(unary) // max(1, int(lengths.sum())))
    chain = Potentials(unary, transitions, lengths.repeat(n_chains))
    by_doc = [of_doc for each in weights for of_doc in np.split(each, lengths.cumsum())]

    learned, compared = (
        [i for i in range(len(docs)) if (i % HELD_OUT == HELD_OUT - 1) == is_compared]
        for is_compared in (False, True)
    )

    def of_teacher(at: Iterable[int]) -> Potentials:
        return chain.take([i * n_chains + c for i in at for c in range(n_chains)])

    def find_target(at: Sequence[int]) -> Marginals:
        marginals = CRF().marginals(of_teacher(learned[i] for i in at), edges=True)
        if not is_merged:
            return marginals
        of_token = np.concatenate([by_doc[learned[i]] for i in at])
        of_edge = np.maximum(of_token, np.append(of_token[1:], 0))
        unary, edges = marginals.unary, marginals.edges
        return Marginals(of_token[:, None] * unary, of_edge[:, None, None] * edges)

    best = viterbi(of_teacher(compared))[0] if compared else None
    return TeacherShard([docs[i] for i in learned], find_target, [docs[i] for i in compared], best)
