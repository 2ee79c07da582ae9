"""Overlapping spans on GENIA and GermEval 2014: scores, speed, and what one chain a label costs.

python -m benchmarks.spans --corpora DIR [--system clusters --system network]
"""

import argparse
import lzma
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import partial
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
from spacy_bcrf.annotation.schemes import read_spans
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.io.text import find_file, read_lines
from spacy_bcrf.layers.potential_sum import sum_potentials
from spacy_bcrf.sparse.cluster_words import load_brown_clusters
from spacy_bcrf.sparse.template_sets import BIOMEDICAL, BROWN, NER

KEY = "sc"
LANG = {"genia": "en", "germeval2014": "de"}
# Templates and passes were chosen on dev.
TEMPLATES = {"genia": BIOMEDICAL, "germeval2014": NER}
PASSES = {"genia": 8, "germeval2014": 6}
NETWORK_PASSES = 7
WEIGHTS = [0.5, 1.0]
"""Of clusters and network in their sum, chosen on GENIA's dev part."""
SYSTEMS = ("sparse", "clusters", "partial", "network", "spancat")
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


def learn(nlp: Any, docs: Sequence[Doc], passes: int, network: bool = False) -> list[float]:
    """Train the only component. RETURNS the processor seconds of each pass."""
    examples = [Example(x, y) for x, y in zip(bare(docs), docs, strict=True)]
    nlp.initialize(lambda: examples)
    optimizer = Adam(0.001, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)
    rng, seconds = random.Random(0), []
    for _ in range(passes):
        rng.shuffle(examples)
        start = time.process_time()
        for batch in minibatch(examples, 32 if network else 128):
            nlp.update(batch, sgd=optimizer, drop=0.1 if network else 0.0)
        seconds.append(time.process_time() - start)
    for _, pipe in nlp.pipeline if network else ():
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


def make_sparse(corpus: str, clusters: bool) -> Any:
    model: dict[str, Any] = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": [*TEMPLATES[corpus], *(BROWN if clusters else ())],
        "objective": "crf",
        "feature_dropout": 0.2,
    }
    if clusters:
        # A dict of words cannot be in a config: "@" names a function there.
        path = Path(tempfile.mkdtemp()) / "brown.tsv"
        found = load_brown_clusters(LANG[corpus])
        path.write_text("".join(f"{w}\t{bits}\n" for w, bits in found.items()), encoding="utf8")
        model["clusters"] = {"brown": str(path)}
    nlp = spacy.blank(LANG[corpus])
    nlp.add_pipe("bcrf_spans", config={"model": model})
    return nlp


def run(folder: Path, corpus: str, systems: Sequence[str]) -> list[dict[str, object]]:
    """Train and score systems on one corpus, in one process and one thread."""
    vocab = spacy.blank(LANG[corpus]).vocab
    parts = {part: read(folder, corpus, part, vocab) for part in ("train", "dev", "test")}
    train, dev, test = parts.values()
    rows, trained = [], {}
    for system in systems:
        if system == "network":
            nlp = spacy.blank(LANG[corpus])
            head = {"@layers": "spacy-bcrf.CRF.v1"}
            nlp.add_pipe("bcrf_spans", config={"model": {**NETWORK, "head": head}})
            seconds = learn(nlp, train, NETWORK_PASSES, network=True)
        elif system == "spancat":
            nlp = spacy.blank(LANG[corpus])
            suggester = {"@misc": "spacy.ngram_range_suggester.v1", "min_size": 1, "max_size": 8}
            nlp.add_pipe("spancat", config={"suggester": suggester})
            seconds = learn(nlp, train, NETWORK_PASSES, network=True)
        else:
            nlp = make_sparse(corpus, system != "sparse")
            given = train
            if system == "partial":
                given = [one_label(doc, i) for i, doc in enumerate(train)]
            seconds = learn(nlp, given, PASSES[corpus])
        found, speed = predict(nlp, test)
        more = {"us/word": f"{speed:.2f}", "s/pass": f"{np.median(seconds):.1f}"}
        if system in ("sparse", "clusters"):
            more["ECE"] = f"{calibration_error(nlp, dev, test):.3f}"
        rows.append(row(system, test, found, **more))
        print(rows[-1], file=sys.stderr, flush=True)
        trained[system] = nlp
    if {"clusters", "network"} <= trained.keys():
        rows.append(
            row("clusters + network", test, add(trained["clusters"], trained["network"], test))
        )
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


def add(one: Any, other: Any, test: Sequence[Doc]) -> list[Doc]:
    """Predict with the sum of the potentials of two components."""
    pipes = [nlp.get_pipe("bcrf_spans") for nlp in (one, other)]
    found = []
    for batch in minibatch(bare(test), 128):
        parts = [pipe.find_potentials(batch) for pipe in pipes]
        tags = pipes[0].decode(sum_potentials(parts, WEIGHTS))
        ends = np.cumsum([len(doc) for doc in batch]) * pipes[0].codec.n_chains
        found += pipes[0].codec.write(batch, np.split(tags, ends[:-1]), [{}] * len(batch))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--corpus", choices=[*LANG], action="append", help="default: both")
    parser.add_argument(
        "--system",
        choices=SYSTEMS,
        action="append",
        help="default: all but spancat; clusters and partial need the package spacy-lookups-data",
    )
    args = parser.parse_args()
    for corpus in args.corpus or LANG:
        systems = [name for name in args.system or SYSTEMS[:-1] if (name, corpus) != UNLABELED]
        rows = in_own_process(partial(run, args.corpora, corpus, systems))
        notes = (
            f"{describe_machine(['numpy', 'spacy', 'thinc'])}\none thread, processor time; train "
            "and test parts, templates and passes chosen on dev; ECE of scores on test after "
            "`calibrate` on dev, 10 bins; partial: one of the labels annotated in each document"
        )
        columns = dict.fromkeys(key for cells in rows for key in cells)
        rows = [dict.fromkeys(columns, "") | cells for cells in rows]
        print_table(f"Overlapping spans, {corpus}", rows, notes, args.csv)
        print()


if __name__ == "__main__":
    main()
