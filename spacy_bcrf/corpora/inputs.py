"""Files of texts: find them, and read one record at a time."""

import glob
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bcrf.io.atomic import resolve
from bcrf.io.text import text_suffix

from . import remote
from .formats.table import FORMATS
from .texts import Advance, TextColumns, TextItem

_READERS = {
    suffix: each.read_texts
    for each in FORMATS
    if each.read_texts
    for suffix in each.suffixes.split()
}


def find_inputs(
    inputs: Sequence[str], output: Path | None = None, suffixes: Collection[str] | None = None
) -> tuple[list[Path], int]:
    """Return the files of paths, folders, globs and URLs, and the number of other files in folders.

    Files of a folder or glob are sorted, without dot files and files of `output`, an absolute path.
    suffixes: of the files, by default what `read_records` reads.
    ValueError for a path that is missing or in `output`, an unknown extension, and repeated files.
    """
    suffixes = _READERS if suffixes is None else suffixes
    files: list[Path] = []
    n_skipped = 0
    for name in inputs:
        try:
            found, n_others = _find_input(name, output, suffixes)
        except remote.path_errors() as error:
            raise ValueError(f"{name}: cannot be read: {remote.describe_error(error)}") from None
        files += found
        n_skipped += n_others
    seen: set[Path] = set()
    for file in files:
        _check_suffix(file, suffixes)
        if (resolved := resolve(file)) in seen:
            raise ValueError(f"{file}: is given twice; expected each input once")
        seen.add(resolved)
    return files, n_skipped


def _find_input(
    name: str, output: Path | None, suffixes: Collection[str]
) -> tuple[list[Path], int]:
    """Return the files of a path, folder, glob or URL, and the number of a folder's other files."""

    def is_output(path: Path) -> bool:
        return type(path) is type(output) and resolve(path).is_relative_to(output)

    path = remote.make_path(name)
    if is_output(path):
        raise ValueError(f"{name}: is in the folder of the output, {output}")
    if path.is_file():
        return [path], 0
    if path.is_dir():
        below = [
            file
            for file in remote.find_below(path)
            if not (is_output(file) or any(x[0] == "." for x in file.relative_to(path).parts))
        ]
        found = [file for file in below if text_suffix(file) in suffixes]
        if not found:
            raise ValueError(f"{name}: the folder has no file with one of {', '.join(suffixes)}")
        return found, len(below) - len(found)
    if path.exists():
        raise ValueError(f"{name}: is a device or a pipe; expected a regular file")
    if remote.is_remote(path):
        matches = remote.glob_files(path)
    else:
        globbed = map(Path, sorted(glob.glob(name, recursive=True)))  # noqa: PTH207 (absolute)
        matches = [match for match in globbed if match.is_file()]
    found = [file for file in matches if not is_output(file)]
    if not found:
        raise ValueError(f"{name}: there is no such file or folder, and no file matches")
    return found, 0


def read_records(
    path: Path,
    columns: TextColumns = TextColumns(),  # noqa: B008 (immutable)
    advance: Advance = lambda n_bytes: None,
) -> Iterator[TextItem]:
    """Yield the records of a file in its order, with a bounded part of it in memory.

    All documents of a `.spacy` file are in memory, or a batch of rows of a Parquet file.

    - `.txt`: one text on each line that is not blank, or one in the file, as beside `.ann`.
    - `.jsonl`, `.ndjson`, `.json`: objects with a text, `tokens` or both.
    - `.csv`, `.tsv`: rows under a header. A line break within quotes is a line feed.
    - `.parquet`: rows; needs the extra `parquet`.
    - `.spacy`: words and spaces. Annotation is dropped; `user_data` keeps id and meta data.

    CorpusError for content that cannot be read further, UnreadableError if the system cannot read
    the file. ValueError if a table has no column of texts.
    """
    _check_suffix(path, _READERS)
    return _READERS[text_suffix(path)](path, columns, advance)


def _check_suffix(path: Path, suffixes: Collection[str]) -> None:
    if (suffix := text_suffix(path)) not in suffixes:
        known = ", ".join(suffixes)
        raise ValueError(
            f"{path}: unknown extension {suffix!r}; expected one of {known}, plain or compressed"
        )
