"""Shards of documents with the votes of sources, which an interrupted `aggregate` keeps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ENT_IOB, ENT_TYPE  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.vocab import Vocab

from bcrf.chain.votes import Votes
from bcrf.schemes import get_scheme
from spacy_bcrf.annotation.arrays import UNKNOWN, doc_lengths, is_first, read_attributes
from spacy_bcrf.annotation.entity_tags import EntityTags
from spacy_bcrf.annotation.tokenizers import copy_words

from .array_shards import load_arrays, load_shard, save_shard, write_missing
from .records import text_key
from .sources import Source

SCHEME = get_scheme("BILUO")
"""The tags of merged entities."""


class VoteShard(NamedTuple):
    """Documents, the votes of each source, how many it left out, and known tags (N,).

    left_out: (S, 2), the spans that overlap another one, and those that the map drops.
    """

    docs: Sequence[Doc]
    votes: list[Votes]
    left_out: NDArray[np.int64]
    tags: NDArray[np.int32]

    @property
    def lengths(self) -> NDArray[np.int32]:
        return doc_lengths(self.docs)

    def select(self, keep: NDArray[np.bool_]) -> "VoteShard":
        """Return some of the documents (B,) with their votes."""
        tokens = np.repeat(keep, self.lengths)
        moved = np.append(0, tokens.cumsum())
        votes = []
        for one in self.votes:
            inside = tokens[one.starts]
            starts, ends, symbols, weights, looked = one[:5]
            at = moved[starts[inside]], moved[ends[inside]], symbols[inside], weights[inside]
            votes.append(Votes(*at, looked[tokens], one.means, one.denies))
        docs = list(compress(self.docs, keep.tolist()))
        return self._replace(docs=docs, votes=votes, tags=self.tags[tokens])


class VoteShards:
    """The votes of sources on documents and on gold documents, in files of a folder.

    gold: the shard of gold documents with their tags, None without. unmatched: for each source, the
    places of its records whose texts are no documents. n_reused: shards of an earlier call. Votes
    on gold come first: their errors should not wait for those on all documents.
    """

    def __init__(
        self,
        docs: Iterable[Doc],
        gold: Sequence[Doc],
        sources: Sequence[Source],
        labels: Sequence[str],
        folder: Path,
        size: int,
    ) -> None:
        self.sources = sources
        self.unmatched = {source.name: dict(source.places) for source in sources if source.places}

        def write(path: Path, of_shard: list[Doc]) -> None:
            _save_votes(path, _vote(of_shard, sources, labels))

        list(_match(gold, self.unmatched))
        of_gold = _vote(gold, sources, labels) if gold else None
        reading = _match(docs, self.unmatched)
        self._paths, self.n_reused = write_missing(reading, folder, size, write, "voting")
        self._n_tokens = 0
        tables = []
        for path in self._paths:
            n_symbols, means, n_tokens = load_arrays(path, ("n_symbols", "means", "n_tokens"))
            tables.append(np.split(means, n_symbols.cumsum()[:-1]))
            self._n_tokens += int(n_tokens)
        if of_gold is not None:
            tables.append([of_source.means for of_source in of_gold.votes])
        self._means = [_unite(of_source) for of_source in zip(*tables, strict=True)]
        self.gold = of_gold
        if of_gold is not None:
            votes = list(map(_renumber, of_gold.votes, self._means))
            self.gold = of_gold._replace(votes=votes, tags=_encode_entities(gold, labels))

    def __len__(self) -> int:
        return len(self._paths)

    def name(self, i: int) -> str:
        """Return the name of a shard's files, without suffix."""
        return self._paths[i].name

    def sample(self, n_tokens: int) -> Iterator[VoteShard]:
        """Yield shards with about this number of tokens: all, or documents by their hashes."""
        share = n_tokens / max(self._n_tokens, 1)
        for i in range(len(self)):
            shard = self.load(i)
            if share >= 1:
                yield shard
            else:
                hashes = [text_key(doc)[:8] for doc in shard.docs]
                keep = np.frombuffer(b"".join(hashes), dtype="<u8") < share * 2.0**64
                yield shard.select(keep)

    def load(self, i: int) -> VoteShard:
        """Return a shard. A symbol of a source means the same in all shards."""
        keys = ("sizes", "spans", "weights", "looked", "left_out", "n_symbols", "means")
        docs, arrays = load_shard(self._paths[i], Vocab(), keys)
        sizes, spans, weights, looked, left_out, n_symbols, means = arrays
        n_tokens, cuts = sum(map(len, docs)), sizes.cumsum()[:-1]
        columns = zip(
            np.split(spans, cuts),
            np.split(weights, cuts),
            np.unpackbits(looked, axis=1, count=n_tokens).astype(bool),
            self.sources,
            np.split(means, n_symbols.cumsum()[:-1]),
            self._means,
            strict=True,
        )
        votes = [
            _renumber(Votes.of(s, seen, own, source.denies, w), of_all)
            for s, w, seen, source, own, of_all in columns
        ]
        return VoteShard(docs, votes, left_out, np.full(n_tokens, UNKNOWN, dtype="int32"))


