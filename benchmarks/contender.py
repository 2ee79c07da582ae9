"""Training, scores and times of one contender of `benchmarks.pipeline`.

Each function runs in a process of its own. Times are processor times. With one thread they equal
wall-clock times on a quiet machine, and other load does not change them.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import spacy
from spacy.cli.train import train as spacy_train
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc
from spacy.training import Corpus, Example
from spacy.training.loop import create_train_batches
from spacy.util import minibatch, registry

from spacy_bcrf.loading import annotate_before
from spacy_bcrf.pipeline.calibration import Calibration, measure_reliability

LAST = "model-last"
BEST = "model-best"
ROUNDS = 5


def train(config: Path, output: Path) -> None:
    """Run `spacy train config --output output` with its progress on stderr."""
    with redirect_stdout(sys.stderr):
        spacy_train(config, output, use_gpu=-1)


def score(run: Path, corpora: dict[str, Path], metric: str) -> dict[str, float]:
    """Return the metric in percent on dev and test, of the last step and of the best on dev."""
    nlp = spacy.load(run / LAST)
    scores = {}
    for part in ("dev", "test"):
        scores[part] = 100 * nlp.evaluate(Corpus(corpora[part])(nlp))[metric]
    best = spacy.load(run / BEST)
    scores["best dev"] = 100 * best.meta["performance"][metric]
    scores["best test"] = 100 * best.evaluate(Corpus(corpora["test"])(best))[metric]
    return scores


def measure_speed(run: Path, corpora: dict[str, Path], steps: int) -> dict[str, float]:
    """Return the words/s of prediction from tokenized Docs, and of training."""
    nlp = spacy.load(run / LAST)
    passes = [read_docs(nlp, corpora["dev"]) for _ in range(4)]
    predict = [seconds_of(partial(exhaust, nlp.pipe(docs))) for docs in passes]
    n_words = sum(map(len, passes[0]))
    return {
        "predict": n_words / median(predict[1:]),
        "train": training_speed(nlp, corpora["train"], steps),
    }


def training_speed(nlp: Language, corpus: Path, steps: int, n_timed: int = 100) -> float:
    """Return the words/s over batches drawn evenly from the whole training.

    Batch sizes grow in training, so the first batches are no sample.
    """
    settings = registry.resolve(nlp.config.interpolate()["training"], schema=ConfigSchemaTraining)
    batches = create_train_batches(nlp, Corpus(corpus), settings["batcher"], 0)
    sample = [batch for _, batch in islice(batches, 0, steps, max(1, steps // n_timed))]
    # The first updates allocate the optimizer's state and do not count.
    for batch in sample[:3]:
        nlp.update(batch, drop=settings["dropout"], sgd=settings["optimizer"])
    n_words, start = 0, process_time()
    for batch in sample[3:]:
        nlp.update(batch, drop=settings["dropout"], sgd=settings["optimizer"])
        n_words += sum(len(example.predicted) for example in batch)
    return n_words / (process_time() - start)


def calibrate(run: Path, corpora: dict[str, Path], component: str) -> dict[str, float]:
    """Return the expected calibration error on test, and the share of correct predictions.

    The errors are raw, and at the temperatures fitted on dev and on test itself.
    """
    nlp = spacy.load(run / LAST)
    pipe: Any = nlp.get_pipe(component)
    parts = {}
    for part in ("dev", "test"):
        examples = list(Corpus(corpora[part])(nlp))
        docs = annotate_before(nlp, component, [example.predicted for example in examples])
        pairs = zip(docs, examples, strict=True)
        parts[part] = Calibration(pipe, [Example(doc, eg.reference) for doc, eg in pairs])
    temperatures = {"raw": 1.0, "fitted": parts["dev"].fit(), "fitted on test": parts["test"].fit()}
    errors = {
        what: measure_reliability(parts["test"].confidence(temperature), parts["test"].correct)
        for what, temperature in temperatures.items()
    }
    shares = {f"correct on {part}": float(parts[part].correct.mean()) for part in parts}
    return {what: reliability.error for what, reliability in errors.items()} | shares


def confidence_cost(run: Path, corpora: dict[str, Path], component: str) -> dict[str, float]:
    """Return the median seconds of prediction on dev by option of `annotate`."""
    choices = {"nothing": [], "confidence": ["confidence"], "entropy": ["entropy"]}
    pipelines = {
        what: spacy.load(run / LAST, config={"components": {component: {"annotate": annotate}}})
        for what, annotate in choices.items()
    }
    seconds: dict[str, list[float]] = {what: [] for what in choices}
    for _ in range(ROUNDS + 1):
        for what, nlp in pipelines.items():
            docs = read_docs(nlp, corpora["dev"])
            seconds[what].append(seconds_of(partial(exhaust, nlp.pipe(docs))))
    # The first round is a warm-up.
    return {what: median(times[1:]) for what, times in seconds.items()}


def profile(run: Path, corpora: dict[str, Path], component: str) -> dict[str, float]:
    """Return the median us/word of each step of prediction on dev.

    The steps are tok2vec, and the component's scores, decoding and writing of annotation.
    """
    nlp = spacy.load(run / LAST)
    pipe: Any = nlp.get_pipe(component)
    tok2vec: Any = nlp.get_pipe("tok2vec")
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS + 1):
        seconds = dict.fromkeys(("vectors", "scores", "decoding", "writing"), 0.0)
        docs = read_docs(nlp, corpora["dev"])
        for batch in minibatch(docs, nlp.batch_size):
            seconds["vectors"] += seconds_of(partial(exhaust, tok2vec.pipe(batch)))
            scores = seconds_of(partial(pipe.model.predict, batch))
            start = process_time()
            predictions = pipe.predict(batch)
            seconds["scores"] += scores
            seconds["decoding"] += process_time() - start - scores
            start = process_time()
            pipe.set_annotations(batch, predictions)
            seconds["writing"] += process_time() - start
        rounds.append(seconds)
    n_words = sum(map(len, docs))
    # The first round is a warm-up.
    return {step: median(times[step] for times in rounds[1:]) / n_words * 1e6 for step in seconds}


def read_docs(nlp: Language, corpus: Path) -> list[Doc]:
    """Read the tokenized Docs of a corpus without annotation."""
    return [example.predicted for example in Corpus(corpus)(nlp)]


def seconds_of(run: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = process_time()
    run()
    return process_time() - start


def exhaust(docs: Iterator[Doc]) -> None:
    """Consume an iterator."""
    for _ in docs:
        pass
