"""Merged votes of 5 rules on NCBI disease, and taggers that learn from them, without gold.

    python -m experiments.weak_supervision --corpora DIR

DIR/chmm-ncbi has words, gold and votes, of the benchmark of Li et al. (2022),
github.com/Yinghao-Li/CHMM-ALT.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span

from bcrf.chain import Potentials, viterbi
from lab.tables import Row, print_table
from spacy_bcrf.training.distill import distill_aggregated
from spacy_bcrf.weak.aggregate import aggregate
from spacy_bcrf.weak.aggregated import Aggregated
from spacy_bcrf.weak.baselines import take_majority, take_plurality
from spacy_bcrf.weak.sources import Source, read_groups

PARTS = ("train", "valid", "test")
N_SEEDS = 3
PASSES = 10
"""Chosen on the validation part: 5 passes do not reach the targets of so few texts."""
N_GOLD = (20, 50)
"""Gold documents."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True)
    nlp = spacy.blank("en")
    corpus = Corpus(parser.parse_args().corpora / "chmm-ncbi", nlp)
    with TemporaryDirectory() as temporary:
        output = Path(temporary)
        found = [corpus.aggregate(output, n) for n in (*N_GOLD, 0)]
        tags, spans = corpus.baselines()
        rows: list[Row] = [
            corpus.score("tags with most votes", [tags]),
            corpus.score("spans with most votes", [spans]),
            corpus.score("aggregate", [read_merged(output, corpus.docs)]),
            corpus.score("chain on soft targets", corpus.learn(output, nlp)),
        ]
        harden(output)
        rows.append(corpus.score("chain on the best labelings", corpus.learn(output, nlp)))
    notes = f"NCBI disease, {', '.join(corpus.names)}; F, of chains the median of {N_SEEDS} seeds"
    print_table("Merged votes, and chains that learn from all texts", rows, notes)
    rows = corpus.precisions(found[-1], found[:-1])
    print_table("Precision of the sources", rows, "all documents; with gold documents of valid")


class Corpus:
    """Documents with votes in span groups, and gold entities (start, end, label) apart."""

    def __init__(self, folder: Path, nlp: Language) -> None:
        meta = json.loads((folder / "meta.json").read_text("utf8"))
        self.names, self.labels = meta["lf_rec"], meta["entity_types"]
        self.docs: list[Doc] = []
        self.gold: list[set[tuple]] = []
        self.parts: list[str] = []
        for part in PARTS:
            with lzma.open(folder / f"{part}.json.xz", "rt", encoding="utf8") as file:
                records = json.load(file).values()
            for record in records:
                doc = Doc(nlp.vocab, words=record["data"]["text"])
                for name, spans in zip(meta["lf"], record["weak_labels"], strict=True):
                    doc.spans[name] = [Span(doc, a, b, label) for a, b, label in spans]
                self.docs.append(doc)
                self.gold.append({tuple(span) for span in record["label"]})
                self.parts.append(part)

    def aggregate(self, output: Path, n_gold: int) -> Aggregated:
        sources = [Source(name, read_groups(name)) for name in self.names]
        gold = []
        for i in [i for i, part in enumerate(self.parts) if part == "valid"][:n_gold]:
            gold.append(self.docs[i].copy())
            gold[-1].set_ents([Span(gold[-1], a, b, label) for a, b, label in self.gold[i]])
        return aggregate(self.docs, sources, self.labels, output, gold=gold)

    def learn(self, folder: Path, nlp: Language) -> list[list[set[tuple]]]:
        """Return the entities that chains find, by seed."""
        found = []
        for seed in range(N_SEEDS):
            student = distill_aggregated(folder, nlp, self.labels, passes=PASSES, seed=seed).nlp
            bare = [Doc(student.vocab, words=[token.text for token in doc]) for doc in self.docs]
            found.append([spans_of(doc) for doc in student.pipe(bare)])
        return found

    def baselines(self) -> tuple[list[set[tuple]], list[set[tuple]]]:
        """Return the tags and the spans with most votes, where silent sources abstain."""
        sources = [Source(name, read_groups(name)) for name in self.names]
        tags, spans = [], []
        for doc in self.docs:
            votes = [source.vote([doc], self.labels)[0] for source in sources]
            majority = take_majority(votes, np.array([len(doc)], "int32"), len(self.labels))
            tags.append({(a, b, self.labels[k]) for a, b, k in majority})
            spans.append({(a, b, self.labels[k]) for a, b, k in take_plurality(votes)})
        return tags, spans

    def score(self, name: str, by_seed: Sequence[Sequence[set[tuple]]]) -> Row:
        row: dict[str, object] = {"from": name}
        for part in PARTS[1:]:
            at = [i for i, each in enumerate(self.parts) if each == part]
            both = [sum(len(found[i] & self.gold[i]) for i in at) for found in by_seed]
            n = [sum(len(found[i]) + len(self.gold[i]) for i in at) for found in by_seed]
            scores = 200 * np.array(both) / n
            spread = f" ({scores.min():.1f} to {scores.max():.1f})" if len(scores) > 1 else ""
            row[part] = f"{np.median(scores):.1f}{spread}"
        return row

    def precisions(self, found: Aggregated, with_gold: Sequence[Aggregated]) -> list[Row]:
        rows: list[Row] = []
        for name in self.names:
            for k, figures in enumerate(found.figures[name]):
                right = [
                    (span.start, span.end, span.label_) in gold
                    for doc, gold in zip(self.docs, self.gold, strict=True)
                    for span in spacy.util.filter_spans(doc.spans[name])
                    if span.label_ == figures.label
                ]
                one = figures.precision
                if len(right) >= 200:
                    row = {"source": name, "label": figures.label, "spans": str(len(right))}
                    row["estimate"] = f"{one.value:.3f} ({one.low:.2f}-{one.high:.2f})"
                    for n, other in zip(N_GOLD, with_gold, strict=True):
                        row[f"{n} gold"] = f"{other.figures[name][k].precision.value:.3f}"
                    rows.append({**row, "true": f"{np.mean(right):.3f}"})
        return rows


def read_merged(folder: Path, docs: Sequence[Doc]) -> list[set[tuple]]:
    """Return the entities of documents that `aggregate` wrote to a folder."""
    files = [DocBin().from_disk(path) for path in sorted(folder.glob("*.spacy"))]
    return [spans_of(doc) for file in files for doc in file.get_docs(docs[0].vocab)]


def spans_of(doc: Doc) -> set[tuple]:
    return {(ent.start, ent.end, ent.label_) for ent in doc.ents}


def harden(folder: Path) -> None:
    """Replace the chains of a folder by their best labelings."""
    for path in folder.glob("*.npz"):
        docs = DocBin().from_disk(path.with_suffix(".spacy")).get_docs(spacy.blank("xx").vocab)
        lengths = np.array([len(doc) for doc in docs], dtype="int32")
        with np.load(path) as arrays:
            unary, transitions = arrays["unary"].astype("float64"), arrays["transitions"]
        tags, _ = viterbi(Potentials(unary, transitions, lengths))
        is_best = tags[:, None] == np.arange(len(unary.T))
        unary = np.where(is_best, 0, -np.inf)
        np.savez(path, unary=unary, transitions=transitions, weights=np.ones(len(tags)))


if __name__ == "__main__":
    main()
