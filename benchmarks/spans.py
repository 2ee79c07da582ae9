"""Overlapping spans on GENIA and GermEval 2014: scores, speed, and what one chain a label costs.

python -m benchmarks.spans --corpora DIR [--system sparse --system best] [--models FOLDER]

With --models, trained pipelines are read from FOLDER if they are there, and written to it if not.
So a long training can run before the timings.
"""

import argparse
import lzma
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Adam

from benchmarks.common import NETWORK, add_options, describe_machine, in_own_process, print_table
from spacy_bcrf.analysis.calibration import calibrate
from spacy_bcrf.analysis.combination import sum_pipelines
from spacy_bcrf.annotation.schemes import read_spans
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.io.text import find_file, read_lines
from spacy_bcrf.sparse.cluster_words import load_brown_clusters
from spacy_bcrf.sparse.template_sets import BIOMEDICAL, BROWN, NER

KEY = "sc"
LANG = {"genia": "en", "germeval2014": "de"}
# Templates, passes, dropout and weights were chosen on dev.
TEMPLATES = {"genia": BIOMEDICAL, "germeval2014": NER}
PASSES = {"genia": 8, "germeval2014": 6}
DROPOUT = {"genia": 0.2, "germeval2014": 0.3}
NETWORK_PASSES = {"genia": 13, "germeval2014": 8}
SPANCAT_STEPS = 3000
BEST = {
    "genia": {"clusters": 0.1, "network": 0.5, "network 2": 0.5},
    "germeval2014": {"clusters": 0.33, "clusters 2": 0.33, "clusters 3": 0.33, "network": 0.2},
}
"""The weights of the systems in the sum "best". A number is a seed."""
SYSTEMS = ("sparse", "clusters", "partial", "network", "best", "spancat")
UNLABELED = ("partial", "germeval2014")
"""`one_label` has the labels of GENIA."""


def read(folder: Path, corpus: str, part: str, vocab: Any) -> list[Doc]:
    """Return the documents of a part, a sentence each."""
    path = find_file(folder / corpus / f"{part}.iob2")
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf8") as file:
        n_columns = len(next(file).split("\t"))
    columns = range(2, n_columns + 1)
    docs = []
    for sentence in read_columns(read_lines(path), ent_columns=[*columns]):
        doc = Doc(vocab, words=sentence.words)
        layers = (sentence.entities, *sentence.layers)
        spans = {span for tags in layers for span in read_spans(tags)}
        doc.spans[KEY] = [Span(doc, *span) for span in sorted(spans)]
        docs.append(doc)
    return docs


def bare(docs: Iterable[Doc]) -> list[Doc]:
    """Return copies with the words alone."""
    return [Doc(doc.vocab, words=[token.text for token in doc]) for doc in docs]


def measure(gold: Sequence[Doc], found: Sequence[Doc]) -> tuple[float, float, float]:
    """Return precision, recall and F in percent: boundaries and label, all spans."""
    sets = [
        [{(s.start, s.end, s.label) for s in doc.spans.get(KEY, ())} for doc in docs]
        for docs in (gold, found)
    ]
    hits = sum(len(a & b) for a, b in zip(*sets, strict=True))
    n_gold, n_found = (sum(map(len, of_docs)) for of_docs in sets)
    precision, recall = hits / max(1, n_found), hits / max(1, n_gold)
    return 100 * precision, 100 * recall, 200 * hits / max(1, n_gold + n_found)


def learn(
    nlp: Any, docs: Sequence[Doc], n_steps: int, batch_size: int, drop: float, seed: int = 0
) -> list[float]:
    """Train the only component. RETURNS the processor seconds of each pass."""
    spacy.util.fix_random_seed(seed)
    examples = [Example(x, y) for x, y in zip(bare(docs), docs, strict=True)]
    nlp.initialize(lambda: examples)
    optimizer = Adam(0.001, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)
    rng, seconds = random.Random(seed), []
    while n_steps > 0:
        rng.shuffle(examples)
        start = time.process_time()
        for batch in islice(minibatch(examples, batch_size), n_steps):
            nlp.update(batch, sgd=optimizer, drop=drop)
            n_steps -= 1
        seconds.append(time.process_time() - start)
    for _, pipe in nlp.pipeline:
        if optimizer.averages:
            with pipe.model.use_params(optimizer.averages):
                averaged = pipe.model.to_bytes()
            pipe.model.from_bytes(averaged)
    return seconds


def predict(nlp: Any, docs: Sequence[Doc]) -> tuple[list[Doc], float]:
    """Return predictions, and processor microseconds a word of a second call."""
    list(nlp.pipe(bare(docs), batch_size=128))  # reads the weights once
    inputs = bare(docs)
    start = time.process_time()
    found = list(nlp.pipe(inputs, batch_size=128))
    return found, (time.process_time() - start) / sum(map(len, docs)) * 1e6


def row(name: str, gold: Sequence[Doc], found: Sequence[Doc], **more: object) -> dict[str, object]:
    p, r, f = measure(gold, found)
    return {"system": name, "P": f"{p:.1f}", "R": f"{r:.1f}", "F": f"{f:.2f}", **more}


def make_sparse(corpus: str, clusters: bool, component: str = "bcrf_spans") -> Any:
    model: dict[str, Any] = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": [*TEMPLATES[corpus], *(BROWN if clusters else ())],
        "objective": "crf",
        "feature_dropout": DROPOUT[corpus],
    }
    if clusters:
        # A dict of words cannot be in a config: "@" names a function there.
        path = Path(tempfile.mkdtemp()) / "brown.tsv"
        found = load_brown_clusters(LANG[corpus])
        path.write_text("".join(f"{w}\t{bits}\n" for w, bits in found.items()), encoding="utf8")
        model["clusters"] = {"brown": str(path)}
    nlp = spacy.blank(LANG[corpus])
    nlp.add_pipe(component, config={"model": model})
    return nlp


