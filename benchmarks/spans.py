"""Overlapping spans on GENIA and GermEval 2014: scores, speed, and what one chain a label costs.

python -m benchmarks.spans --corpora DIR [--system sparse --system best] [--models FOLDER]

With --models, trained pipelines are read from FOLDER if they are there, and written to it if not.
So a long training can run before the timings. The systems clusters, partial, vectors and best need
the packages spacy-lookups-data, german-nouns and names-dataset.
"""

import argparse
import csv
import gzip
import importlib.util
import lzma
import math
import pickle
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.cli.init_config import init_config
from spacy.strings import StringStore
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_by_spacy
from spacy.util import load_language_data, minibatch, registry
from spacy.vectors import Vectors  # type: ignore[import-not-found]
from thinc.api import Adam

from bcrf.io.text import find_file, read_lines
from bcrf.schemes import read_spans
from benchmarks.inputs import NETWORK
from lab.machine import describe_machine
from lab.options import add_options
from lab.processes import in_own_process
from lab.tables import print_table
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.promises.calibrate import calibrate
from spacy_bcrf.sparse.template_sets import BIOMEDICAL, BROWN, NER
from spacy_bcrf.sparse.word_tables import CLUSTER, COMPOUND
from spacy_bcrf.training.clusters import load_brown_clusters
from spacy_bcrf.training.combine import sum_pipelines

KEY = "sc"
LANG = {"genia": "en", "germeval2014": "de"}
# Templates, passes, dropout and weights were chosen on dev.
TEMPLATES = {"genia": BIOMEDICAL, "germeval2014": NER}
PASSES = {"genia": 8, "germeval2014": 8}
DROPOUT = 0.2
NETWORK_PASSES = {"genia": 13, "germeval2014": 8}
SPANCAT_STEPS = 3000
SUGGESTER = {"@misc": "spacy.ngram_range_suggester.v1", "min_size": 1, "max_size": 8}
BEST = {
    "genia": {"clusters": 0.1, "network": 0.5, "network 2": 0.5},
    "germeval2014": {"vectors": 0.2, "vectors 2": 0.2, "clusters": 0.5},
}
"""The weights of the systems in the sum "best". A number is a seed."""
SYSTEMS = (
    *("sparse", "clusters", "partial", "network", "vectors", "best"),
    *("spancat", "spancat averaged"),
)
LEFT_OUT = {("partial", "germeval2014"), ("vectors", "genia")}
"""`one_label` has the labels of GENIA; tables of names are of German."""
N_SIGNS = 96
"""Dimensions of Brown clusters in vectors."""
NAMES = {"Toponym", "Vorname", "Nachname", "Eigenname", "Abkürzung", "Straßenname"}
"""Kinds of nouns in german-nouns that tell names from others."""


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
    """Return predictions, and processor microseconds a word: the least of three calls."""
    list(nlp.pipe(bare(docs), batch_size=128))  # reads the weights once
    seconds = []
    for _ in range(3):
        inputs = bare(docs)
        start = time.process_time()
        found = list(nlp.pipe(inputs, batch_size=128))
        seconds.append(time.process_time() - start)
    return found, min(seconds) / sum(map(len, docs)) * 1e6


def row(name: str, gold: Sequence[Doc], found: Sequence[Doc], **more: object) -> dict[str, object]:
    p, r, f = measure(gold, found)
    return {"system": name, "P": f"{p:.1f}", "R": f"{r:.1f}", "F": f"{f:.2f}", **more}


def load_tables(lang: str) -> dict[str, dict[str, str]]:
    """Return strings by word, by table.

    brown: clusters of spacy-lookups-data. For German also case: how much more frequent the word is
    with a capital, of the same package; kind: of a noun in Wiktionary, of german-nouns; first and
    last: the rank of a name, in German countries or elsewhere, of names-dataset.
    """
    tables = {"brown": load_brown_clusters(lang)}
    if lang != "de":
        return tables
    logs: Any = load_language_data(registry.lookups.get_all()[lang]["lexeme_prob"])
    tables["case"] = {
        word: f"{round((p - logs.get(word.lower(), -20)) / 1.5)}"
        for word, p in logs.items()
        if word[:1].isupper()
    }
    kinds: dict[str, set[str]] = {}
    with (find_package("german_nouns") / "nouns.csv").open(encoding="utf8", newline="") as file:
        for noun in csv.DictReader(file):
            kind = " ".join(sorted({*noun.pop("pos").split(",")} & NAMES)) or "noun"
            for column, form in noun.items():
                if not column.startswith("genus"):
                    kinds.setdefault(form, set()).add(kind)
    tables["kind"] = {word: "+".join(sorted(found)) for word, found in kinds.items()}
    for table in ("first", "last"):
        path = find_package("names_dataset") / "v3" / f"{table}_names.pkl.gz"
        with gzip.open(path) as names:
            tables[table] = {word: rank(name) for word, name in pickle.load(names).items()}
    return {
        name: {word: value for word, value in table.items() if word.split() == [word]}
        for name, table in tables.items()
    }


