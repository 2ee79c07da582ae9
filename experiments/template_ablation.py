"""Choose template sets on dev: score, size and seconds of a set, without a line, and with another.

    python -m experiments.template_ablation wnut17 --corpora DIR

--limit trains on the first sentences only. --model changes settings of the linear chain: --model
order=2 optimizer=adagrad rate=0.2. Only --part test reads a test part, for the set that dev chose.
It trains on dev too if dev is a part of the official training data.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from itertools import chain
from pathlib import Path
from typing import Any

from lab.labeling_tasks import TASKS, add_options
from lab.tables import Row, mean_and_deviation, print_table
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.sparse.template_sets import SETS, get_templates

MODEL = {"@architectures": "spacy-bcrf.LinearChain.v1", "objective": "crf"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    add_options(parser)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[], help="sets to compare")
    parser.add_argument("--without-each", action="store_true", help="leave out one line each")
    parser.add_argument("--with-each", nargs="+", default=[], metavar="TEMPLATE")
    parser.add_argument("--clusters", metavar="FILE", help="clusters for `cluster.brown`")
    parser.add_argument(
        "--model", nargs="+", type=read_setting, default=[], metavar="NAME=VALUE", help="settings"
    )
    parser.add_argument("--part", choices=("dev", "test"), default="dev", help="to score on")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1, help="orders of the training sentences")
    parser.add_argument("--limit", type=int, help="training sentences")
    args = parser.parse_args()
    task = TASKS[args.task]
    base = get_templates(task.templates)
    model = {**MODEL, "clusters": {"brown": args.clusters} if args.clusters else None}
    model |= dict(args.model)
    variants = {f'"{task.templates}"': base}
    variants |= {f'"{name}"': get_templates(name) for name in args.sets}
    if args.without_each:
        variants |= {f"without `{line}`": [t for t in base if t != line] for line in base}
    variants |= {f"with `{line}`": [*base, *line.split()] for line in args.with_each}
    rows: list[Row] = []
    vocab = task.make_nlp(None).vocab
    learned = ["train", "dev"] if args.part == "test" and task.learns_dev else ["train"]
    *parts, scored = (
        task.read(Path(args.corpora), part, args.cache, vocab) for part in (*learned, args.part)
    )
    train = list(chain.from_iterable(parts))
    for name, templates in variants.items():
        scores, seconds = [], 0.0
        for seed in range(args.seeds):
            nlp = task.make_nlp({**model, "templates": templates}, vocab)
            examples = task.examples(nlp, train[: args.limit])
            random.Random(seed).shuffle(examples)
            start = time.process_time()
            n_features = fit_sparse_chain(nlp, examples, args.passes)
            seconds += time.process_time() - start
            scores.append(100 * nlp.evaluate(task.examples(nlp, scored))[task.score])
        # The size of the last model.
        ((_, component),) = nlp.pipeline
        learned_chain: Any = sparse_chain(component.model)  # type: ignore[attr-defined]
        size = f"{len(learned_chain.to_bytes()) / 1e6:.2f}"
        rows.append(
            {
                "templates": name,
                "features": f"{n_features:,}",
                "MB": size,
                "seconds": f"{seconds / args.seeds:.0f}",
                args.part: mean_and_deviation(scores),
            }
        )
    print_table(f"Templates of {args.task}", rows, f"{task.score}, {args.passes} passes")


def read_setting(text: str) -> tuple[str, Any]:
    """Read name=value. The value is JSON, or a string."""
    name, is_given, value = text.partition("=")
    if not is_given:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


if __name__ == "__main__":
    main()
