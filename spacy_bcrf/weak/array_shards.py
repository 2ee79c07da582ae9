"""Shards of documents with arrays, `NAME.spacy` and `NAME.npz`, that an interrupted call keeps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from tqdm import tqdm

from bcrf.io.atomic import replacing


def write_missing(
    docs: Iterable[Doc], folder: Path, n: int, write: Callable[[Path, list[Doc]], None], doing: str
) -> tuple[list[Path], int]:
    """Write the missing shards. RETURNS the paths of all, and how many there were.

    n: documents of a shard. write: gets the path without suffix. doing: text of the progress bar.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    n_reused, reading = 0, iter(docs)
    with tqdm(desc=doing, unit="docs", delay=1) as bar:
        while of_shard := list(islice(reading, n)):
            paths.append(folder / f"{len(paths):06d}")
            if paths[-1].with_suffix(".npz").exists():
                n_reused += 1
            else:
                write(paths[-1], of_shard)
            bar.update(len(of_shard))
    return paths, n_reused


def save_shard(path: Path, docs: Iterable[Doc], *attrs: str, **arrays: Any) -> None:
    """Write the words of documents, further attributes, and arrays. The arrays come last."""
    with replacing(path.with_suffix(".spacy")) as part:
        DocBin(["ORTH", "SPACY", *attrs], docs=docs).to_disk(part)
    with replacing(path.with_suffix(".npz")) as part:
        np.savez_compressed(part, **arrays)


def load_shard(path: Path, vocab: Vocab, keys: Sequence[str]) -> tuple[list[Doc], list[Any]]:
    """Return the documents, and the arrays with these keys. ValueError for a damaged shard."""
    with _naming_damaged(path):
        docs = list(DocBin().from_disk(path.with_suffix(".spacy")).get_docs(vocab))
    return docs, load_arrays(path, keys)


def load_arrays(path: Path, keys: Sequence[str]) -> list[Any]:
    """Return the arrays with these keys. ValueError for a damaged shard."""
    with _naming_damaged(path), np.load(path.with_suffix(".npz")) as arrays:
        return [arrays[key] for key in keys]


@contextmanager
def _naming_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # zlib, MessagePack, NumPy and ZIP raise their own
        damaged = f"{path}.spacy or .npz is damaged ({error}); delete both and start again"
        raise ValueError(damaged) from error