def find_package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        sys.exit(f"no package {name}: pip install --no-deps {name.replace('_', '-')}")
    return Path(found.submodule_search_locations[0])


def rank(name: Mapping[str, Mapping[str, int | None]]) -> str:
    """Return the class of a name's best rank in German countries, else in any country."""
    ranks = {country: rank for country, rank in name["rank"].items() if rank}
    german = [ranks[country] for country in ("DE", "AT", "CH") if country in ranks]
    best = min(german or ranks.values(), default=0)
    return f"{'german' if german else 'other'} {math.log2(best) // 2 if best else 'none'}"


def make_vectors(tables: Mapping[str, Mapping[str, str]], strings: StringStore) -> Vectors:
    """Return vectors of words from word tables, a row for each combination of values.

    The prefixes of a path of bits have random signs in N_SIGNS dimensions, which add up. Each value
    of another table has a dimension.
    """
    others = list(tables.values())[1:]
    values = [(k, value) for k, table in enumerate(others) for value in sorted({*table.values()})]
    dimension = {value: N_SIGNS + i for i, value in enumerate(values)}
    rows: dict[tuple[str, ...], int] = {}
    vectors, row_of = [], {}
    for word in {word for table in tables.values() for word in table}:
        key = tuple(t.get(word) or t.get(word.lower(), "") for t in tables.values())
        if key not in rows:
            rows[key] = len(rows)
            vector = np.zeros(N_SIGNS + len(values), dtype="float32")
            bits, *found = key
            for n in sorted({min(n, len(bits)) for n in (4, 6, 10, 20) if bits}):
                rng = np.random.default_rng(zlib.crc32(f"{n} {bits[:n]}".encode()))
                vector[:N_SIGNS] += rng.choice([-0.5, 0.5], N_SIGNS)
            vector[[dimension[k, value] for k, value in enumerate(found) if value]] = 1
            vectors.append(vector)
        row_of[word] = rows[key]
    made = Vectors(data=np.array(vectors), strings=strings)
    for word, row in row_of.items():
        made.add(word, row=row)
    return made


def make_sparse(
    corpus: str, tables: Mapping[str, Mapping[str, str]] = {}, component: str = "bcrf_spans"
) -> Any:
    others = [f"cluster.{name}[-1..1]" for name in tables if name != "brown"]
    if len(tables) > 1:
        compounds = [text.replace(CLUSTER, COMPOUND) for text in (*BROWN, *others)]
        others += [*compounds, "cluster.first[-1..0]|cluster.last[0..1]"]
    model: dict[str, Any] = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": [*TEMPLATES[corpus], *(BROWN if tables else ()), *others],
        "objective": "crf",
        "feature_dropout": DROPOUT,
        "clusters": {},
    }
    # A dict of words cannot be in a config: "@" names a function there.
    folder = Path(tempfile.mkdtemp())
    for name, table in tables.items():
        path = folder / f"{name}.tsv"
        path.write_text("".join(f"{w}\t{value}\n" for w, value in table.items()), encoding="utf8")
        model["clusters"][name] = str(path)
    nlp = spacy.blank(LANG[corpus])
    nlp.add_pipe(component, config={"model": model})
    return nlp


def train_spancat(corpus: str, docs: Sequence[Doc], dev: Sequence[Doc]) -> tuple[Any, list[float]]:
    """Train spancat by `spacy train`, with the config of spaCy's quickstart but for the n-grams.

    The model of the best dev F of all evaluations, one each 200 steps.
    """
    config = init_config(lang=LANG[corpus], pipeline=["spancat"], optimize="efficiency", gpu=False)
    config["components"]["spancat"]["suggester"] = SUGGESTER
    config["training"] |= {"max_steps": SPANCAT_STEPS, "patience": 0}
    with tempfile.TemporaryDirectory() as folder:
        for part, of_part in (("train", docs), ("dev", dev)):
            path = Path(folder) / f"{part}.spacy"
            DocBin(docs=of_part).to_disk(path)
            config["paths"][part] = str(path)
        start = time.process_time()
        nlp, _ = train_by_spacy(init_nlp(config), Path(folder))
        return nlp, [time.process_time() - start]


