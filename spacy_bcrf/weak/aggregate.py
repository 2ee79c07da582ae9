"""`aggregate`: entities of documents, and figures of sources, from the votes of these sources."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span
from tqdm import tqdm

from bcrf.chain import Potentials
from spacy_bcrf.annotation.arrays import doc_lengths, split_spans
from spacy_bcrf.corpora.identity import keep_identity

from .aggregated import Aggregated, summarize
from .array_shards import save_shard
from .judge import Judge
from .merging import fit_merger
from .sources import Source
from .vote_shards import SCHEME, VoteShards

REPEATS = Source("repeats", lambda docs: [None] * len(docs))
"""The texts themselves as a source, see `Repeats`."""


def aggregate(
    docs: Iterable[Doc],
    sources: Sequence[Source],
    labels: Sequence[str],
    output: Path,
    *,
    gold: Sequence[Doc] = (),
    folder: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    shard_size: int = 1000,
    corpus: str = "the corpus",
) -> Aggregated:
    """Estimate the entities of documents from sources that may be wrong or silent.

    `chain.votes.fit_votes` estimates the sources. `output`, an existing folder, gets two files
    a shard: the documents with the entities of their best labelings (.spacy), and the chain of all
    labelings (.npz), from which `distill` learns.

    docs: read once, with one shard in memory. labels: of the entities. gold: documents with known
    entities; they improve the estimates, and give the true figures of the sources. folder: keeps
    the votes, so that the same call resumes. identity: of sources and documents; another one than
    that of an earlier call is an error. corpus: its name, for errors. ValueError without documents
    or votes, for gold without these labels, for a label of a source that nobody mapped, and for two
    sources with one name.
    """
    names = Counter([REPEATS.name, *(source.name for source in sources)])
    if twice := [name for name, n in names.items() if n > 1]:
        built_in = "; it is the built-in source of repeats" * (twice[0] == REPEATS.name)
        raise ValueError(f"source {twice[0]!r}: expected a name that no other has{built_in}")
    in_gold = {ent.label_ for doc in gold for ent in doc.ents}
    if gold and in_gold.isdisjoint(labels):
        raise ValueError(
            f"gold: expected entities with the labels {', '.join(labels)}, got "
            f"{', '.join(sorted(in_gold)) or 'no entity'} in {len(gold):,} documents"
        )
    with TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        target = Path(place)
        if identity is not None:
            keep_identity(target / "manifest.json", identity)
        shards = VoteShards(docs, gold, sources, labels, target, shard_size)
        if not len(shards):
            raise ValueError(f"{corpus}: there are no texts")
        try:
            merger = fit_merger(shards, labels)
        except ValueError as error:
            raise ValueError(f"{corpus}: {error}") from None
        judge = Judge(merger, [*sources, REPEATS], labels, shards.gold)
        for i in tqdm(range(len(shards)), "aggregating", unit="shards", delay=1):
            shard = shards.load(i)
            _write_shard(output / shards.name(i), shard.docs, *judge.add(shard), labels)
        return summarize(judge, shards.unmatched, shards.n_reused)


def _write_shard(
    path: Path,
    docs: Sequence[Doc],
    weights: NDArray[np.float64],
    tags: NDArray[np.int32],
    chain: Potentials,
    labels: Sequence[str],
) -> None:
    found = split_spans(docs, *SCHEME.decode_ids(tags, doc_lengths(docs)))
    for doc, spans in zip(docs, found, strict=True):
        doc.set_ents([Span(doc, start, end, label=labels[k]) for start, end, k in spans])
    save_shard(
        path,
        docs,
        "ENT_IOB",
        "ENT_TYPE",
        unary=chain.unary.astype("float32"),
        transitions=chain.transitions,
        weights=weights.astype("float32"),
    )
