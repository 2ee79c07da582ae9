"""Write the dev part as training data in folds, and lists and tables of German words.

    python -m models.de_bcrf_sm.convert DEV OUTPUT

first, last, cities: see `models.names`. Of the MOST frequent words of spacy-lookups-data: clusters,
and case, how much more frequent a word is with a capital.
"""

import argparse
from pathlib import Path
from typing import Any

from spacy.util import load_language_data, registry
from spacy.vocab import Vocab

from models.folds import write_folds
from models.names import write_lists
from spacy_bcrf.readers.doc_files import read_docs
from spacy_bcrf.training.clusters import load_brown_clusters

LOCALES = ("de_DE", "de_AT", "de_CH", "en_US", "fr_FR", "it_IT", "es_ES", "pl_PL", "tr_TR", "nl_NL")
FOLDS = 2
MOST = 800_000
STEP = 1.5
"""A class of the ratio of frequencies, in natural logarithms."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dev", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    write_folds(list(read_docs(args.dev, Vocab())), FOLDS, args.output / "train")
    write_lists(LOCALES, args.output)
    logs: Any = load_language_data(registry.lookups.get_all()["de"]["lexeme_prob"])
    words = sorted((word for word in logs if word.split() == [word]), key=logs.get, reverse=True)
    words, clusters = words[:MOST], load_brown_clusters("de")
    capital = [word for word in words if word[0].isupper()]
    tables: dict[str, dict[str, Any]] = {
        "clusters": {word: clusters[word] for word in words if word in clusters},
        "case": {x: round((logs[x] - logs.get(x.lower(), -20)) / STEP) for x in capital},
    }
    for name, table in tables.items():
        rows = (f"{word}\t{value}\n" for word, value in sorted(table.items()))
        (args.output / f"{name}.tsv").write_text("".join(rows), "utf8")


if __name__ == "__main__":
    main()
