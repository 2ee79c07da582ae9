"""`aggregate`: entities of documents, and figures of sources, from the votes of these sources."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from heapq import nlargest
from itertools import compress
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ENT_IOB, ENT_TYPE  # type: ignore[import-not-found]
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab
from tqdm import tqdm

from bcrf.chain import CRF, Potentials, entropy, span_posteriors, viterbi
from bcrf.chain.annotators import NEAR_COPY, SPANS, VoteModel, Votes, fit_votes
from bcrf.schemes import get_scheme
from spacy_bcrf.annotation.arrays import UNKNOWN, doc_lengths, is_first, read_docs, split_spans
from spacy_bcrf.annotation.entity_tags import EntityTags
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.identity import keep_identity

from .array_shards import load_arrays, load_shard, save_shard, write_missing
from .candidates import group_overlaps
from .repeats import Repeats
from .result import Result
from .sources import Source, hash_text

SCHEME = get_scheme("BILUO")
MAX_FIT = 300_000
"""Number of tokens that the model is fitted on, about: whole shards in random order."""
TELLS = 8, 4
"""Votes tell no more of precision and recall than this number of gold spans: sources share errors,
and entities that no source finds lower the recall. Chosen with gold of the validation parts of four
corpora, so that 19 of 20 intervals have the truth, also with halves of the sources."""
SILENT = 0.02
"""Weight of a token, for `distill`, by source that abstains there; of other tokens 1. Silence says
little: the chain finds entities that no source has. Chosen on the validation parts of four corpora.
"""
N_SHOWN = 50
"""Number of conflicts, and of documents to annotate, that a result lists."""

REPEATS = Source("repeats", lambda docs: [None] * len(docs))
"""The texts themselves as a source, see `Repeats`."""


class Share(NamedTuple):
    """The share `value` of `n`, with its 95% interval by Wilson (1927); None of nothing.

    true: the share on gold documents, None without.
    """

    n: float
    value: float | None
    low: float | None
    high: float | None
    true: float | None


class Figures(NamedTuple):
    """Estimated figures of a source for a label: of its spans, and of the entities it looked at.

    Recall is a share of the entities of the result. It is too high: some entities have no source.
    """

    label: str
    precision: Share
    recall: Share


@dataclass(repr=False)
class Aggregated(Result):
    """What sources tell of documents.

    n_entities: of the best labelings, by label. figures: of each source, by label. weights: of each
    source, 1 for one that is nobody's copy. agreement: (S, S), of the spans of a row's source, the
    share that the column's source has too. copies: pairs of near-copies, and their correlation.
    conflicts: places where sources differ, the most uncertain first. unsure: documents whose gold
    annotation would tell most. n_reused: number of shards with votes of an earlier call.
    """

    n_docs: int
    n_entities: dict[str, int]
    figures: dict[str, list[Figures]]
    weights: dict[str, float]
    agreement: NDArray[np.float64]
    copies: list[tuple[str, str, float]]
    conflicts: list[dict[str, Any]]
    unsure: list[dict[str, Any]]
    notes: list[str]
    n_reused: int = 0

    def __repr__(self) -> str:
        return f"{sum(self.n_entities.values()):,} entities in {self.n_docs:,} documents"

    def rows(self) -> list[tuple[str, ...]]:
        rows = [
            (name, one.label, f"{one.precision.n:,.0f}", _show(one.precision), _show(one.recall))
            for name, of_source in self.figures.items()
            for one in of_source
            if one.precision.n
        ]
        return [("source", "label", "spans", "precision", "recall"), *rows]


def _show(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.3f}"


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
    seed: int = 0,
    corpus: str = "the corpus",
) -> Aggregated:
    """Estimate the entities of documents from sources that may be wrong or silent.

    `chain.annotators.fit_votes` estimates the sources. `output`, an existing folder, gets two files
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
    unmatched = {source.name: dict(source.places) for source in sources if source.places}

    def write(path: Path, of_shard: list[Doc]) -> None:
        _write_votes(path, _vote(of_shard, sources, labels))

    with TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        target = Path(place)
        if identity is not None:
            keep_identity(target / "manifest.json", identity)
        list(_match(gold, unmatched))
        # Before the votes on documents, which may take long: its errors come first.
        of_gold = _vote(gold, sources, labels) if gold else None
        reading = _match(docs, unmatched)
        paths, n_reused = write_missing(reading, target, shard_size, write, "voting")
        if not paths:
            raise ValueError(f"{corpus}: there are no texts")
        tables = [_read_means(path) for path in paths]
        if of_gold is not None:
            tables.append([of_source.means for of_source in of_gold.votes])
        means = [_unite(of_source) for of_source in zip(*tables, strict=True)]
        if of_gold is not None:
            votes = list(map(_renumber, of_gold.votes, means))
            of_gold = of_gold._replace(votes=votes, tags=_encode_entities(gold, labels))
        merger = _fit(paths, sources, means, labels, of_gold, seed, corpus)
        judge = _Judge(merger, [*sources, REPEATS], labels, of_gold)
        judge.notes += [
            f"{name}: {len(places):,} of its texts are no documents here, and left out, such as "
            f"{next(iter(places.values()))}"
            for name, places in unmatched.items()
            if places
        ]
        for path in tqdm(paths, "aggregating", unit="shards", delay=1):
            shard = _read_votes(path, sources, means)
            _write_shard(output / path.name, shard.docs, *judge.add(shard), labels)
        return judge.result(n_reused)


