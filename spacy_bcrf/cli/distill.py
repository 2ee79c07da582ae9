"""`python -m spacy bcrf distill`"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np
import spacy
import typer
from spacy.cli._util import Arg, Opt, setup_gpu
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from tqdm import tqdm

from spacy_bcrf import __version__
from spacy_bcrf.io.atomic import check_new_folder, replacing, replacing_folder
from spacy_bcrf.io.identity import hash_files, keep_identity
from spacy_bcrf.io.text import text_suffix

from .errors import RESUMES, exit_on
from .options import PipeName

if TYPE_CHECKING:
    from spacy_bcrf.chain import Marginals

JSON = (".jsonl", ".ndjson", ".json")


class Shard(NamedTuple):
    """Documents and their targets. find_target: of the documents with these indices."""

    docs: list[Doc]
    find_target: Callable[[Sequence[int]], Marginals]


def distill_cli(
    teacher: Annotated[
        str,
        Arg(
            help="Trained pipeline; or JSON lines with the entities of several annotators or with "
            "weighted candidates"
        ),
    ],
    texts: Annotated[
        Path | None,
        Arg(help="Raw texts for the pipeline to label: .txt, JSON lines or .spacy, or a folder"),
    ] = None,
    output: Annotated[
        Path | None, Opt("--output", "-o", help="New folder to save the pipeline to")
    ] = None,
    pipe: PipeName = None,
    templates: Annotated[
        str | None,
        Opt(
            "--templates", help="Template set of the sparse chain (default: pos for tags, else ner)"
        ),
    ] = None,
    passes: Annotated[int, Opt(help="Passes over the documents", min=1)] = 5,
    rate: Annotated[float, Opt("--rate", help="Learning rate of AdaGrad")] = 0.3,
    batch_size: Annotated[int, Opt("--batch-size", help="Documents in a step", min=1)] = 1,
    shard: Annotated[int, Opt(help="Documents in a shard", min=1)] = 2000,
    work: Annotated[
        Path | None,
        Opt(help="Folder that keeps the labeled shards (default: beside the output until the end)"),
    ] = None,
    lang: Annotated[
        str, Opt("--lang", "-l", help="Language, for JSON lines as the teacher")
    ] = "xx",
    seed: Annotated[int, Opt("--seed", help="Random seed")] = 0,
    gpu_id: Annotated[int, Opt("--gpu-id", "-g", help="GPU ID of the teacher or -1 for CPU")] = -1,
) -> None:
    """
    Train a small sparse linear chain on the soft labels of a teacher: the marginals of a trained
    pipeline on raw texts, or the annotation of a crowd or another tool, weighted by the estimated
    reliability of each annotator. Run the same command again to resume after an interruption.
    """

    with exit_on(ValueError, TypeError, OSError, stopped=RESUMES):
        if output is None:
            raise ValueError("expected --output, a new folder to save the pipeline to")
        check_new_folder(output)
        folder = work or output.with_name(f".{output.name}.shards")
        is_annotation = text_suffix(Path(teacher)) in JSON
        if is_annotation and texts is not None:
            raise ValueError(f"expected a pipeline to label {texts}, got {teacher}")
        if not is_annotation and texts is None:
            raise ValueError(
                f"expected texts for the pipeline {teacher} to label, or JSON lines with "
                "annotation in its place"
            )
        if is_annotation:
            nlp, name, shards = learn_from_annotators(Path(teacher), lang, templates or "ner", rate)
        else:
            assert texts is not None
            setup_gpu(gpu_id, silent=True)
            nlp, name, shards = learn_from_pipeline(
                teacher, pipe, texts, folder, shard, templates, rate
            )
        losses = train(nlp, name, shards, passes, batch_size, seed)
        with replacing_folder(output) as part:
            nlp.to_disk(part)
        if work is None:
            shutil.rmtree(folder, ignore_errors=True)
    typer.echo(f"{name}: mean loss a document {losses[0]:.3f} to {losses[-1]:.3f}")
    typer.echo(f"stored in {output}")


Shards = list[Callable[[], Shard]]


def train(
    nlp: Language, name: str, shards: Shards, passes: int, batch_size: int, seed: int
) -> list[float]:
    """Train a sparse chain, with one shard in memory. RETURNS the mean loss of each pass."""
    from spacy_bcrf.pipeline.distillation import learn

    pipe: Any = nlp.get_pipe(name)
    order = np.random.default_rng(seed)
    losses = []
    with tqdm(total=passes * len(shards), desc=f"[{name}] learning", unit="shards") as bar:
        for number in range(passes):
            total, n_docs = 0.0, 0
            for i in order.permutation(len(shards)).tolist():
                docs, find_target = shards[i]()
                (loss,) = learn(
                    pipe, docs, find_target, passes=1, batch_size=batch_size, seed=seed + number
                )
                total, n_docs = total + loss * len(docs), n_docs + len(docs)
                bar.update()
            losses.append(total / n_docs)
    return losses


def make_student(
    base: Language, factory: str, name: str, config: dict[str, Any], templates: str, rate: float
) -> Language:
    """Return a pipeline with the tokenizer of another one and a sparse chain. It has no weights."""
    nlp = spacy.blank(
        base.lang or "xx", config={"nlp": {"tokenizer": base.config["nlp"]["tokenizer"]}}
    )
    tokenizer, of_base = cast(Any, nlp.tokenizer), cast(Any, base.tokenizer)
    if hasattr(of_base, "to_bytes"):
        tokenizer.from_bytes(of_base.to_bytes())
    model = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": templates,
        "objective": "crf",
        "optimizer": "adagrad",
        "rate": rate,
    }
    nlp.add_pipe(factory, name, config={**config, "model": model})
    return nlp


def initialize(nlp: Language, name: str, labels: Iterable[str], docs: Sequence[Doc]) -> None:
    """Make the weights of a student. Training adds the features of further documents."""
    pipe: Any = nlp.get_pipe(name)
    for label in labels:
        pipe.add_label(label)
    with warnings.catch_warnings():
        # The targets are the annotation.
        warnings.filterwarnings("ignore", message=".* Training cannot learn the labels")
        nlp.initialize(lambda: [Example(doc, doc) for doc in docs])


# A pipeline as the teacher


def learn_from_pipeline(
    model: str,
    name: str | None,
    texts: Path,
    folder: Path,
    size: int,
    templates: str | None,
    rate: float,
) -> tuple[Language, str, Shards]:
    """Label texts, or read the labels of an earlier run. RETURNS an initialized student."""
    from spacy_bcrf.pipeline.combination import own_tok2vec

    from .labeler import load_labeler

    base, name, teacher = load_labeler(model, name)
    own_tok2vec(base, name)
    factory = base.get_pipe_meta(name).factory
    if templates is None:
        templates = "pos" if factory == "bcrf_tagger" else "ner"
    of_teacher = {k: v for k, v in base.get_pipe_config(name).items() if k != "factory"}
    # The targets have the temperature of the teacher. The other settings fit its model alone.
    of_teacher |= {"temperature": 1.0, "threshold": 0.0, "control": None, "calibration": None}
    nlp = make_student(base, factory, name, of_teacher, templates, rate)
    key = describe_run(base, name, teacher.labels, texts, size)
    paths = [folder / f"{i:06d}" for i in label_shards(base, name, texts, folder, size, key)]
    shards: Shards = [partial(read_shard, path, nlp) for path in paths]
    initialize(nlp, name, teacher.labels, shards[0]().docs)
    return nlp, name, shards


def describe_run(
    base: Language, name: str, labels: Sequence[str], texts: Path, size: int
) -> dict[str, Any]:
    """Return what determines the shards: the hashes of teacher and texts, and their size."""
    assert base.path is not None
    return {
        "version": __version__,
        "teacher": hash_files(Path(base.path)),
        "component": name,
        "texts": hash_files(texts),
        "labels": list(labels),
        "documents in a shard": size,
    }


def label_shards(
    base: Language, name: str, texts: Path, folder: Path, size: int, key: dict[str, Any]
) -> list[int]:
    """Write the missing shards, each at once. RETURNS the numbers of all shards.

    ValueError if the folder has shards of another run, or if there are no texts.
    """
    from .labeler import annotate_before
    from .texts import read_texts

    keep_identity(folder / "manifest.json", key)
    numbers: list[int] = []
    n_done = 0
    reading = iter(read_texts(texts, base))
    with tqdm(desc="labeling", unit="docs", delay=1) as bar:
        while docs := list(islice(reading, size)):
            path = folder / f"{len(numbers):06d}"
            numbers.append(len(numbers))
            if path.with_suffix(".npz").exists():
                n_done += 1
            else:
                write_shard(path, base, name, list(annotate_before(base, name, docs)))
            bar.update(len(docs))
    if not numbers:
        raise ValueError(f"{texts}: there are no texts")
    if n_done:
        typer.echo(f"{folder}: {n_done:,} of {len(numbers):,} shards are labeled already")
    return numbers


def write_shard(path: Path, base: Language, name: str, docs: list[Doc]) -> None:
    """Write the words and the teacher's chain of documents. The .npz file completes the shard."""
    from spacy_bcrf.pipeline.distillation import teacher_chain

    pipe: Any = base.get_pipe(name)
    chain = teacher_chain(pipe, docs)
    unary, transitions = map(pipe.model.ops.to_numpy, (chain.unary, chain.transitions))
    with replacing(path.with_suffix(".spacy")) as part:
        DocBin(["ORTH", "SPACY"], docs=docs).to_disk(part)
    with replacing(path.with_suffix(".npz")) as part:
        np.savez_compressed(part, unary=unary, transitions=transitions)


