"""Shards: the unit of work, of writing and of resuming."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from spacy_bcrf.corpora.texts import Rejected, TextItem, TextRecord

MAX_CHARACTERS = 8_000_000
"""A shard ends after this number of characters of text and meta data, so that it fits in memory."""


class Shard(NamedTuple):
    """Consecutive records. n_bytes: bytes read from the inputs up to its end, about.

    careful: whether to annotate one record at a time, and to note which, because workers died.
    """

    number: int
    items: list[TextItem]
    n_bytes: int
    careful: bool = False


class Finished(NamedTuple):
    """The outcome of a shard: read = written + failed; written tokens; size and hash of a file."""

    number: int
    n_read: int
    n_written: int
    n_words: int
    failures: list[Rejected]
    size: int = 0
    hash: str = ""


class RunCounts(NamedTuple):
    """Numbers of documents, read = written + failed, of words, and of failed rests of files."""

    read: int
    written: int
    failed: int
    words: int
    unread: int = 0


def split_shards(
    items: Iterable[TextItem], size: int, bytes_read: Callable[[], int]
) -> Iterator[Shard]:
    """Yield shards of `size` records, or of fewer with MAX_CHARACTERS, the same at each start."""
    number, n_characters = 0, 0
    shard: list[TextItem] = []
    for item in items:
        shard.append(item)
        n_characters += item.n_characters if isinstance(item, TextRecord) else 0
        if len(shard) == size or n_characters >= MAX_CHARACTERS:
            yield Shard(number, shard, bytes_read())
            number, n_characters, shard = number + 1, 0, []
    if shard:
        yield Shard(number, shard, bytes_read())
