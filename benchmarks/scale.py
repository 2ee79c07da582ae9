"""Words/s and memory of `annotate`: one process, two processes, and two Ray actors.

    python -m benchmarks.scale --out training/scale
    python -m benchmarks.scale --out training/scale --memory 1000000

Both commands train small pipelines on the sample corpus: tagger and entity recognizer, sparse or
neural. The documents are sentences of the sample in random order, with new words. --out keeps
pipelines, documents and measurements, so the command can be interrupted and resumed.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.training import Example
from spacy.util import fix_random_seed

from bcrf.io.atomic import replacing, write_text
from bcrf.io.text import read_lines
from benchmarks.inputs import NETWORK, SAMPLE
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.tables import print_table
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.readers.doc_files import read_docs

ENGINES = {
    "1 process": (),
    "2 processes": ("--n-process", "2"),
    "2 Ray actors": ("--engine", "ray", "--n-process", "2"),
}
PIPELINES = ("sparse", "neural")
NEW_WORDS = 0.02
"""The share of new words in the documents. They make the vocabulary grow with the documents."""
SHARD = 200
"""Documents of a shard, for all engines."""
SHORT = 5
"""Words of the documents of `--memory`."""
TEMPLATES = {"tagger": "pos", "ner": "ner"}
TRAINING_STEPS = {"sparse": 40, "neural": 150}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_csv_option(parser)
    parser.add_argument("--out", type=Path, default=Path("training/scale"), metavar="DIR")
    parser.add_argument("--pipelines", nargs="+", choices=PIPELINES, default=PIPELINES)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=100, help="words of a document")
    parser.add_argument("--seconds", type=float, default=20, help="end a measurement after these")
    parser.add_argument(
        "--memory", type=int, metavar="N", help="only the memory of one process over N documents"
    )
    parser.add_argument("--prepare", action="store_true", help="only train and write documents")
    args = parser.parse_args()
    models = {name: prepare_model(args.out, name) for name in args.pipelines}
    if args.memory:
        measure_growth(args.out, models, args.memory, args.csv)
        return
    texts = write_texts(args.out, args.documents, args.words)
    if args.prepare:
        return
    measured = {
        name: {
            engine: measure(args.out, model, texts, engine, args.seconds) for engine in args.engines
        }
        for name, model in models.items()
    }
    rows = [
        {
            "pipeline": name,
            "workers": engine,
            "words/s": f"{found['words_per_second']:,.0f}",
            "x": f"{found['words_per_second'] / next(iter(runs.values()))['words_per_second']:.2f}",
            "CPU us/word": f"{found['cpu'] * 1e6:.1f}",
            "start, s": f"{found['start']:.1f}",
            "peak, MiB": f"{found['peak'] / 2**20:,.0f}",
        }
        for name, runs in measured.items()
        for engine, found in runs.items()
    ]
    notes = (
        f"{describe_machine(['spacy', 'numpy'])}\n"
        f"tagger and entity recognizer; {args.documents:,} documents of {args.words} words in "
        f"shards of {SHARD}, JSON lines in and out; one thread a process\n"
        f"words/s: after the first shard, at most {args.seconds:g} s; start: until the first "
        "shard; CPU: of all processes; peak: proportional set size of all processes"
    )
    print_table("Scale", rows, notes, args.csv)


# Pipelines and documents


def prepare_model(out: Path, name: str) -> Path:
    """Train a pipeline on the sample corpus, unless there is one."""
    folder = out / name
    if folder.exists():
        return folder
    corpus = out / "train.spacy"
    if not corpus.exists():
        convert([SAMPLE], corpus, lang="en")
    fix_random_seed(0)
    nlp = spacy.blank("en")
    for factory, pipe in (("bcrf_tagger", "tagger"), ("bcrf_ner", "ner")):
        sparse = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": TEMPLATES[pipe]}
        nlp.add_pipe(factory, pipe, config={"model": sparse if name == "sparse" else NETWORK})
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in read_docs(corpus, nlp.vocab)]
    optimizer = nlp.initialize(lambda: examples)
    rng = random.Random(0)
    for _ in range(TRAINING_STEPS[name]):
        nlp.update(rng.sample(examples, min(64, len(examples))), sgd=optimizer)
    nlp.to_disk(folder)
    return folder


def make_texts(n: int, words: int) -> Iterator[str]:
    """Yield texts of so many words: sentences of the sample, with new words."""
    rng = random.Random(0)
    corpus = [list(sentence.words) for sentence in read_conllu(read_lines(SAMPLE))]
    for _ in range(n):
        text: list[str] = []
        while len(text) < words:
            text += rng.choice(corpus)
        del text[words:]
        for i in range(words):
            if rng.random() < NEW_WORDS:
                text[i] = f"{text[i]}{rng.randrange(10**9)}"
        yield " ".join(text)


def write_texts(out: Path, n: int, words: int) -> Path:
    """Write JSON lines of documents, unless there are some."""
    path = out / f"{n}-{words}.jsonl"
    if not path.exists():
        with replacing(path) as part, part.open("w", encoding="utf8") as file:
            for i, text in enumerate(make_texts(n, words)):
                file.write(json.dumps({"id": i, "text": text}) + "\n")
    return path


# Measurements


def measure(out: Path, model: Path, texts: Path, engine: str, seconds: float) -> dict[str, float]:
    """Measure the speed of an engine, or load the measurement."""
    store = out / f"{model.name}-{engine.replace(' ', '-')}.json"
    if not store.exists():
        print(f"{model.name}, {engine} ...", file=sys.stderr, flush=True)
        _, samples, lines = annotate(
            model, texts, out / f"output-{store.stem}", ENGINES[engine], seconds
        )
        first, last = lines[0], lines[-1]
        words, seconds, cpu = (last[key] - first[key] for key in ("words", "seconds", "cpu"))
        found = {
            "words_per_second": words / seconds,
            "cpu": cpu / words,
            "start": first["seconds"],
            "peak": max(samples),
        }
        write_text(store, json.dumps(found))
    return json.loads(store.read_text())


def annotate(
    model: Path,
    texts: Path,
    output: Path,
    options: Sequence[str],
    seconds: float = float("inf"),
    after: Callable[[dict[str, Any]], object] = lambda line: None,
) -> tuple[float, list[int], list[dict[str, Any]]]:
    """Run `annotate`, at most this long after its first shard.

    Returns seconds, the memory of all processes in bytes, sampled, and the lines of the log.
    """
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "spacy", "bcrf", "annotate", str(model), str(texts)]
    command += ["-o", str(output), "--shard", str(SHARD), "--log-json", *options]
    start = time.monotonic()
    lines: list[dict[str, Any]] = []
    samples: list[int] = []
    is_cut = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        done = threading.Event()

        def sample() -> None:
            while not done.wait(0.5):
                samples.append(tree_memory(process.pid))

        sampler = threading.Thread(target=sample)
        sampler.start()
        assert process.stdout is not None
        for line in process.stdout:
            found = {"cpu": tree_seconds(process.pid), "memory": tree_memory(process.pid)}
            lines.append({**json.loads(line), **found})
            after(lines[-1])
            if lines[-1]["seconds"] - lines[0]["seconds"] > seconds:
                process.terminate()
                is_cut = True
                break
        done.set()
        sampler.join()
    if process.returncode and not is_cut:
        raise SystemExit(f"{' '.join(command)}: ended with {process.returncode}")
    shutil.rmtree(output, ignore_errors=True)
    return time.monotonic() - start, samples, lines


def tree_memory(pid: int) -> int:
    """Return the proportional set size of a process and its descendants in bytes. Linux only."""
    total = 0
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total = next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:"))
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, StopIteration):
        return total  # it has ended
    return total + sum(tree_memory(int(child)) for child in children)


def tree_seconds(pid: int) -> float:
    """Return the processor time of a process and its living descendants. Linux only."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0  # it has ended
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(tree_seconds(int(child)) for child in children)