def count_steps(docs: Sequence[Doc], passes: int, batch_size: int) -> int:
    return passes * -(-len(docs) // batch_size)


def train(corpus: str, system: str, docs: Sequence[Doc]) -> Any:
    """Return a trained pipeline, whose meta has the processor `seconds` of training."""
    kind, _, number = system.partition(" ")
    seed = int(number or 1) - 1
    if kind in ("network", "spancat"):
        nlp = spacy.blank(LANG[corpus])
        if kind == "network":
            head = {"@layers": "spacy-bcrf.CRF.v1"}
            nlp.add_pipe("bcrf_spans", config={"model": {**NETWORK, "head": head}})
            seconds = learn(nlp, docs, count_steps(docs, NETWORK_PASSES[corpus], 32), 32, 0.2, seed)
        else:
            suggester = {"@misc": "spacy.ngram_range_suggester.v1", "min_size": 1, "max_size": 8}
            nlp.add_pipe("spancat", config={"suggester": suggester})
            seconds = learn(nlp, docs, SPANCAT_STEPS, 32, 0.1)
    else:
        nlp = make_sparse(corpus, kind != "sparse")
        if kind == "partial":
            docs = [one_label(doc, i) for i, doc in enumerate(docs)]
        seconds = learn(nlp, docs, count_steps(docs, PASSES[corpus], 128), 128, 0.0, seed)
    nlp.meta["seconds"] = sum(seconds)
    return nlp


def load_or_train(corpus: str, system: str, docs: Sequence[Doc], models: Path | None) -> Any:
    path = models / f"{corpus}-{system.replace(' ', '-')}" if models else None
    if path and path.exists():
        return spacy.load(path)
    nlp = train(corpus, system, docs)
    if path:
        nlp.to_disk(path)
    return nlp


def run(
    folder: Path, corpus: str, systems: Sequence[str], models: Path | None
) -> list[dict[str, object]]:
    """Train and score systems on one corpus, in one process and one thread."""
    vocab = spacy.blank(LANG[corpus]).vocab
    parts = {part: read(folder, corpus, part, vocab) for part in ("train", "dev", "test")}
    docs, dev, test = parts.values()
    rows = []
    for system in systems:
        if system == "best":
            weights = BEST[corpus]
            nlps = {name: load_or_train(corpus, name, docs, models) for name in weights}
            nlp = sum_pipelines("bcrf_spans", nlps, list(weights.values()))
            name = " + ".join(f"{weight} {part}" for part, weight in weights.items())
            seconds = sum(part.meta["seconds"] for part in nlps.values())
        else:
            nlp, name = load_or_train(corpus, system, docs, models), system
            seconds = nlp.meta["seconds"]
        found, speed = predict(nlp, test)
        more = {"us/word": f"{speed:.2f}", "s to train": f"{seconds:.0f}", "ECE": ""}
        if system in ("sparse", "clusters", "best"):
            more["ECE"] = f"{calibration_error(nlp, dev, test):.3f}"
        rows.append(row(name, test, found, **more))
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def one_label(doc: Doc, i: int) -> Doc:
    """Return a document that annotates one label, in turn."""
    labels = ("DNA", "RNA", "cell_line", "cell_type", "protein")
    copy = bare([doc])[0]
    label = labels[i % len(labels)]
    copy.spans[KEY] = [
        Span(copy, s.start, s.end, s.label_) for s in doc.spans[KEY] if s.label_ == label
    ]
    copy._.annotated_labels = [label]
    return copy


def calibration_error(nlp: Any, dev: Sequence[Doc], test: Sequence[Doc]) -> float:
    """Return the expected calibration error of scores on test, after `calibrate` on dev."""
    calibrate(nlp, dev, by="label")
    p, right = [], []
    for doc, gold in zip(nlp.pipe(bare(test)), test, strict=True):
        known = {(s.start, s.end, s.label) for s in gold.spans[KEY]}
        p += doc.spans[KEY].attrs["scores"].tolist()
        right += [(s.start, s.end, s.label) in known for s in doc.spans[KEY]]
    bins = (np.array(p) * 10).clip(0, 9).astype(int)
    return sum(
        abs(np.mean(np.array(p)[bins == k]) - np.mean(np.array(right)[bins == k]))
        * (bins == k).mean()
        for k in np.unique(bins)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--corpus", choices=[*LANG], action="append", help="default: both")
    parser.add_argument(
        "--system",
        choices=SYSTEMS,
        action="append",
        help="default: all; clusters, partial and best need the package spacy-lookups-data",
    )
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="keep trained pipelines here")
    args = parser.parse_args()
    machine = describe_machine(["numpy", "spacy", "thinc"])
    for corpus in args.corpus or LANG:
        systems = [name for name in args.system or SYSTEMS if (name, corpus) != UNLABELED]
        rows = in_own_process(partial(run, args.corpora, corpus, systems, args.models))
        notes = (
            "one thread, processor time; train and test parts; templates, passes, dropout and "
            "weights chosen on dev; ECE of scores on test after `calibrate` on dev, 10 bins; "
            "partial: one of the labels annotated in each document; spancat: n-grams of 1 to 8 "
            f"words, {SPANCAT_STEPS:,} steps of 32 sentences"
        )
        title = f"Overlapping spans, {corpus}"
        print_table(title, rows, f"{machine}\n{notes}", args.csv)
        print()


if __name__ == "__main__":
    main()