def _match(docs: Iterable[Doc], unmatched: Mapping[str, dict[bytes, str]]) -> Iterator[Doc]:
    """Yield documents, and remove their texts from the unmatched ones of each source."""
    for doc in docs:
        key = hash_text(doc) if unmatched else b""
        for places in unmatched.values():
            places.pop(key, None)
        yield doc


class _Shard(NamedTuple):
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


def _vote(docs: Sequence[Doc], sources: Sequence[Source], labels: Sequence[str]) -> _Shard:
    """Return votes on documents, without known tags."""
    votes, left_out = zip(*(source.vote(docs, labels) for source in sources), strict=True)
    tags = np.full(sum(map(len, docs)), UNKNOWN, dtype="int32")
    return _Shard(docs, list(votes), np.array(left_out), tags)


def _encode_entities(docs: Sequence[Doc], labels: Sequence[str]) -> NDArray[np.int32]:
    entities = EntityTags(SCHEME, labels, [docs[0].vocab.strings[label] for label in labels])
    iob, kind = read_docs(docs, (ENT_IOB, ENT_TYPE)).T
    return entities.encode(iob, kind, is_first(doc_lengths(docs)))[0]


def _write_votes(path: Path, shard: _Shard) -> None:
    # Without the span groups, which `DocBin` would store: 4 ms a document.
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
    )


def _read_means(path: Path) -> list[NDArray[np.bool_]]:
    """Return what the symbols of each source mean in a shard (K, L)."""
    n_symbols, means = load_arrays(path, ("n_symbols", "means"))
    return np.split(means, n_symbols.cumsum()[:-1])


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


def _read_votes(
    path: Path, sources: Sequence[Source], means: Sequence[NDArray[np.bool_]]
) -> _Shard:
    """Read a shard. means: by source, the table (K, L) of its symbols in all shards."""
    keys = ("sizes", "spans", "weights", "looked", "left_out")
    docs, (sizes, spans, weights, looked, left_out) = load_shard(path, Vocab(), keys)
    n_tokens, cuts = sum(map(len, docs)), sizes.cumsum()[:-1]
    columns = zip(
        np.split(spans, cuts),
        np.split(weights, cuts),
        np.unpackbits(looked, axis=1, count=n_tokens).astype(bool),
        sources,
        _read_means(path),
        means,
        strict=True,
    )
    votes = [
        _renumber(Votes.of(s, seen, own, source.denies, w), of_all)
        for s, w, seen, source, own, of_all in columns
    ]
    return _Shard(docs, votes, left_out, np.full(n_tokens, UNKNOWN, dtype="int32"))


@dataclass
class _Merger:
    """A model of the votes of the sources, the repeats of what it finds, and a model of both."""

    of_sources: VoteModel
    repeats: Repeats
    labels: Sequence[str]
    model: VoteModel

    def add_repeats(self, shard: _Shard) -> list[Votes]:
        """Return the votes on a shard, with the repeats as a further source."""
        tags, _ = viterbi(self.of_sources.posterior(shard.votes, shard.lengths))
        found = self.repeats.find(shard.docs, _spans(tags, shard.lengths), tags, _voted(shard))
        missed = np.zeros(len(tags), dtype=bool)
        for start, end, _ in found:
            missed[start:end] = True
        # That no source found it is no evidence against a repeat.
        votes = [each._replace(looked=each.looked & ~missed) for each in shard.votes]
        return [*votes, Votes.of(found, np.ones_like(missed), np.eye(len(self.labels)))]