def measure_growth(out: Path, models: dict[str, Path], n: int, csv: Path | None) -> None:
    """Print the memory of one process after each tenth of n short documents."""
    texts = write_texts(out, n, SHORT)
    rows = []
    for name, model in models.items():
        tenths: list[float] = []

        def keep(line: dict[str, Any], tenths: list[float] = tenths) -> None:
            if line["read"] * 10 >= n * (len(tenths) + 1):
                tenths.append(line["memory"] / 2**20)
                print(f"{line['read']:,}: {tenths[-1]:.1f} MiB", file=sys.stderr, flush=True)

        _, _, lines = annotate(model, texts, out / "output-memory", (), after=keep)
        assert lines[-1]["written"] == n, lines[-1]
        rows.append(
            {
                "pipeline": name,
                "words": f"{lines[-1]['words']:,}",
                **{f"{i}0%": f"{m:,.0f}" for i, m in enumerate(tenths, start=1)},
                "growth": f"{max(tenths) - tenths[0]:,.0f}",
            }
        )
    notes = (
        f"{describe_machine(['spacy', 'numpy'])}\n"
        f"{n:,} documents of {SHORT} words, {NEW_WORDS:.0%} of them new; MiB after each tenth; "
        "growth: of the largest over the first"
    )
    print_table("Memory of one process", rows, notes, csv)


if __name__ == "__main__":
    main()
