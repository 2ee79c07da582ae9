"""Train a pipeline, and one for each fold of its corpus.

    python -m models.train CONFIG CORPUS OUTPUT

OUTPUT/final learns all files of CORPUS/train, and those of CORPUS/only/final. Without
CORPUS/dev.spacy, OUTPUT/NAME learns all of them but NAME.spacy, for each fold*.spacy, and the files
of CORPUS/only/NAME. For each CORPUS/kinds/KIND.NAME.spacy, OUTPUT/NAME learns no NAME.spacy and
NAME-*.spacy. The chain learns them in `max_epochs` passes of CONFIG and ends with the last one, so
no document chooses it; or by L-BFGS, with the settings [lbfgs] of CONFIG. With [weights] seeds, the
chain has the mean weights of several seeds, which is their sum at another temperature; with
[weights] step, they are multiples of another STEP. A pipeline that is there, of the same version,
code, config and files, is kept.
"""

import argparse
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_config, load_model_from_config

from bcrf.io.atomic import write_text
from bcrf.io.hashes import hash_files
from bcrf.linear.corpus_loss import CorpusLoss
from bcrf.linear.crfsuite_attributes import Batch
from bcrf.linear.lbfgs import LBFGSSettings, minimize
from bcrf.linear.learner import OnlineLearner
from spacy_bcrf import __version__
from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.loading import find_labelers, make_examples
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.readers.doc_files import read_docs

STEP = 1 / 16
"""Weights of features are multiples of it: files are smaller, since the least become 0."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args(arguments)
    set_extensions()
    args.output.mkdir(parents=True, exist_ok=True)
    identity = identify(args.config, args.corpus)
    parts = {name: path for _, name, path in find_kinds(args.corpus) if name != "final"}
    for name, held_out in {**parts, **find_held_out(args.corpus), "final": None}.items():
        done = args.output / f"{name}.identity"
        if done.exists() and done.read_text("utf8") == identity:
            continue
        print(f"{args.output / name}: learning", flush=True)
        files = [*args.corpus.glob("train/*.spacy"), *args.corpus.glob(f"only/{name}/*.spacy")]
        left = {held_out} | {file for file in files if name in parts and is_part(file, name)}
        nlp = train(args.config, sorted({*files} - left), held_out)
        shutil.rmtree(args.output / name, ignore_errors=True)
        nlp.to_disk(args.output / name)
        write_text(done, identity)


def identify(config: Path, corpus: Path) -> str:
    """Return what decides a pipeline: version, this file, the config, its code, and the corpus."""
    paths = [Path(__file__), config, *config.parent.glob("convert.py"), corpus]
    return " ".join([__version__, *map(hash_files, paths)])


def train(path: Path, files: Iterable[Path], held_out: Path | None) -> Language:
    """Return a pipeline that learned the documents of files.

    It also has the labels of held-out documents, so that the pipelines of all folds share them.
    """
    config = load_config(path)
    nlp = load_model_from_config(config, auto_fill=True)
    docs = [doc for file in files for doc in read_docs(file, nlp.vocab) if len(doc)]
    others = list(read_docs(held_out, nlp.vocab)) if held_out else []
    for pipe in find_labelers(nlp).values():
        for label in sorted(set[str]().union(*map(pipe.codec.find_labels, docs + others))):
            pipe.add_label(label)
    *_, name = nlp.pipe_names
    examples = make_examples(nlp, name, docs)
    passes = config["training"]["max_epochs"]
    fit_sparse_chain(nlp, examples, passes)
    for pipe in find_labelers(nlp).values():
        if "lbfgs" in config:
            fit_closely(pipe, examples, LBFGSSettings(**config["lbfgs"]))
        else:
            weights = config.get("weights", {})
            add_seeds(pipe, examples, passes, weights.get("seeds", 1))
            round_weights(pipe, weights.get("step", STEP))
    return nlp


def add_seeds(pipe: Any, examples: list[Example], passes: int, n_seeds: int) -> None:
    """Learn again with further seeds, and keep the mean weights."""
    chain: Any = sparse_chain(pipe.model)
    learner, docs = chain.learner, [example.predicted for example in examples]
    total = learner.weights.astype("float64")
    for seed in range(1, n_seeds):
        other = OnlineLearner(
            learner.n_tags, learner.n_features, replace(learner.settings, seed=seed)
        )
        other.constrain(pipe.codec.constraints)
        rows, gold = chain.rows(docs, held_out=True), pipe.read_gold(examples)
        rng = np.random.default_rng(seed)
        for _ in range(passes):
            other.fit(chain.drop_features(rows, rng), doc_lengths(docs), gold.tags, 1)
        total += other.weights
    learner.weights = (total / n_seeds).astype(learner.weights.dtype)


def fit_closely(pipe: Any, examples: list[Example], settings: LBFGSSettings) -> None:
    """Minimize the loss of all examples and the regularizers, as CRFsuite does."""
    chain: Any = sparse_chain(pipe.model)
    docs = [example.predicted for example in examples]
    rows, starts = chain.rows(docs)
    batch = Batch(rows, starts, None, doc_lengths(docs))
    sizes = chain.learner.n_tags, chain.learner.n_features
    loss = CorpusLoss(batch, pipe.read_gold(examples).tags, sizes, pipe.codec.constraints)
    chain.learner.weights = minimize(loss, loss.zeros(), settings, lambda *_: None)


def round_weights(pipe: SequenceLabeler, step: float) -> None:
    """Round the weights of features to multiples of a step: most of few words become 0."""
    last: Any = sparse_chain(pipe.model)
    for chain in [last.first.chain, last] if last.first else [last]:
        saved = chain.save()
        chain.load(saved._replace(features=np.round(saved.features / step) * step))


def find_held_out(corpus: Path) -> dict[str, Path]:
    """Return the files of held-out documents by the pipeline that did not learn them.

    ValueError for a dev part beside folds, which one of an older build may be.
    """
    dev = corpus / "dev.spacy"
    folds = sorted((corpus / "train").glob("fold*.spacy"))
    if folds and dev.exists():
        raise ValueError(f"{dev}: {folds[0]} is held out too; remove {corpus} and convert again")
    return {"final": dev} if dev.exists() else {path.stem: path for path in folds}


def is_part(file: Path, name: str) -> bool:
    """Return whether a file of training data has documents of NAME, NAME.spacy or NAME-*.spacy."""
    return f"{file.stem}-".startswith(f"{name}-")


def find_kinds(corpus: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield kinds of documents, pipelines that did not learn them, and their files.

    The name of a file is KIND.NAME.spacy, or KIND.spacy if no pipeline learned its documents.
    """
    for path in sorted((corpus / "kinds").glob("*.spacy")):
        kind, _, name = path.stem.partition(".")
        yield kind, name or "final", path


def read_held_out(corpus: Path, trained: Path) -> Iterator[tuple[Language, list[Doc]]]:
    """Yield pipelines, each with documents that it did not learn."""
    for name, path in find_held_out(corpus).items():
        nlp = spacy.load(trained / name)
        yield nlp, list(read_docs(path, nlp.vocab))


if __name__ == "__main__":
    main()
