"""Cost of partial annotation: time of the loss, and memory of training from a stream.

    python -m benchmarks.partial

The first table compares the loss with gradient under partial and under full annotation, in
microseconds a token by number of tags. One lattice allows all tags at half of the tokens and one
tag at the others. The other lattice allows a quarter of the tags at each token, like a document
annotated with one label of four. The second table has the peak memory of `spacy train` with
`max_epochs = -1`. The corpus is in files of 1,000 documents. Each size has a fresh process.
"""

import argparse
import io
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np
from spacy.cli.train import train as spacy_train
from spacy.tokens import Doc
from spacy.util import load_config
from spacy.vocab import Vocab
from tqdm import tqdm

from bcrf.chain import BCRF, CRF, Inference, viterbi
from bcrf.io.text import read_lines
from benchmarks.inputs import SAMPLE, random_potentials, sentence_lengths
from benchmarks.timing import interleave
from lab import ROOT
from lab.machine import describe_machine
from lab.options import add_options
from lab.processes import in_own_process, peak_memory
from lab.tables import print_table
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.doc_files import write_all
from spacy_bcrf.corpora.formats.conllu import read_conllu

TAGS = (9, 17, 50, 69)
BATCH = 64
LABELS = ("DATE", "LOC", "ORG", "PERSON")
SHARD = 1000
DOCS_A_STEP = 50
INFERENCES: dict[str, Inference] = {"CRF": CRF(), "BCRF(10)": BCRF(n_iter=10)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--docs",
        type=int,
        nargs="*",
        default=[10_000, 100_000],
        help="documents in each corpus of the second table",
    )
    args = parser.parse_args()
    all_lengths, source = sentence_lengths(args.corpora)
    lengths = all_lengths[:BATCH]
    notes = (
        f"{describe_machine(['numpy'])}\n"
        f"{BATCH} sequences, {lengths.sum()} tokens, {source}; one thread, float32; "
        f"us/token, median of {args.rounds} interleaved rounds"
    )
    rows = [compare(name, n_tags, lengths, args.rounds) for name in INFERENCES for n_tags in TAGS]
    print_table("loss and gradient", rows, notes, args.csv)
    if args.docs:
        print()
        rows = [train(n_docs) for n_docs in args.docs]
        print_table("streamed training", rows, "bcrf_ner with a CNN, one pass over the corpus")


def compare(name: str, n_tags: int, lengths: np.ndarray, rounds: int) -> dict[str, object]:
    """Return a row that compares the losses of partial and full annotation."""
    inference = INFERENCES[name]
    rng = np.random.default_rng(0)
    n_tokens = int(lengths.sum())
    potentials = random_potentials(n_tags, lengths, rng, unary_scale=1.0, transition_scale=0.5)
    gold = viterbi(potentials)[0]
    half = np.where(rng.random(n_tokens) < 0.5, gold, -1).astype("int32")
    lattice = rng.random((n_tokens, n_tags)) < 0.25
    lattice[np.arange(n_tokens), gold] = True
    golds = {"full": gold, "half unknown": half, "quarter of tags": lattice}
    losses: dict[str, Callable[[], object]] = {
        kind: partial(inference.loss, potentials, allowed) for kind, allowed in golds.items()
    }
    seconds = interleave(losses, rounds)
    row: dict[str, object] = {"head": name, "tags": n_tags}
    row |= {kind: f"{value / n_tokens * 1e6:.3f}" for kind, value in seconds.items()}
    for kind in list(golds)[1:]:
        row[f"{kind}/full"] = f"{seconds[kind] / seconds['full']:.2f}"
    return row


def train(n_docs: int) -> dict[str, object]:
    """Return a row: peak memory and time of one pass of training in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, dev = Path(folder) / "train", Path(folder) / "dev.spacy"
        in_own_process(write_docs, corpus, n_docs, SHARD)
        write_docs(dev, 100)
        config = load_config(ROOT / "configs/ner.cfg")
        reader = {"@readers": "spacy-bcrf.PartialCorpora.v1", "seed": 0}
        config["corpora"] = {"train": reader | {"corpora": {"all": {"path": str(corpus)}}}}
        config["paths"]["dev"] = str(dev)
        config["initialize"] = {"components": {"ner": {"labels": list(LABELS)}}}
        # The network's memory does not depend on the corpus. A small one shows the reader's.
        config["components"]["tok2vec"]["model"]["encode"] |= {"width": 32, "depth": 1}
        config["training"] |= {
            "max_epochs": -1,
            "max_steps": n_docs // DOCS_A_STEP,
            "eval_frequency": max(1, n_docs // DOCS_A_STEP // 4),
            "batcher": {"@batchers": "spacy.batch_by_sequence.v1", "size": DOCS_A_STEP},
        }
        config.to_disk(Path(folder) / "train.cfg")
        output = Path(folder) / "model"
        # The peak belongs to the process, so writing and training each have their own.
        peak, seconds = in_own_process(run_training, Path(folder) / "train.cfg", output)
    return {
        "documents": f"{n_docs:,}",
        "peak MiB": f"{peak / 2**20:,.0f}",
        "seconds": f"{seconds:.0f}",
    }


def run_training(config: Path, output: Path) -> tuple[int, float]:
    """Train and return the peak memory in bytes and the seconds."""
    start = time.perf_counter()
    with redirect_stdout(io.StringIO()):
        spacy_train(config, output)
    return peak_memory(), time.perf_counter() - start


def write_docs(path: Path, n_docs: int, shard: int = 0) -> None:
    """Write random sentences of the sample corpus, each annotated with one label only."""
    rng = random.Random(0)
    sentences = list(read_conllu(read_lines(SAMPLE), ent_key="NER"))
    vocab = Vocab()
    set_extensions()

    def make_docs() -> Iterator[Doc]:
        for _ in tqdm(range(n_docs), desc=f"writing {n_docs:,} documents", disable=None):
            sentence = rng.choice(sentences)
            label = rng.choice(LABELS)
            tags = [tag if tag and tag.endswith(label) else "O" for tag in sentence.entities]
            doc = Doc(vocab, words=sentence.words, ents=tags)
            doc._.annotated_labels = [label]
            yield doc

    write_all(make_docs(), path, shard)


if __name__ == "__main__":
    main()
