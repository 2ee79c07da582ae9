"""Accuracy, speed and calibration of spaCy's components, CRFsuite and ours, on all corpora.

    python -m benchmarks.accuracy --corpora DIR
    python -m benchmarks.accuracy --corpora DIR --tasks wnut17 --only sparse crfsuite --seeds 3

"stacked" is a sparse chain with what a user can bring: clusters of other texts, lists of names and
predictions, which `experiments.word_resources` writes to the folder `resources` of --out.
STACKED has its options, all chosen on dev.

--speed times the pipelines that earlier runs saved, with the present code and one thread. Run it on
a quiet machine: trainings of other systems slow the times of a table.

--out keeps one JSON file a run, so the command can be interrupted and resumed. A run of another
version, commit or config is repeated. `benchmarks.pages` draws the scores and speeds.
"""

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from bcrf import kernels
from bcrf.chain import Potentials, viterbi
from bcrf.io.atomic import write_text
from benchmarks.inputs import NETWORK
from lab import ROOT
from lab.labeling_tasks import CHUNKS, TASKS, LabelingTask
from lab.machine import describe_machine, find_commit
from lab.options import add_options, need
from lab.processes import in_own_process
from lab.tables import mean_and_deviation, print_table
from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.pipeline.calibration import Calibration, measure_reliability
from spacy_bcrf.pipeline.factories import SEGMENTER_MODEL
from spacy_bcrf.pipeline.sequence_labeler import Prediction
from spacy_bcrf.sparse.template_sets import SETS, get_templates

SYSTEMS = ("spacy", "crfsuite", "sparse", "clusters", "stacked", "neural", "hybrid")
SPARSE = ("sparse", "clusters", "stacked")
"""Sparse linear chains: alone, with the Brown clusters of `assets/english`, with more resources."""
CLUSTERS = ROOT / "assets/english/clusters.tsv.xz"
HYBRID = "spacy-bcrf.Hybrid.v1"
PASSES = 10
"""Passes of the sparse chain and of CRFsuite."""
SPACY_COMPONENTS = {"bcrf_ner": "ner", "bcrf_chunker": "ner", "bcrf_tagger": "tagger"}
"""spaCy's component for each of ours. It has none for words."""
SPACY_SCORES = {"ner": "ents_f", "tagger": "tag_acc"}

CRFSUITE = {"c2": 1.0}
"""Settings of CRFsuite other than the number of passes."""

VECTORS = ("md200", "md800", "glove200", "glove800")
"""k-means clusters of vectors, with their number."""
PATHS = {"ark": "(4,6,10,20)"}
"""Lengths of the prefixes that templates read, of clusters with paths."""
LISTS = (
    "firstname_5k",
    "lastname_5000",
    "education_university",
    "government_government_agency",
    "sports_sports_team",
    "business_sponsor",
    "location_country",
)
TERMS = (
    "gene_symbols",
    "gene_names",
    "proteins",
    "nucleic_acids",
    "cells",
    "cell_lines",
    "chemicals",
)
STACKED: dict[str, dict[str, Any]] = {
    "wnut17": {"clusters": ["ark", "md200", "md800"], "feature_dropout": 0.3},
    "uner": {"clusters": VECTORS, "lists": LISTS, "feature_dropout": 0.2},
    "jnlpba": {
        "clusters": ["bio200", "bio800"],
        "lists": TERMS,
        "templates": [
            "exact.gene_symbols[-1..1]",
            "tag[-2..2]",
            "tag[-1..0]|tag[0..1]",
            "tag[-1]|tag[0]|tag[1]",
            "_.predicted_entities[-1..1]",
        ],
        "feature_dropout": 0.2,
        "objective": "mira",
    },
    "ewt-pos": {"clusters": ["ark", *VECTORS], "l2": 2.0, "feature_dropout": 0.1},
    "conll2000": {"clusters": ["ark", *VECTORS], "objective": "mira"},
}
"""Resources and options of the stacked chain of a task. The system "clusters" has the others."""

Numbers = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    parser.add_argument("--steps", type=int, default=3000, help="training steps of the networks")
    parser.add_argument("--out", type=Path, default=ROOT / "training/accuracy", metavar="DIR")
    parser.add_argument("--speed", action="store_true", help="only time the saved pipelines")
    args = parser.parse_args()
    if args.speed:
        return print_speeds(args)
    rows = []
    for task in args.tasks:
        for system in filter(partial(is_available, TASKS[task]), args.only):
            runs = [
                load_run(args.out, args.corpora, task, system, seed, args.steps)
                for seed in range(args.seeds)
            ]
            rows.append(make_row(task, system, runs))
            print(*rows[-1].values(), sep="  ", flush=True)
    if not rows:
        raise SystemExit(f"no system of {', '.join(args.only)} can learn {', '.join(args.tasks)}")
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"{args.seeds} seed(s), mean ± deviation, on test; networks: {args.steps} steps, the best "
        f"on dev but for CoNLL-2000 and JNLPBA; chains: {PASSES} passes; processor time of one "
        "thread, of CRFsuite without features"
    )
    print_table("All systems", rows, notes, args.csv)