def find_voted(votes: Sequence[Votes]) -> NDArray[np.bool_]:
    """Return a mask (N,) of the tokens in spans, which do not overlap in a source."""
    edges = np.zeros(len(votes[0].looked) + 1, dtype="int32")
    for of_source in votes:
        np.add.at(edges, of_source.starts, 1)
        np.subtract.at(edges, of_source.ends, 1)
    return edges.cumsum()[:-1] > 0


def _match(docs: Iterable[Doc], unmatched: Mapping[str, dict[bytes, str]]) -> Iterator[Doc]:
    """Yield documents, and remove their texts from the unmatched ones of each source."""
    for doc in docs:
        key = text_key(doc) if unmatched else b""
        for places in unmatched.values():
            places.pop(key, None)
        yield doc


def _vote(docs: Sequence[Doc], sources: Sequence[Source], labels: Sequence[str]) -> VoteShard:
    """Return votes on documents, without known tags."""
    votes, left_out = zip(*(source.vote(docs, labels) for source in sources), strict=True)
    tags = np.full(sum(map(len, docs)), UNKNOWN, dtype="int32")
    return VoteShard(docs, list(votes), np.array(left_out), tags)


def _encode_entities(docs: Sequence[Doc], labels: Sequence[str]) -> NDArray[np.int32]:
    entities = EntityTags(SCHEME, labels, [docs[0].vocab.strings[label] for label in labels])
    iob, kind = read_attributes(docs, (ENT_IOB, ENT_TYPE)).T
    return entities.encode(iob, kind, is_first(doc_lengths(docs)))[0]


def _save_votes(path: Path, shard: VoteShard) -> None:
    # Without the span groups, which `DocBin` would store: 4 ms per document.
    bare = (copy_words(doc, doc.vocab) for doc in shard.docs)
    spans = [np.stack(of_source[:3], axis=1) for of_source in shard.votes]
    save_shard(
        path,
        bare,
        sizes=list(map(len, spans)),
        n_symbols=[len(of_source.means) for of_source in shard.votes],
        means=np.concatenate([of_source.means for of_source in shard.votes]),
        spans=np.concatenate(spans),
        weights=np.concatenate([of_source.weights for of_source in shard.votes]),
        looked=np.packbits([of_source.looked for of_source in shard.votes], axis=1),
        left_out=shard.left_out,
        n_tokens=len(shard.tags),
    )


def _unite(tables: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return all labels (L, L), and below them the alternatives of tables (K, L), each once."""
    single = np.eye(tables[0].shape[1], dtype=bool)
    rows = np.unique(np.concatenate(tables), axis=0)
    return np.concatenate((single, rows[rows.sum(axis=1) > 1]))


def _renumber(votes: Votes, means: NDArray[np.bool_]) -> Votes:
    """Return votes with the symbols of a larger table (K, L)."""
    rows = means.tolist()
    numbers = np.array([rows.index(row) for row in votes.means.tolist()], dtype="int64")
    return votes._replace(symbols=numbers[votes.symbols], means=means)
