"""Reproduce Tables 1a-d of "Bregman Conditional Random Fields" (Corro et al. 2025).

    python -m experiments.paper.run pos --corpora DIR --output metrics/paper --scale small

    python -m experiments.paper.run pos --corpus de=UD_German-GSD --output metrics/paper

Train every objective on every corpus, with every encoder depth and seed. Decode each model with
every decoder. A run with a stored result is not repeated, so the command can be interrupted and
resumed. Write results.csv, results.md and accuracy.png to OUTPUT/SCALE/EXPERIMENT. Options such as
--training.dropout 0.1 override the training configs. --help lists the differences from the paper.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spacy.cli._util import parse_config_overrides
from spacy.util import dot_to_dict
from thinc.api import Config

from bcrf.io.atomic import write_text
from bcrf.io.extras import require
from bcrf.io.text import CorpusError
from experiments.paper.results import Key, write_results
from lab.corpora import Corpus, annotate_one_label, convert_parts, find_corpus, read_corpus
from lab.paper import (
    DECODED_BY,
    DECODERS,
    DIFFERENCES,
    EXPERIMENTS,
    HEADS,
    SCALES,
    make_config,
    objectives,
)
from lab.training import Run, Scores, perform
from spacy_bcrf.readers.doc_files import write_all


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog=DIFFERENCES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="folder of the default corpora")
    parser.add_argument(
        "--corpus",
        nargs="*",
        default=[],
        metavar="[NAME=]DIR",
        help="folders of corpora in place of the default ones: treebanks (CoNLL-U), CoNLL columns "
        "or .spacy files, each with train, dev and test; NAME titles the column (default: the "
        "folder's name); the paper's figures stand beside columns named nl, en, fr, de, zh and ja",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument(
        "--seeds",
        type=int,
        default=0,
        metavar="N",
        help="seeds 0 to N - 1, for mean and deviation; 0: the scale's (small 1, full 5)",
    )
    parser.add_argument("--only", nargs="*", help="default corpora, such as en (default: all)")
    parser.add_argument("--variants", nargs="*", help='columns, such as "0 layers" (default: all)')
    parser.add_argument("--objectives", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument("--steps", type=int, default=0, help="training steps, 0: the scale's")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs in parallel")
    parser.add_argument("--transformer", metavar="DIR", help="for entities (default: a CNN)")
    parser.add_argument("--gpu", type=int, default=-1)
    args, rest = parser.parse_known_args(arguments)
    overrides = dot_to_dict(parse_config_overrides(rest, env_var=""))
    if args.steps < 0:
        parser.error(f"--steps {args.steps}: expected 1 or more, or 0 for the scale's")
    if args.seeds < 0:
        parser.error(f"--seeds {args.seeds}: expected 1 or more, or 0 for the scale's")
    if not (args.corpora or args.corpus):
        parser.error("expected --corpora DIR, or corpora of your own by --corpus DIR")
    if args.corpus and args.only:
        parser.error("--only selects from the default corpora; leave it out with --corpus")
    task = EXPERIMENTS[args.experiment]
    if args.corpus:
        corpora = find_corpora(args.corpus)
    else:
        corpora = {name: task.corpora[name] for name in choose("--only", args.only, task.corpora)}
    variants = choose("--variants", args.variants, task.variants)
    require("matplotlib", "plot")
    if args.experiment != "ner" and variants != ["0 layers"]:
        require("torch", "torch")
    if args.transformer:
        require("spacy_transformers", "transformers")
        if not (Path(args.transformer) / "config.json").is_file():
            sys.exit(f"{args.transformer}: expected a folder of a transformer, with config.json")
    folder = args.output / args.scale / args.experiment
    scale = SCALES[args.scale]
    if args.steps:
        scale = replace(scale, steps={args.experiment: args.steps})
    keys: list[Key] = []
    runs: list[Run] = []
    for name, corpus in corpora.items():
        files = convert(args.experiment, name, corpus, args.corpora or Path(), folder)
        # Some languages of spaCy need a tokenizer of their own, which the experiments do not use.
        lang = "xx" if args.corpus else corpus.lang
        for variant in variants:
            for objective in (o for o in objectives(variant) if o in args.objectives):
                for seed in range(args.seeds or scale.seeds):
                    setting = (args.experiment, variant, objective, scale, seed, files)
                    config = Config(make_config(*setting, lang, args.transformer)).merge(overrides)
                    path = folder / f"{name}-{variant}-{objective}-{seed}".replace(" ", "_")
                    score = partial(evaluate, args.experiment, objective, files)
                    keys.append((name, variant, objective, seed))
                    runs.append(Run(path, config, score, args.gpu))
    scores = perform(runs, args.jobs if args.gpu < 0 else 1)
    print(write_results(folder, args.experiment, dict(zip(keys, scores, strict=True))))


def choose(option: str, wanted: list[str] | None, names: Iterable[str]) -> list[str]:
    """Return the wanted names, by default all. Exit with a message if one is unknown."""
    if unknown := set(wanted or ()) - set(names):
        sys.exit(f"{option} {', '.join(unknown)}: expected some of {', '.join(names)}")
    return wanted or list(names)


def find_corpora(options: Sequence[str]) -> dict[str, Corpus]:
    """Return the corpora of `--corpus`, by name. Exit with a message if one cannot be found."""
    corpora: dict[str, Corpus] = {}
    for option in options:
        named = re.fullmatch(r"(\w+)=(.+)", option)
        folder = Path(named[2] if named else option)
        # Names of folders of runs separate their parts by "-".
        name = named[1] if named else re.sub(r"\W+", "_", folder.resolve().name)
        if name in corpora:
            sys.exit(f"--corpus {option}: a second corpus named {name}; expected NAME=DIR")
        try:
            corpora[name] = find_corpus(folder)
        except CorpusError as error:
            sys.exit(f"--corpus {option}: {error}")
    return corpora


def convert(
    experiment: str, name: str, corpus: Corpus, corpora: Path, folder: Path
) -> dict[str, Path]:
    """Convert train, dev and test of a corpus where they are missing.

    An experiment with partial annotation also gets "partial": train with one label a document.
    Exit with a message if the folder has the parts of another corpus with this name.
    """
    prefix = folder / "corpus" / f"{name}-"
    source = Path(f"{prefix}source.txt")
    files_of_source = "\n".join(str((corpora / file).absolute()) for file in corpus.files)
    try:
        if source.exists() and source.read_text(encoding="utf8") != files_of_source:
            first = source.read_text(encoding="utf8").partition("\n")[0]
            sys.exit(
                f"{source}: the corpus {name} in {folder} is another one, with {first}; expected "
                "another name, --corpus NAME=DIR, or another --output"
            )
        files = convert_parts(corpora, corpus, str(prefix))
        write_text(source, files_of_source)
    except (CorpusError, OSError) as error:
        sys.exit(str(error))
    if "partial" in EXPERIMENTS[experiment].variants:
        files["partial"] = Path(f"{prefix}partial.spacy")
        if not files["partial"].exists():
            write_all(annotate_one_label(read_corpus(files["train"]), seed=0), files["partial"])
    return files


def evaluate(experiment: str, objective: str, files: dict[str, Path], model: Path) -> Scores:
    """Return the scores of a pipeline on dev and test in percent, with each decoder."""
    import spacy
    from spacy.training import Corpus

    nlp = spacy.load(model)
    task = EXPERIMENTS[experiment]
    pipe: Any = nlp.get_pipe(task.component)
    scores = {}
    for part in ("dev", "test"):
        reader = Corpus(files[part], gold_preproc=experiment == "pos")
        for decoder in DECODED_BY[objective]:
            pipe.set_decoder(DECODERS[decoder])
            scores[f"{part} {decoder}"] = 100 * nlp.evaluate(list(reader(nlp)))[task.score]
    return scores


if __name__ == "__main__":
    main()
