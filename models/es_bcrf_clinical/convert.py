"""Convert the notes of MEDDOCAN to folds, and write lists of names and clusters of Spanish words.

    python -m models.es_bcrf_clinical.convert CORPORA OUTPUT

The first fold is the dev part, and the train part makes two more: a promise of 0.99 needs 299
documents that its pipeline did not learn. first, last, cities: see `models.names`. clusters: of the
MOST frequent words of spacy-lookups-data.
"""

import argparse
import shutil
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from spacy.tokens import Doc
from spacy.vocab import Vocab

from models.build import find_corpus
from models.folds import write_folds
from models.names import write_lists
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.readers.doc_files import read_docs, write_all
from spacy_bcrf.training.clusters import load_brown_clusters

LOCALES = (
    *("es_ES", "es_MX", "es_CO", "es_AR", "es_CL"),
    *("fr_FR", "en_US", "de_DE", "it_IT", "pt_PT"),
)
MOST = 400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)  # it may have other folds
    train, dev = (read_notes(args.corpora / "meddocan" / part) for part in ("train", "dev"))
    write_folds(train, 2, args.output / "train", first=1)
    write_all(dev, args.output / "train/fold0.spacy")
    write_lists(LOCALES, args.output)
    words = list(load_brown_clusters("es").items())[:MOST]
    rows = (f"{word}\t{path}\n" for word, path in words)
    (args.output / "clusters.tsv").write_text("".join(rows), "utf8")


def read_notes(folder: Path) -> list[Doc]:
    """Return the notes of a folder of brat files, or of its archive."""
    found = find_corpus(folder)
    with TemporaryDirectory() as work:
        if not found.is_dir():
            with tarfile.open(found) as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # of 3.11.4
                archive.extractall(work)
        brat = found if found.is_dir() else Path(work)
        convert([brat], Path(work) / "notes.spacy", lang="es", tokenizer="split", report=print)
        return list(read_docs(Path(work) / "notes.spacy", Vocab()))


if __name__ == "__main__":
    main()