def count_steps(docs: Sequence[Doc], passes: int, batch_size: int) -> int:
    return passes * -(-len(docs) // batch_size)


def train(corpus: str, system: str, parts: Mapping[str, Sequence[Doc]]) -> Any:
    """Return a trained pipeline, whose meta has the processor `seconds` of training."""
    kind, _, number = system.partition(" ")
    seed = int(number or 1) - 1
    docs, vocab = parts["train"], parts["train"][0].vocab
    if system == "spancat":
        nlp, seconds = train_spancat(corpus, docs, parts["dev"])
    elif system == "spancat averaged":
        nlp = spacy.blank(LANG[corpus])
        nlp.add_pipe("spancat", config={"suggester": SUGGESTER})
        seconds = learn(nlp, docs, SPANCAT_STEPS, 32, 0.1)
    elif kind in ("network", "vectors"):
        nlp = spacy.blank(LANG[corpus], vocab=vocab)
        base: Any = NETWORK["tok2vec"]
        tok2vec = {**base, "pretrained_vectors": kind == "vectors" or None}
        model = {**NETWORK, "tok2vec": tok2vec, "head": {"@layers": "spacy-bcrf.CRF.v1"}}
        nlp.add_pipe("bcrf_spans", config={"model": model})
        seconds = learn(nlp, docs, count_steps(docs, NETWORK_PASSES[corpus], 32), 32, 0.2, seed)
    else:
        nlp = make_sparse(corpus, {} if kind == "sparse" else load_tables(LANG[corpus]))
        if kind == "partial":
            docs = [one_label(doc, i) for i, doc in enumerate(docs)]
        seconds = learn(nlp, docs, count_steps(docs, PASSES[corpus], 128), 128, 0.0, seed)
    nlp.meta["seconds"] = sum(seconds)
    return nlp


def load_or_train(
    corpus: str, system: str, parts: Mapping[str, Sequence[Doc]], models: Path | None
) -> Any:
    path = models / f"{corpus}-{system.replace(' ', '-')}" if models else None
    if path and path.exists():
        return spacy.load(path)
    nlp = train(corpus, system, parts)
    if path:
        nlp.to_disk(path)
    return nlp


def run(
    folder: Path, corpus: str, systems: Sequence[str], models: Path | None
) -> list[dict[str, object]]:
    """Train and score systems on one corpus, in one process and one thread."""
    vocab = spacy.blank(LANG[corpus]).vocab
    if any(
        "vectors" in [system, *(BEST[corpus] if system == "best" else ())] for system in systems
    ):
        vocab.vectors = make_vectors(load_tables(LANG[corpus]), vocab.strings)
    parts = {part: read(folder, corpus, part, vocab) for part in ("train", "dev", "test")}
    dev, test = parts["dev"], parts["test"]
    rows = []
    for system in systems:
        if system == "best":
            weights = BEST[corpus]
            nlps = {name: load_or_train(corpus, name, parts, models) for name in weights}
            nlp = sum_pipelines("bcrf_spans", nlps, list(weights.values()))
            name = " + ".join(f"{weight} {part}" for part, weight in weights.items())
            seconds = sum(part.meta["seconds"] for part in nlps.values())
        else:
            nlp, name = load_or_train(corpus, system, parts, models), system
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
        help="default: all",
    )
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="keep trained pipelines here")
    args = parser.parse_args()
    machine = describe_machine(["numpy", "spacy", "thinc"])
    for corpus in args.corpus or LANG:
        systems = [name for name in args.system or SYSTEMS if (name, corpus) not in LEFT_OUT]
        rows = in_own_process(partial(run, args.corpora, corpus, systems, args.models))
        notes = (
            "one thread, processor time, the least of three calls; train and test parts; "
            "templates, passes, dropout and weights chosen on dev; ECE of scores on test after "
            "`calibrate` on dev, 10 bins; "
            "partial: one of the labels annotated in each document; spancat: n-grams of 1 to 8 "
            f"words, {SPANCAT_STEPS:,} steps by `spacy train` and the quickstart config; averaged: "
            "32 sentences per step, weights averaged as the networks'"
        )
        title = f"Overlapping spans, {corpus}"
        print_table(title, rows, f"{machine}\n{notes}", args.csv)
        print()


if __name__ == "__main__":
    main()
