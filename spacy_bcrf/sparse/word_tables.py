"""Tables from words to strings: Brown and other clusters, and word frequencies.

    cluster.brown(4,6,10,20)[0]  prefixes of the word's cluster, a path of bits
    cluster.topics[0]            the whole cluster
    compound.brown(4,6,10,20)[0] prefixes of the cluster of a longer word's beginning
    frequency[0]                 the word's frequency class in the training data

A word that a cluster file does not have takes the cluster of its lowercase form, if any. Only a
word without a cluster either way has a value of `compound`: the cluster of its longest beginning of
at least 4 characters, and the length of the rest, up to 3, or "-" before a hyphen.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bcrf.io.text import CorpusError, Line, read_lines

FREQUENCY = "frequency"
CLUSTER = "cluster"
COMPOUND = "compound"
SHORTEST = 4
"""Characters of a beginning."""
_BITS = re.compile("[01]+")


class WordTables:
    """Named tables from words to strings, which the saved model contains.

    clusters: by word, by name, or the path of a file that `load` reads: `word<TAB>cluster`, or
    `bits<TAB>word<TAB>count` as Liang's brown-cluster writes.
    """

    def __init__(self, clusters: Mapping[str, str | Mapping[str, str]]) -> None:
        self._sources = dict(clusters)
        self.names = sorted(clusters)
        self.tables: dict[str, dict[str, str]] = {
            f"{CLUSTER}.{name}": {} if isinstance(source, str) else dict(source)
            for name, source in clusters.items()
        }

    def load(self) -> None:
        for name, source in self._sources.items():
            if isinstance(source, str):
                self.tables[f"{CLUSTER}.{name}"] = read_clusters(Path(source))

    def count(self, words: Iterable[str]) -> None:
        """Make the table of `frequency`: class k has 2^k to 2^(k+1) - 1 occurrences, up to k = 15.

        Class 0 is left out, so that a word of one occurrence equals an unknown word.
        """
        counts = Counter(words)
        self.tables[FREQUENCY] = {
            word: str(min(n.bit_length() - 1, 15)) for word, n in counts.items() if n > 1
        }

    def find_cluster(self, name: str, lengths: Iterable[int] | None, word: str) -> Iterator[str]:
        """Yield the prefixes of a word's cluster, up to the whole cluster, which has no lengths."""
        table = self.tables[f"{CLUSTER}.{name}"]
        return _prefixes(table.get(word) or table.get(word.lower(), ""), lengths)

    def find_compound(self, name: str, lengths: Iterable[int] | None, word: str) -> Iterator[str]:
        """Yield the prefixes of the cluster of a longer word's beginning, each with the rest."""
        table = self.tables[f"{CLUSTER}.{name}"]
        if table.get(word) or table.get(word.lower()):
            return
        for n in range(len(word) - 1, SHORTEST - 1, -1):
            if cluster := table.get(word[:n]):
                rest = "-" if word[n] == "-" else min(len(word) - n, 3)
                yield from (f"{prefix} {rest}" for prefix in _prefixes(cluster, lengths))
                break

    def find_frequency(self, word: str) -> Iterator[str]:
        yield self.tables.get(FREQUENCY, {}).get(word, "0")


def _prefixes(cluster: str, lengths: Iterable[int] | None) -> Iterator[str]:
    for n in (len(cluster),) if lengths is None else lengths:
        if cluster:
            yield cluster[:n]
        if n >= len(cluster):
            break


def read_clusters(path: Path) -> dict[str, str]:
    """Read the cluster of each word. Raises CorpusError naming the file and the malformed line."""
    clusters: dict[str, str] = {}
    for line in read_lines(path):
        if not line.text.strip():
            continue
        word, cluster = _read_pair(line)
        if clusters.setdefault(word, cluster) != cluster:
            raise line.error(f"the word {word!r} has the cluster {clusters[word]!r} already")
    if not clusters:
        raise CorpusError(f"{path}: no clusters; expected lines of a word, a tab and its cluster")
    return clusters


def _read_pair(line: Line) -> tuple[str, str]:
    fields = [field.strip() for field in line.text.split("\t")]
    if len(fields) == 3 and _BITS.fullmatch(fields[0]) and fields[2].isdecimal():
        fields = [fields[1], fields[0]]
    if len(fields) != 2 or not all(fields):
        raise line.error(
            "expected word<TAB>cluster, or bits<TAB>word<TAB>count as brown-cluster writes them, "
            f"got {line.text[:60]!r}"
        )
    return fields[0], fields[1]