def _spans(tags: NDArray[np.int32], lengths: NDArray[np.int32]) -> list[tuple[int, int, int]]:
    columns = SCHEME.decode_ids(tags, lengths)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _voted(shard: _Shard) -> NDArray[np.bool_]:
    """Return a mask (N,) of the tokens with a vote, or a known tag."""
    return (shard.tags != UNKNOWN) | _find_voted(shard.votes)


def _find_voted(votes: Sequence[Votes]) -> NDArray[np.bool_]:
    """Return a mask (N,) of the tokens in spans, which do not overlap in a source."""
    edges = np.zeros(len(votes[0].looked) + 1, dtype="int32")
    for of_source in votes:
        np.add.at(edges, of_source.starts, 1)
        np.subtract.at(edges, of_source.ends, 1)
    return edges.cumsum()[:-1] > 0


def _find_told(votes: Votes) -> NDArray[np.bool_]:
    """Return a mask (N,) of the tokens where a source has a span or denies one."""
    return _find_voted([votes]) | (votes.denies & votes.looked)


def _fit(
    paths: Sequence[Path],
    sources: Sequence[Source],
    means: Sequence[NDArray[np.bool_]],
    labels: Sequence[str],
    gold: _Shard | None,
    seed: int,
    corpus: str,
) -> _Merger:
    """Fit the models on gold documents, and on shards in random order."""
    parts = [] if gold is None else [gold]
    n_tokens = 0
    for i in np.random.default_rng(seed).permutation(len(paths)).tolist():
        parts.append(_read_votes(paths[i], sources, means))
        n_tokens += len(parts[-1].tags)
        if n_tokens > MAX_FIT:
            break
    lengths = np.concatenate([part.lengths for part in parts])
    if not any(len(of_source.starts) for part in parts for of_source in part.votes):
        names = ", ".join(source.name for source in sources)
        n_dropped = sum(int(part.left_out[:, 1].sum()) for part in parts)
        raise ValueError(
            f"{corpus}: no source proposes a span in {len(lengths):,} documents ({names}); their "
            f"maps drop {n_dropped:,} spans; nothing can be learned"
        )
    known = np.concatenate([part.tags for part in parts])
    constraints = SCHEME.constraints(labels)

    def fit(by_part: Iterable[Sequence[Votes]]) -> VoteModel:
        votes = [Votes.join(of_source) for of_source in zip(*by_part, strict=True)]
        return fit_votes(votes, lengths, SCHEME.span_tags(labels), constraints, known)

    model = fit(part.votes for part in parts)
    merger = _Merger(model, Repeats(), labels, model)
    for part in parts:
        tags, _ = viterbi(model.posterior(part.votes, part.lengths))
        merger.repeats.learn(part.docs, _spans(tags, part.lengths), tags, _voted(part))
    merger.model = fit(map(merger.add_repeats, parts))
    return merger