def print_speeds(args: argparse.Namespace) -> None:
    """Print the microseconds a word of the pipelines of seed 0 that `--out` has."""
    kernels.set_threads(1)
    rows = []
    for task in args.tasks:
        for system in filter(partial(is_available, TASKS[task]), args.only):
            path = saved_pipeline(args.out, task, system, 0, find_length(system, args.steps))
            if path.exists():
                nlp = spacy.load(path)
                chosen = TASKS[task]
                examples = read(nlp, chosen, "test", system, args.corpora, args.out / "corpora")
                cost = f"{microseconds_per_word(nlp, examples):.1f}"
                rows.append({"corpus": task, "system": system, "us/word": cost})
                print(*rows[-1].values(), sep="  ", flush=True)
    if not rows:
        raise SystemExit(f"{args.out} has no saved pipelines: run without --speed first")
    print_table("speed of saved pipelines", rows, describe_machine(["spacy", "thinc"]), args.csv)


def find_length(system: str, steps: int) -> int:
    """Return the length of a training: passes, or steps of a network."""
    return PASSES if system in (*SPARSE, "crfsuite") else steps


def saved_pipeline(out: Path, task: str, system: str, seed: int, length: int) -> Path:
    """Return the folder of the pipeline that a run measures."""
    # The averaged weights of a sparse chain do not overfit early. dev is in the training part of
    # some tasks, and then it chooses nothing.
    is_last = system in SPARSE or TASKS[task].learns_dev
    name = "model-last" if is_last else "model-best"
    return out / f"{task}-{system}-{length}-{seed}" / name


def is_available(task: LabelingTask, system: str) -> bool:
    """Return whether a system can learn a task here."""
    if system == "spacy":
        return task.factory in SPACY_COMPONENTS
    if system == "clusters":
        return f"{task.templates}-brown" in SETS
    if system == "stacked":
        return any(TASKS[name] is task for name in STACKED)
    return system != "hybrid" or HYBRID in registry.architectures.get_all()


def load_run(out: Path, corpora: Path, task: str, system: str, seed: int, steps: int) -> Numbers:
    """Return the numbers of a run. Train if there are none of this code and config yet."""
    length = find_length(system, steps)
    path = out / f"{task}-{system}-{length}-{seed}.json"
    origin = find_origin(task, system, seed, length)
    saved = json.loads(path.read_text()) if path.exists() else {}
    if saved.get("origin") != origin:
        measure = measure_crfsuite if system == "crfsuite" else measure_pipeline
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = in_own_process(measure, out, corpora, task, system, seed, length)
        saved = {"origin": origin, "numbers": numbers}
        write_text(path, json.dumps(saved))
    return saved["numbers"]


def find_origin(task: str, system: str, seed: int, length: int) -> dict[str, str]:
    """Return what determines a run: version and commit of the code, and a hash of the config."""
    if system == "crfsuite":
        config = json.dumps([linear_chain(TASKS[task]), CRFSUITE, seed, length])
    else:
        # The folders do not change the result.
        folders = Path("corpora"), Path("cache"), Path("resources")
        config = make_config(task, system, seed, length, *folders).to_str()
    digest = hashlib.sha256(config.encode()).hexdigest()
    return {"version": version("spacy-bcrf"), "commit": find_commit(), "config": digest}


def make_row(task: str, system: str, runs: list[Numbers]) -> dict[str, str]:
    """Format the runs of a system on a task. "-": not measured."""

    def cell(key: str, digits: int) -> str:
        values = [run[key] for run in runs if key in run]
        return mean_and_deviation(values, digits) if values else "-"

    return {
        "corpus": task,
        "system": system,
        "dev": cell("dev", 2),
        "score": cell("score", 2),
        "us/word": f"{mean(run['us/word'] for run in runs):.1f}",
        "training, s": f"{mean(run['training'] for run in runs):.0f}",
        "ECE": cell("ece", 3),
    }


@registry.readers("spacy-bcrf.benchmarks.accuracy.v1")
def make_reader(
    task: str, part: str, system: str, corpora: str, cache: str
) -> Callable[[Language], Iterator[Example]]:
    """Return a corpus reader for `spacy train`."""
    return lambda nlp: iter(read(nlp, TASKS[task], part, system, Path(corpora), Path(cache)))


