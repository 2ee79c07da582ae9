"""Checks of the paths that a command gets, before its work begins."""

from pathlib import Path

from spacy_bcrf.io.shards import find_files


def check_corpus(corpus: Path) -> None:
    """Raise ValueError for a corpus that is neither a .spacy file nor a folder of them."""
    for file in find_files(corpus):
        if file.suffix != ".spacy":
            raise ValueError(f"{file}: expected a .spacy file, or a folder of .spacy files")


def check_output_file(path: Path, *inputs: Path | None) -> None:
    """Raise ValueError for a file to write that is a folder, or one of the inputs.

    inputs: files, and folders of input files; None for an input that is not given.
    """
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, this is a folder")
    target = path.resolve()
    for given in filter(None, inputs):
        source = given.resolve()
        if target == source or (source.is_dir() and source in target.parents):
            raise ValueError(f"{path}: would replace the input {given}; expected another file")