def read_shard(path: Path, nlp: Language) -> Shard:
    """Read a shard. The targets are the marginals of the chain."""
    from spacy_bcrf.annotation.arrays import doc_lengths
    from spacy_bcrf.chain import CRF, Potentials

    docs = list(DocBin().from_disk(path.with_suffix(".spacy")).get_docs(nlp.vocab))
    with np.load(path.with_suffix(".npz")) as arrays:
        unary, transitions = arrays["unary"], arrays["transitions"]
    chain = Potentials(unary, transitions, doc_lengths(docs))
    return Shard(docs, lambda at: CRF().marginals(chain.take(at), edges=True))


# Annotators as the teacher


def learn_from_annotators(
    path: Path, lang: str, templates: str, rate: float
) -> tuple[Language, str, Shards]:
    """Aggregate annotation. RETURNS an initialized student with one shard."""
    from spacy_bcrf.chain import Marginals
    from spacy_bcrf.corpora.formats.annotators import read_annotators
    from spacy_bcrf.pipeline.crowd import aggregate

    nlp = make_student(spacy.blank(lang), "bcrf_ner", "ner", {}, templates, rate)
    annotated = list(tqdm(read_annotators(path, nlp), "reading", delay=1, unit="docs"))
    found = {c.label for one in annotated for cs in one.by_annotator.values() for c in cs}
    if not found:
        raise ValueError(f"{path}: none of the {len(annotated):,} records has an entity")
    docs = [one.doc for one in annotated]
    initialize(nlp, "ner", sorted(found), docs)
    pipe: Any = nlp.get_pipe("ner")
    crowd = aggregate(annotated, pipe.codec)
    for annotator, (n_docs, recall, precision) in crowd.reliability.items():
        typer.echo(
            f"{annotator or 'no name'}: {n_docs:,} documents, estimated recall {recall:.3f} and "
            f"precision {precision:.3f} of entity tokens"
        )

    def find_target(at: Sequence[int]) -> Marginals:
        unary, edges = zip(*(crowd.targets[i] for i in at), strict=True)
        return Marginals(np.concatenate(unary), np.concatenate(edges))

    return nlp, "ner", [lambda: Shard(docs, find_target)]
