"""Training of sparse linear chains, compared with CRFsuite on the same features.

python -m benchmarks.online --corpora DIR
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bcrf import kernels
from bcrf.chain import viterbi
from bcrf.io.text import find_file, read_lines
from bcrf.linear.learner import OnlineLearner, OnlineSettings
from benchmarks.timing import interleave
from lab.dataset import Dataset, spans
from lab.machine import describe_machine
from lab.options import add_options, need
from lab.processes import in_own_process
from lab.scores import span_f
from lab.tables import print_table
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.sparse.template_sets import get_templates

TRAIN, TEST = "conll2000/train.txt", "conll2000/test.txt"

OURS = {
    "averaged perceptron": OnlineSettings("perceptron", rate=1),
    "SAPO, n = 5": OnlineSettings("sapo"),
    "SAPO, n = 5, beam": OnlineSettings("sapo", search="beam"),
    "CRF": OnlineSettings("crf", averaged=False, decay=0.2, l2=0.5),
    "CRF, averaged": OnlineSettings("crf", l2=0.2),
    "MIRA, averaged": OnlineSettings("mira", n=1),
    "MIRA, n = 5, averaged": OnlineSettings("mira"),
}
CRFSUITE: dict[str, tuple[str, dict[str, Any]]] = {
    "averaged perceptron": ("ap", {}),
    "l2sgd": ("l2sgd", {"c2": 1.0}),
    "lbfgs": ("lbfgs", {"c2": 1.0}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--passes", type=int, default=30)
    parser.add_argument("--rich-passes", type=int, default=10, help="passes with rich features")
    args = parser.parse_args()
    if not args.corpora:
        parser.error("--corpora or the environment variable BCRF_CORPORA is needed")
    rows = []
    for name in CRFSUITE:
        rows.append(in_own_process(measure_crfsuite, args.corpora, name, args.passes))
    for name in OURS:
        templates = "crfsuite-chunking"
        rows.append(in_own_process(measure_ours, args.corpora, name, templates, args.passes))
    for name in ("SAPO, n = 5", "CRF, averaged"):
        rows.append(in_own_process(measure_ours, args.corpora, name, "chunking", args.rich_passes))
    notes = (
        f"{describe_machine(['numpy', 'python-crfsuite'])}\n"
        "CoNLL-2000 chunking, 8,936 sentences; each row in a process of its own, 1 thread unless "
        "stated; median and least seconds a pass; conlleval's F on test after the last pass\n"
        "standard features: CRFsuite's templates; rich: the template set chunking, chosen with the "
        "settings on the last 936 training sentences\n"
        "lbfgs stops when it converges"
    )
    print_table("Online learning", rows, notes, args.csv)
    print()
    rows = [in_own_process(measure_prediction, args.corpora)]
    notes = (
        "one thread, median of 15 interleaved rounds over the test part, CRFsuite's templates, "
        "averaged perceptrons; ours: feature extraction from hashes of strings, scores, Viterbi; "
        "CRFsuite: scores and Viterbi from lists of feature strings, which Python has made before"
    )
    print_table("Prediction", rows, notes)
    print()
    rows = [
        in_own_process(measure_pipeline, args.corpora, templates, args.rich_passes)
        for templates in ("crfsuite-chunking", "chunking")
    ]
    notes = (
        "bcrf_chunker alone with default settings; words/s of nlp.pipe over Docs with tags, "
        "feature extraction included: median and best of five rounds over the test part; "
        "spacy.load of the saved pipeline: median of five rounds, and the first"
    )
    print_table("In a pipeline", rows, notes)


def measure_pipeline(corpora: Path, templates: str, passes: int) -> dict[str, object]:
    """Measure F, prediction speed, file size and loading time of a chunker."""
    import spacy
    from spacy.tokens import Doc
    from spacy.training import Example

    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": templates}
    nlp.add_pipe("bcrf_chunker", config={"model": model})
    train, test = load(corpora / TRAIN), load(corpora / TEST)

    def make_doc(sentence: Sentence, **annotation: Any) -> Doc:
        return Doc(
            nlp.vocab,
            words=sentence.words,
            tags=[tag or "" for tag in sentence.tags],
            **annotation,
        )

    def example(sentence: Sentence) -> Example:
        gold = make_doc(sentence, ents=sentence.entities)
        gold.spans["chunks"] = list(gold.ents)
        return Example(make_doc(sentence), gold)

    examples = [example(sentence) for sentence in train]
    nlp.initialize(lambda: examples)
    for _ in range(passes):
        for start in range(0, len(examples), 500):
            nlp.update(examples[start : start + 500])
    tested = [example(sentence) for sentence in test]
    score = nlp.evaluate(tested)["spans_chunks_f"]
    words = sum(len(sentence.words) for sentence in test)
    speeds = []
    for _ in range(5):
        docs = [make_doc(sentence) for sentence in test]
        start_time = time.perf_counter()
        for _ in nlp.pipe(docs, batch_size=1000):
            pass
        speeds.append(words / (time.perf_counter() - start_time))
    with tempfile.TemporaryDirectory() as folder:
        nlp.to_disk(folder)
        size = (Path(folder) / "bcrf_chunker" / "model").stat().st_size
        seconds = []
        for _ in range(5):
            start_time = time.perf_counter()
            spacy.load(folder)
            seconds.append(time.perf_counter() - start_time)
    return {
        "templates": templates,
        "passes": passes,
        "F": f"{100 * score:.2f}",
        "words/s": f"{statistics.median(speeds):,.0f}",
        "best": f"{max(speeds):,.0f}",
        "file, MB": f"{size / 1e6:.2f}",
        "load, s": f"{statistics.median(seconds):.3f}",
        "first": f"{seconds[0]:.3f}",
    }


def measure_ours(corpora: Path, name: str, templates: str, passes: int) -> dict[str, object]:
    """Measure the seconds of each pass and the F of an online learner."""
    train, test = load(corpora / TRAIN), load(corpora / TEST)
    data = Dataset(train, get_templates(templates), spans)
    rows, lengths = data.read(test)
    model = OnlineLearner(len(data.tags), len(data.dictionary), OURS[name], len(train))
    seconds = []
    start = time.perf_counter()

    def after(n: int, loss: float) -> None:
        nonlocal start
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()

    model.fit(data.rows, data.lengths, data.gold, passes, after)
    tags = data.split(viterbi(model.potentials(rows, lengths))[0], lengths)
    features = "standard" if templates.startswith("crfsuite") else "rich"
    return row("spacy-bcrf", name, features, len(data.dictionary), seconds, test, tags)


def measure_crfsuite(corpora: Path, name: str, passes: int) -> dict[str, object]:
    """Measure the seconds of each pass and the F of an algorithm of CRFsuite."""
    pycrfsuite = need("pycrfsuite")
    train, test = load(corpora / TRAIN), load(corpora / TEST)
    data = Dataset(train, get_templates("crfsuite-chunking"), spans)
    algorithm, settings = CRFSUITE[name]
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    trainer.set_params(settings if algorithm == "lbfgs" else {**settings, "max_iterations": passes})
    for items, sentence in zip(to_strings(data.rows, data.lengths), train, strict=True):
        trainer.append(items, spans(sentence))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        tags = [tagger.tag(items) for items in to_strings(*data.read(test))]
    seconds = [float(iteration["time"]) for iteration in trainer.logparser.iterations]
    return row("CRFsuite", name, "standard", len(data.dictionary), seconds, test, tags)


def measure_prediction(corpora: Path) -> dict[str, object]:
    """Measure the words a second of feature extraction, scores and Viterbi, and of CRFsuite."""
    pycrfsuite = need("pycrfsuite")
    kernels.set_threads(1)
    train, test = load(corpora / TRAIN), load(corpora / TEST)
    data = Dataset(train, get_templates("crfsuite-chunking"), spans)
    rows, lengths = data.read(test)
    model = OnlineLearner(len(data.tags), len(data.dictionary), OURS["averaged perceptron"], 1)
    model.fit(data.rows, data.lengths, data.gold, 1, lambda n, loss: None)
    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    trainer.set_params({"max_iterations": 1})
    for items, sentence in zip(to_strings(data.rows, data.lengths), train, strict=True):
        trainer.append(items, spans(sentence))
    extract, score = data.extractor(test), data.scorer(test, model)
    sentences = to_strings(rows, lengths)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        seconds = interleave(
            {
                "features": extract,
                "features, scores by the rows": lambda: model.potentials(extract(), lengths),
                "scores by word type": score,
                "scores by word type and Viterbi": lambda: viterbi(score()),
                "CRFsuite": lambda: [tagger.tag(items) for items in sentences],
            },
            15,
        )
    n = int(lengths.sum())
    return {name: f"{n / second:,.0f} words/s" for name, second in seconds.items()}


def to_strings(rows: Any, lengths: Any) -> list[list[list[str]]]:
    """Name each feature by its row, as strings for CRFsuite, and add bias, start and end."""
    numbers = rows.rows.astype(str).tolist()
    sentences, token = [], 0
    for length in lengths.tolist():
        items = []
        for i in range(length):
            features = numbers[rows.starts[token] : rows.starts[token + 1]]
            features.append("bias")
            features += ["start"] * (i == 0) + ["end"] * (i == length - 1)
            items.append(features)
            token += 1
        sentences.append(items)
    return sentences


def row(
    who: str,
    name: str,
    features: str,
    n_features: int,
    seconds: list[float],
    test: list[Sentence],
    tags: list[list[str]],
) -> dict[str, object]:
    """Make a row of the table from the seconds of each pass and the predicted tags."""
    return {
        "trained by": f"{who}: {name}",
        "features": f"{features}, {n_features:,}",
        "passes": len(seconds),
        "s/pass": f"{statistics.median(seconds):.3f}",
        "least": f"{min(seconds):.3f}",
        "F": f"{span_f([spans(sentence) for sentence in test], tags):.2f}",
    }


def load(path: Path) -> list[Sentence]:
    """Read the sentences of a file with chunk tags in the third column."""
    return list(read_columns(read_lines(find_file(path)), tag_column=2))


if __name__ == "__main__":
    main()
