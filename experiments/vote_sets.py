"""Merged votes of sources of several kinds on real texts, beside votes without a model.

    python -m experiments.vote_sets --corpora DIR

NCBI disease has rules that people wrote. The sources of the other corpora are made from gold.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import spacy
from spacy.tokens import Doc, Span, Token

from experiments.simulated_sources import f_score
from experiments.weak_supervision import Corpus, read_merged, spans_of
from lab.corpora import read_corpus
from lab.options import add_corpora_option
from lab.tables import Row, print_table
from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.weak.aggregate import aggregate
from spacy_bcrf.weak.baselines import take_plurality
from spacy_bcrf.weak.sources import Source, read_groups

FILES = "uner-english-ewt/en_ewt-ud-dev.iob2", "wikigold/wikigold.conll.xz", "jnlpba/devel.tsv"
KINDS = "word word word word", "suffix before word", "draw draw draw", "word suffix draw title"
VALUES: dict[str, Callable[[Token], object]] = {
    "word": lambda token: token.lower_,
    "suffix": lambda token: (token.suffix_, token.shape_),
    "before": lambda token: (token.shape_, token.i and token.nbor(-1).lower_),
    "draw": lambda token: token.ent_type_,
    "title": lambda token: token.is_title,
}
N_SEEDS = 3
NAMES = "aggregate", "most votes", "best source"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_corpora_option(parser)
    corpora = parser.parse_args().corpora
    rows: list[Row] = []
    for file in FILES:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "docs.spacy"
            convert([corpora / file], path)
            docs = read_corpus(path)
        name, gold = file.split("/")[0], list(map(spans_of, docs))
        for kinds in KINDS:
            for seed in range(N_SEEDS):
                rng = np.random.default_rng(seed)
                sources = [_make_source(docs, kind, rng) for kind in kinds.split()]
                rows.append(measure(f"{name}, {kinds}, {seed}", docs, gold, sources))
    ncbi = Corpus(corpora / "chmm-ncbi", spacy.blank("en"))
    for names in (ncbi.names, [*ncbi.docs[0].spans]):
        sources = [Source(name, read_groups(name)) for name in names]
        rows.append(measure(f"NCBI disease, {len(names)}", ncbi.docs, ncbi.gold, sources))
    means = [f"{np.mean([float(str(row[name])) for row in rows]):.2f}" for name in NAMES]
    print_table(f"Merged votes, {len(rows)} sets", rows, f"F, mean {', '.join(means)}")


def _make_source(docs: Sequence[Doc], kind: str, rng: np.random.Generator) -> Source:
    """Set the spans of a source: tokens with the usual label of their values in one document of
    ten. A draw misses entities, and errs at tokens. Title case means each of the labels."""
    counts: dict[object, Counter[str]] = defaultdict(Counter)
    for doc in docs:
        for token in doc if rng.random() < 0.1 else ():
            counts[VALUES[kind](token)][token.ent_type_] += 1
    usual = {value: each.most_common(1)[0][0] for value, each in counts.items()}
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    name, finds, errs = str(rng.random()), rng.uniform(0.5, 0.9), rng.uniform(0, 0.02)
    for doc in docs:
        tags = [usual.get(VALUES[kind](token), "") for token in doc]
        if kind == "draw":
            for ent in doc.ents:
                tags[ent.start : ent.end] = [ent.label_ if rng.random() < finds else ""] * len(ent)
            tags = [str(rng.choice(labels)) if rng.random() < errs else tag for tag in tags]
        elif kind == "title":
            tags = [" or ".join(labels) if token.is_title else "" for token in doc]
        runs = [list(run) for tag, run in groupby(range(len(doc)), tags.__getitem__) if tag]
        doc.spans[name] = [Span(doc, run[0], run[-1] + 1, tags[run[0]]) for run in runs]
    return Source(name, read_groups(name), {" or ".join(labels): tuple(labels)})


def measure(
    title: str, docs: Sequence[Doc], gold: Sequence[set[tuple]], sources: Sequence[Source]
) -> Row:
    """Return F of the merged votes, and of votes without a model."""
    labels = sorted({label for of_doc in gold for *_, label in of_doc})
    with TemporaryDirectory() as folder:
        aggregate(docs, sources, labels, Path(folder))
        merged = read_merged(Path(folder), docs)
    first = doc_lengths(docs).cumsum() - doc_lengths(docs)
    found, true = (
        {
            (i + a, i + b, labels.index(k))
            for i, of in zip(first, all_, strict=True)
            for a, b, k in of
        }
        for all_ in (merged, gold)
    )
    votes = [source.vote(docs, labels)[0] for source in sources]
    alone = [f_score(take_plurality([of_source]), true) for of_source in votes]
    scores = f_score(found, true), f_score(take_plurality(votes), true), max(alone)
    return {"votes": title} | {k: f"{100 * f:.1f}" for k, f in zip(NAMES, scores, strict=True)}


if __name__ == "__main__":
    main()
