"""Corpora in one `.spacy` file or in a folder of them (shards), read one file at a time."""

import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, DocBin
from spacy.tokens._serialize import ALL_ATTRS
from spacy.vocab import Vocab
from srsly.msgpack import msgpack_decoders, msgpack_encoders

from bcrf.io.atomic import is_stream, replacing, replacing_folder
from bcrf.io.text import BLOCK, CorpusError, open_decompressed
from spacy_bcrf.annotation.extensions import set_extensions

MIN_LIMIT = 64 << 20
"""A `.spacy` file can have this number of decompressed bytes, whatever its size."""
MAX_RATIO = 32
"""Largest compression of a larger `.spacy` file. Real corpora reach about 8."""
_CODERS = msgpack_encoders, msgpack_decoders


def find_files(path: Path) -> list[Path]:
    """Return the `.spacy` files of a corpus, sorted, without dot files. CorpusError without any."""
    files = [path]
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.spacy") if not file.is_dir())
        files = [x for x in found if not any(y[0] == "." for y in x.relative_to(path).parts)]
    if not files:
        is_pipeline = (path / "config.cfg").exists()
        hint = "it is a pipeline, expected a corpus" if is_pipeline else "`convert` writes one"
        raise CorpusError(f"{path}: the folder has no .spacy file; {hint}")
    if not all(file.is_file() for file in files):
        raise CorpusError(
            f"{path}: found no such file; expected a .spacy file, or a folder of .spacy files"
        )
    return files


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Yield the documents of a corpus, a file in memory at a time. CorpusError names a bad file."""
    yield from _read_files(find_files(path), vocab)


def read_own_docs(corpus: Path) -> Iterator[Doc]:
    """Yield the documents of a .spacy file or of a folder of them, in their own vocabulary."""
    set_extensions()
    return read_docs(corpus, Vocab())


def check_corpus(corpus: Path) -> None:
    """Raise ValueError for a corpus that is neither a .spacy file nor a folder of them."""
    for file in find_files(corpus):
        if file.suffix != ".spacy":
            raise ValueError(f"{file}: expected a .spacy file, or a folder of .spacy files")


def read_shuffled(
    files: Sequence[Path], vocab: Vocab, rng: random.Random, buffer_size: int
) -> Iterator[Doc]:
    """Yield documents in random order: each takes the place of one of a buffer, and that comes."""
    buffer: list[Doc] = []
    for doc in _read_files(rng.sample(files, len(files)), vocab):
        if len(buffer) < buffer_size:
            buffer.append(doc)
        else:
            i = rng.randrange(buffer_size)
            yield buffer[i]
            buffer[i] = doc
    rng.shuffle(buffer)
    yield from buffer


def load_docs(path: Path) -> DocBin:
    """Load a `.spacy` file, also one compressed again. Damaged content raises other exceptions.

    CorpusError for an empty or truncated file, or a zip bomb: annotation compresses less.
    """
    limit = max(MIN_LIMIT, MAX_RATIO * path.stat().st_size)
    with open_decompressed(path) as stream:
        data = stream.read(limit + 1)
    zipped = zlib.decompressobj()
    size, start, rest = len(data), 0, b""
    while size <= limit and (rest or start < len(data)):
        if not rest:
            rest, start = data[start : start + BLOCK], start + BLOCK
        size += len(zipped.decompress(rest, BLOCK))
        rest = zipped.unconsumed_tail
    if size > limit:
        raise CorpusError(
            f"{path}: has more than {limit >> 20} MiB when decompressed, too much for its size; "
            "if that is right, `convert --shard` writes smaller files"
        )
    if not zipped.eof:
        what = "it ends too early" if data else "it is empty"
        raise CorpusError(f"{path}: cannot be read as a .spacy file: {what}")
    return _Docs(store_user_data=True).from_bytes(data)


@contextmanager
def naming_damaged(path: Path) -> Iterator[None]:
    """Raise CorpusError that names a `.spacy` file for an error in it."""
    try:
        yield
    except CorpusError:
        raise
    except Exception as error:  # zlib, msgpack and spaCy raise different types
        raise CorpusError(f"{path}: cannot be read as a .spacy file: {error}") from error


def _read_files(files: Iterable[Path], vocab: Vocab) -> Iterator[Doc]:
    for file in files:
        with naming_damaged(file):
            yield from load_docs(file).get_docs(vocab)


class _Docs(DocBin):
    """A `DocBin` without empty user data, whose reading takes longer than all the rest."""

    def get_docs(self, vocab: Vocab) -> Iterator[Doc]:
        reading, found = super().get_docs(vocab), _find_coders()
        while True:
            with _without_search(found):
                doc = next(reading, None)
            if doc is None:
                return
            yield doc

    def add(self, doc: Doc) -> None:
        self.store_user_data = bool(doc.user_data)
        super().add(doc)
        self.store_user_data = True
        if not doc.user_data:
            self.user_data.append(None)


def _find_coders() -> list[dict[str, Any]]:
    return [registry.get_all() for registry in _CODERS]


@contextmanager
def _without_search(found: list[dict[str, Any]]) -> Iterator[None]:
    """Keep srsly from a search of all entry points for each span group, which takes 0.4 ms."""
    for registry, coders in zip(_CODERS, found, strict=True):
        vars(registry)["get_all"] = partial(dict, coders)
    try:
        yield
    finally:
        for registry in _CODERS:
            vars(registry).pop("get_all", None)


@contextmanager
def _naming_output(path: Path) -> Iterator[None]:
    """Raise CorpusError that names an output for an error of the system."""
    try:
        yield
    except OSError as error:
        raise CorpusError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_all(
    docs: Iterable[Doc], path: Path, shard: int = 0, attrs: Sequence[str] = ALL_ATTRS
) -> int:
    """Write documents to a file or folder that appears at the end, whole. RETURNS their number.

    shard: documents of a file of a folder; 0 for one file. attrs: of tokens, to store. After an
    exception nothing changes. ValueError for a path that is no `.spacy` file or device, or a full
    folder. CorpusError if writing fails.
    """
    if not shard and (path.is_dir() or not (path.suffix == ".spacy" or is_stream(path))):
        raise ValueError(f"{path}: expected the name of a .spacy file to write")
    docs, n_docs, coders = iter(docs), 0, _find_coders()
    with ExitStack() as stack:
        with _naming_output(path):  # but not around `docs`, which may read other files
            folder = stack.enter_context(replacing_folder(path)) if shard else path
        while not n_docs or (shard and not n_docs % shard):
            found = _Docs(attrs, store_user_data=True)
            for doc in islice(docs, shard or None):
                with _without_search(coders):
                    found.add(doc)
            with _naming_output(path):
                if not shard:
                    with replacing(path) as part:
                        found.to_disk(part)
                elif len(found):
                    found.to_disk(folder / f"{n_docs // shard:06d}.spacy")
            if not len(found):
                break
            n_docs += len(found)
        with _naming_output(path):
            stack.close()
    return n_docs