class _Judge:
    """Sums of what the sources and the model say, shard by shard."""

    def __init__(
        self,
        merger: _Merger,
        sources: Sequence[Source],
        labels: Sequence[str],
        gold: _Shard | None,
    ) -> None:
        self.merger, self.sources, self.labels = merger, sources, labels
        s, n_labels = len(sources), len(labels)
        self.n_docs, self.left_out = 0, np.zeros((s - 1, 2), dtype="int64")
        self.notes: list[str] = []
        self.n_entities = np.zeros(n_labels, dtype="int64")
        # See `_count`: estimated on all documents, and estimated and true on gold documents.
        self.sums, self.guessed, self.true = np.zeros((3, 2, s, n_labels, 2))
        self.same = np.zeros((s, s))
        # Which labels a source proposes, and which sources tell something.
        self.proposed, self.tells = np.zeros(n_labels, dtype=bool), np.zeros(s, dtype=bool)
        self.conflicts: list[dict[str, Any]] = []
        self.unsure: list[dict[str, Any]] = []
        if gold is not None:
            votes, n_tags = merger.add_repeats(gold), 1 + 4 * n_labels
            chain = merger.model.posterior(votes, gold.lengths)
            self.guessed = self._count(votes, chain)
            is_known = gold.tags[:, None] == np.arange(n_tags)
            certain = np.where(is_known | (gold.tags == UNKNOWN)[:, None], 0.0, -np.inf)
            exact = chain.with_scores(certain, np.zeros((n_tags, n_tags)))
            self.true = self._count(votes, exact, is_true=True)

    def add(self, shard: _Shard) -> tuple[NDArray[np.float64], NDArray[np.int32], Potentials]:
        """Count a shard.

        RETURNS what `distill` should learn from tokens (N,), at most 1, the best labelings (N,),
        and the chain of all labelings.
        """
        votes = self.merger.add_repeats(shard)
        chain = self.merger.model.posterior(votes, shard.lengths)
        tags, _ = viterbi(chain)
        entities = _spans(tags, shard.lengths)
        self.n_entities += np.bincount([k for *_, k in entities], minlength=len(self.labels))
        self.sums += self._count(votes, chain)
        spans = list(map(self._name_spans, votes))
        self.same += [[len(one & other) for other in spans] for one in spans]
        self._find_unsure(shard, chain)
        self._find_conflicts(shard, chain, entities, spans)
        self.n_docs += len(shard.docs)
        self.left_out += shard.left_out
        told = np.array(list(map(_find_told, votes)))
        self.tells |= np.any(told, axis=1)
        for of_source in votes:
            self.proposed |= of_source.means[of_source.symbols].any(axis=0)
        silent = SILENT * np.sum([of_source.looked for of_source in shard.votes], axis=0)
        return np.where(told.any(axis=0), 1.0, silent.clip(max=1)), tags, chain

    def _name_spans(self, votes: Votes) -> set[tuple[int, int, str]]:
        names = [" or ".join(compress(self.labels, row)) for row in votes.means.tolist()]
        return {(a, b, names[k]) for a, b, k in zip(*(x.tolist() for x in votes[:3]), strict=True)}

    def _count(
        self, votes: Sequence[Votes], chain: Potentials, is_true: bool = False
    ) -> NDArray[np.float64]:
        """Return sums (2, S, L, 2), for precision and recall: of all and right ones.

        Of precision, these are the spans of a source; others judge a span if one votes on a token
        of it, or denies it. No vote tells whether another span is right: it counts with the prior
        precision of the source. Of recall, these are the entities where the source looked.
        """
        span_tags = SCHEME.span_tags(self.labels)
        unary = CRF().marginals(chain).unary
        opened = unary[:, span_tags.first] + unary[:, span_tags.single]
        says = list(map(_find_told, votes))
        n_say = np.sum(says, axis=0)
        sums = np.zeros((2, len(votes), len(self.labels), 2))
        for i, of_source in enumerate(votes):
            means = of_source.means[of_source.symbols]
            others = np.append(0, (n_say > says[i]).cumsum())
            judged = others[of_source.starts] < others[of_source.ends]
            p = np.zeros(means.shape)
            for label in range(len(self.labels)):
                may = means[:, label]
                at = of_source.starts[may], of_source.ends[may], np.full(may.sum(), label)
                p[may, label] = span_posteriors(chain, span_tags, *at)
            # A vote for alternatives counts for the most probable one.
            best = (p + 1e-9 * means).argmax(axis=1)
            right, prior = p.sum(axis=1), self.merger.model.precisions[i][of_source.symbols]
            for k, x in enumerate((None, np.where(judged | is_true, right, prior))):
                sums[0, i, :, k] = np.bincount(best, x, len(self.labels))
            n_true = opened[of_source.looked].sum(axis=0)
            sums[1, i] = np.stack((n_true, np.bincount(best, right, len(self.labels))), 1)
        return sums

    def _find_unsure(self, shard: _Shard, chain: Potentials) -> None:
        """Keep the most uncertain documents."""
        found = [
            {"document": self.n_docs + i, "entropy": nats, "text": doc.text[:300]}
            for i, (doc, nats) in enumerate(zip(shard.docs, entropy(chain).tolist(), strict=True))
        ]
        self.unsure = nlargest(N_SHOWN, [*self.unsure, *found], itemgetter("entropy"))

    def _find_conflicts(
        self,
        shard: _Shard,
        chain: Potentials,
        entities: Sequence[tuple[int, int, int]],
        spans: Sequence[set[tuple]],
    ) -> None:
        """Keep the most uncertain groups of overlapping spans that differ."""
        unary = CRF().marginals(chain).unary
        doubt = np.append(0, -(unary * np.log(unary.clip(min=1e-12))).sum(axis=1).cumsum())
        names = [source.name for source in self.sources]
        found = []
        for group in group_overlaps((*span, s) for s, of in enumerate(spans) for span in of):
            start, end = group[0][0], max(end for _, end, *_ in group)
            if len({vote[:3] for vote in group}) > 1:
                found.append((float(doubt[end] - doubt[start]), start, end, group))
        bounds = np.append(0, shard.lengths.cumsum())
        for nats, start, end, group in nlargest(N_SHOWN, found, itemgetter(0)):
            i = int(np.searchsorted(bounds, start, side="right")) - 1
            doc, first = shard.docs[i], int(bounds[i])
            around = doc[max(0, start - first - 12) : end - first + 12]
            votes = [(a, b, label, names[s]) for a, b, label, s in group]
            result = [
                (a, b, self.labels[k], "result") for a, b, k in entities if a < end and b > start
            ]
            shown = [
                {"source": name, "text": doc[a - first : b - first].text, "label": label}
                for a, b, label, name in [*votes, *result]
            ]
            self.conflicts.append(
                {"document": self.n_docs + i, "entropy": nats, "text": around.text, "votes": shown}
            )
        self.conflicts = nlargest(N_SHOWN, self.conflicts, itemgetter("entropy"))

    def result(self, n_reused: int) -> Aggregated:
        names, model = [source.name for source in self.sources], self.merger.model
        figures = {}
        for s, name in enumerate(names):
            values = np.stack((self.sums, self.guessed, self.true))[:, :, s]
            figures[name] = [
                Figures(label, *(_share(tells, *values[:, i, k]) for i, tells in enumerate(TELLS)))
                for k, label in enumerate(self.labels)
            ]
        n_spans = self.sums[0, :, :, 0].sum(axis=1)
        copies = [
            (names[a], names[b], float(model.correlations[a, b]))
            for a in range(len(names))
            for b in range(a)
            if model.correlations[a, b] >= NEAR_COPY
        ]
        notes = self.notes
        for source, n, (n_overlaps, n_dropped) in zip(
            self.sources, n_spans, self.left_out, strict=False
        ):
            name = source.name
            if not n:
                notes.append(f"{name}: no span, it {'denies' if source.denies else 'abstains'}")
            if n_dropped:
                notes.append(f"{name}: its map drops {n_dropped:,} spans")
            if n_overlaps:
                notes.append(
                    f"{name}: {n_overlaps:,} spans overlap another one of it; the one with the "
                    "largest weight stays, then the longest"
                )
        notes += [f"{a} and {b} are near-copies: they count for less" for a, b, _ in copies]
        if self.tells[:-1].sum() == 1:
            notes.append("only one source votes: nothing tells how precise it is")
        notes += [
            f"{label}: no source proposes it"
            for label, is_proposed in zip(self.labels, self.proposed, strict=True)
            if not is_proposed
        ]
        return Aggregated(
            self.n_docs,
            dict(zip(self.labels, self.n_entities.tolist(), strict=True)),
            figures,
            dict(zip(names, model.weights.tolist(), strict=True)),
            self.same / n_spans.clip(min=1)[:, None],
            copies,
            self.conflicts,
            self.unsure,
            notes,
            n_reused,
        )


def _share(
    tells: int,
    found: NDArray[np.float64],
    guessed: NDArray[np.float64],
    true: NDArray[np.float64],
) -> Share:
    """Return an estimated share with its interval. See `_Judge._count`.

    tells: see `TELLS`. guessed, true: the estimate on gold documents, and their truth. It corrects
    the estimate by its mean error there (Angelopoulos et al. 2023, "Prediction-powered inference"),
    less of it for few.
    """
    n, right = found.tolist()
    n_gold, exact = float(true[0]), float(true[1] / true[0]) if true[0] else None
    if n < 1e-6:
        return Share(n, None, None, None, exact)
    p, m, z = min(1.0, right / n), min(n, n_gold + tells), 1.96
    if exact is not None:
        error = exact - float(guessed[1] / max(guessed[0], 1e-6))
        p = min(max(p + error * n_gold / (n_gold + SPANS), 0.0), 1.0)
    middle, spread = p + z * z / (2 * m), z * math.sqrt(p * (1 - p) / m + z * z / (4 * m * m))
    scale = 1 + z * z / m
    return Share(
        n, p, max((middle - spread) / scale, 0.0), min((middle + spread) / scale, 1.0), exact
    )


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