def read(
    nlp: Language, task: LabelingTask, part: str, system: str, corpora: Path, cache: Path
) -> list[Example]:
    """Read the examples of a part, in the annotation of the system's component."""
    parts = ["train", "dev"] if part == "train" and task.learns_dev else [part]
    docs = [doc for name in parts for doc in task.read(corpora, name, cache, nlp.vocab)]
    if system == "spacy":
        for doc in docs:
            to_spacy(doc, task)
    examples = task.examples(nlp, docs)
    if system == "stacked":
        task.add_predictions([eg.predicted for eg in examples], cache.parent / "resources")
    return examples


def to_spacy(doc: Doc, task: LabelingTask) -> None:
    """Move gold annotation to where spaCy's component reads it: chunks to `ents`, pos to tag."""
    if task.factory == "bcrf_chunker":
        doc.ents = list(doc.spans.get(CHUNKS, []))
    elif task.factory == "bcrf_tagger":
        for token in doc:
            token.tag_ = token.pos_


def make_config(
    task: str,
    system: str,
    seed: int,
    length: int,
    corpora: Path,
    cache: Path,
    resources: Path = Path("resources"),
) -> Any:
    """Return a training config. length: steps of a network, passes of a sparse chain."""
    chosen = TASKS[task]
    if system == "spacy":
        component = SPACY_COMPONENTS[chosen.factory]
        config = init_config(lang=chosen.lang, pipeline=[component], optimize="efficiency")
        score = SPACY_SCORES[component]
    else:
        is_segmenter = chosen.factory == "bcrf_segmenter"
        neural = SEGMENTER_MODEL if is_segmenter else NETWORK
        models = {
            "sparse": linear_chain(chosen),
            "clusters": chain_with_clusters(task),
            "stacked": chain_with_resources(task, resources),
            "neural": neural,
            "hybrid": {**neural, "@architectures": HYBRID, "templates": chosen.templates},
        }
        config = chosen.make_nlp(models[system]).config.copy()
        score = chosen.score
    reader = {"@readers": "spacy-bcrf.benchmarks.accuracy.v1", "task": task, "system": system}
    places = {"corpora": str(corpora), "cache": str(cache)}
    config["corpora"] = {part: {**reader, "part": part, **places} for part in ("train", "dev")}
    training = config["training"]
    training |= {"train_corpus": "corpora.train", "dev_corpus": "corpora.dev", "patience": 0}
    training |= {"seed": seed, "score_weights": {score: 1.0}}
    if system in SPARSE:
        training |= {"max_epochs": length, "max_steps": 0, "eval_frequency": 10**9}
        training["batcher"] = {"@batchers": "spacy.batch_by_sequence.v1", "size": 500}
    else:
        training |= {"max_epochs": 0, "max_steps": length, "eval_frequency": 200}
    config["system"] = {"seed": seed, "gpu_allocator": None}
    return config


def linear_chain(task: LabelingTask) -> dict[str, Any]:
    """Return the architecture of the sparse linear chain of a task."""
    return {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": task.templates,
        "objective": "crf",
    }


def chain_with_clusters(task: str) -> dict[str, Any]:
    """Return the chain of a task with Brown clusters, if there are templates for them."""
    model = linear_chain(TASKS[task])
    templates = f"{model['templates']}-brown"
    if templates in SETS:
        model |= {"templates": templates, "clusters": {"brown": str(CLUSTERS)}}
    # Pairs of tags help universal tags alone, on dev.
    return {**model, "order": 2 if task == "ewt-pos" else 1}


def chain_with_resources(task: str, folder: Path) -> dict[str, Any]:
    """Return the chain of a task with the resources and options of STACKED, read in a folder."""
    model, options = chain_with_clusters(task), dict(STACKED.get(task, {}))
    clusters, lists, more = (options.pop(key, ()) for key in ("clusters", "lists", "templates"))
    model["templates"] = [
        *get_templates(model["templates"]),
        *(f"cluster.{name}{PATHS.get(name, '')}[-1..1]" for name in clusters),
        *(f"gazetteer.{name}[-1..1]" for name in lists),
        *more,
    ]
    files = {name: str(folder / f"{name}.tsv") for name in clusters}
    model["clusters"] = model.get("clusters", {}) | files
    model["gazetteers"] = {name: str(folder / "lists" / f"{name}.txt") for name in lists}
    return model | options


