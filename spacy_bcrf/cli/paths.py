"""Checks of the paths that a command gets, before its work begins."""

from pathlib import Path

from spacy_bcrf.io.shards import find_files


def check_corpus(corpus: Path) -> None:
    """Raise ValueError for a corpus that is neither a .spacy file nor a folder of them."""
    for file in find_files(corpus):
        if file.suffix != ".spacy":
            raise ValueError(f"{file}: expected a .spacy file, or a folder of .spacy files")


def check_output_file(path: Path) -> None:
    """Raise ValueError for a file to write that is a folder, or in a missing folder."""
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, this is a folder")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; make it first")
