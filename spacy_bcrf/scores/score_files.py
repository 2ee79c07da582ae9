"""A file that keeps the scores of sources, by source, text and tokens."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_MOST = 500
"""Keys of one query. SQLite allows 999."""


class ScoreFile:
    """An SQLite file. Several sources and processes can share it, and a killed one loses a batch.

    Raises ValueError if the file is none of SQLite, or damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Another process may write for long.
            with closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise ValueError(
                f"cache {self.path}: {error}; expected a file that `spacy bcrf scores` wrote, or a "
                "new name"
            ) from error

    def read(
        self, identity: str, keys: Sequence[bytes], n_labels: int
    ) -> dict[bytes, NDArray[np.float32]]:
        """Return the scores (n, L) of known keys. A missing file has none.

        ValueError for data that are no numbers of L labels.
        """
        if not self.path.exists() or not self.path.stat().st_size:
            return {}
        by_row = {_row(identity, key): key for key in keys}
        rows, found = list(by_row), {}
        with self._open() as connection:
            for start in range(0, len(rows), _MOST):
                some = rows[start : start + _MOST]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, data FROM scores WHERE key IN ({marks})"
                for row, data in connection.execute(query, some):
                    if not isinstance(data, bytes) or len(data) % (4 * n_labels):
                        raise ValueError(
                            f"cache {self.path}: a row has no scores of {n_labels} labels. Delete "
                            "the file, and run `spacy bcrf scores` again"
                        )
                    found[by_row[row]] = np.frombuffer(data, "float32").reshape(-1, n_labels)
        return found

    def write(self, identity: str, scores: Mapping[bytes, NDArray[np.float32]]) -> None:
        rows = [(_row(identity, key), values.tobytes()) for key, values in scores.items()]
        with self._open() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, data BLOB)"
            )
            connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)


def _row(identity: str, key: bytes) -> bytes:
    return blake2b(identity.encode() + key, digest_size=16).digest()