def measure_pipeline(
    out: Path, corpora: Path, task: str, system: str, seed: int, length: int
) -> Numbers:
    """Train a pipeline with `spacy train` and measure it on test."""
    chosen, cache = TASKS[task], out / "corpora"
    config = make_config(task, system, seed, length, corpora, cache, out / "resources")
    path = saved_pipeline(out, task, system, seed, length)
    start = time.process_time()
    train_pipeline(config, path.parent)
    seconds = time.process_time() - start
    best = spacy.load(path)
    examples = read(best, chosen, "test", system, corpora, cache)
    score = SPACY_SCORES[SPACY_COMPONENTS[chosen.factory]] if system == "spacy" else chosen.score
    numbers = {
        "score": 100 * best.evaluate(examples)[score],
        "training": seconds,
        "us/word": microseconds_per_word(best, examples),
    }
    if not chosen.learns_dev:
        dev = read(best, chosen, "dev", system, corpora, cache)
        numbers["dev"] = 100 * best.evaluate(dev)[score]
    if system != "spacy" and chosen.factory != "bcrf_segmenter":
        pipe: Any = best.get_pipe(chosen.factory)
        calibration = Calibration(pipe, examples)
        confidence = calibration.confidence(1.0)
        numbers["ece"] = measure_reliability(confidence, calibration.correct).error
    return numbers


def train_pipeline(config: Any, folder: Path) -> None:
    """Train a pipeline as `spacy train` does."""
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train

    folder.mkdir(parents=True, exist_ok=True)
    train(init_nlp(config, use_gpu=-1), folder, use_gpu=-1, stdout=sys.stderr, stderr=sys.stderr)


def microseconds_per_word(nlp: Language, examples: list[Example], rounds: int = 3) -> float:
    """Return the median processor time of `nlp.pipe` over tokenized documents, by gold word."""
    times = []
    for _ in range(rounds + 1):
        docs = [example.predicted.copy() for example in examples]
        start = time.process_time()
        for _ in nlp.pipe(docs):
            pass
        times.append(time.process_time() - start)
    # The first round is a warm-up.
    return 1e6 * median(times[1:]) / sum(len(example.reference) for example in examples)


def measure_crfsuite(
    out: Path, corpora: Path, task: str, system: str, seed: int, length: int
) -> Numbers:
    """Train CRFsuite, by stochastic gradient descent, on the features of the sparse chain.

    Our component decodes the tags to annotation, with a valid labeling in place of an invalid one.
    Times do not include the features.
    """
    pycrfsuite = need("pycrfsuite")
    chosen, cache = TASKS[task], out / "corpora"
    nlp = chosen.make_nlp(linear_chain(chosen))
    train = read(nlp, chosen, "train", system, corpora, cache)
    random.Random(seed).shuffle(train)
    nlp.initialize(lambda: train)
    pipe: Any = nlp.get_pipe(chosen.factory)
    chain = sparse_chain(pipe.model)
    assert chain

    def items(docs: list[Doc]) -> list[list[list[str]]]:
        """Return the features of each token of each document."""
        rows, starts = chain.rows(docs)
        tokens = [list(map(str, rows[a:b])) for a, b in pairwise(starts)]
        ends = doc_lengths(docs).cumsum()
        return [tokens[end - len(doc) : end] for doc, end in zip(docs, ends, strict=True)]

    trainer = pycrfsuite.Trainer(algorithm="l2sgd", verbose=False)
    trainer.set_params({**CRFSUITE, "max_iterations": length})
    docs = [example.predicted for example in train]
    gold = np.split(complete_tags(pipe.read_gold(train).tags), doc_lengths(docs).cumsum()[:-1])
    for features, tags in zip(items(docs), gold, strict=True):
        trainer.append(features, list(map(str, tags)))
    model = str(out / f"{task}-{system}-{length}-{seed}.crfsuite")
    start = time.process_time()
    trainer.train(model)
    seconds = time.process_time() - start
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    examples = read(nlp, chosen, "test", system, corpora, cache)
    docs = [example.predicted for example in examples]
    sequences = items(docs)
    start = time.process_time()
    found = [int(tag) for sequence in sequences for tag in tagger.tag(sequence)]
    tagging = time.process_time() - start
    n_tags, lengths = len(pipe.tags), doc_lengths(docs)
    unary = 100 * np.eye(n_tags, dtype="float32")[found]
    potentials = Potentials(unary, np.zeros((n_tags, n_tags), dtype="float32"), lengths)
    potentials = potentials.constrain(pipe.codec.constraints)
    by_doc = np.split(viterbi(potentials)[0], lengths.cumsum()[:-1])
    written = pipe.write(docs, [Prediction(tags, {}) for tags in by_doc])
    pairs = [Example(doc, eg.reference) for doc, eg in zip(written, examples, strict=True)]
    return {
        "score": 100 * pipe.score(pairs)[chosen.score],
        "training": seconds,
        "us/word": 1e6 * tagging / sum(len(example.reference) for example in examples),
    }


def complete_tags(tags: NDArray) -> NDArray[np.int32]:
    """Return gold tags. ValueError if a tag is unknown, because CRFsuite learns from known tags."""
    if tags.dtype == bool or (tags < 0).any():
        raise ValueError("CRFsuite needs complete annotation, but there are unknown gold tags")
    return tags


if __name__ == "__main__":
    main()
