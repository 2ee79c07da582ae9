"""Sources of weak supervision: whatever proposes spans of documents, alone or from a config.

[aggregate]
labels = ["DRUG", "DISEASE"]

[sources]

[sources.llm]
annotations = "answers.jsonl"
silence = "denies"

[sources.llm.map]
MEDICATION = "DRUG"
ENTITY = ["DRUG", "DISEASE"]
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import get_package_path
from thinc.api import Config

from bcrf.chain.votes import Votes
from bcrf.io.json_objects import Problem, read_objects
from spacy_bcrf.annotation.arrays import doc_bounds
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.formats.votes import DocVotes, Flaws, Vote
from spacy_bcrf.loading import load_pipeline
from spacy_bcrf.sparse.gazetteers import Gazetteers, WordHashes, read_phrases, split_phrases

from .records import choose, find_records, read_records

OPTIONS = {
    "annotations": ("annotator", "occurrences"),
    "pipeline": ("spans", "regions"),
    "patterns": (),
    "gazetteer": ("label",),
    "spans": ("regions",),
}
"""The settings that say what a source is, and their own settings; `spans` alone is a group of the
documents."""

Find = Callable[[Sequence[Doc]], list[DocVotes | None]]
"""Returns the votes of a source on documents, None for a document that it did not see."""


@dataclass
class Source:
    """A source of votes.

    find: see `Find`. meanings: the labels of ours that a label of the source means: several are
    alternatives, none drops the span. Any other label must be one of ours. denies: whether it
    finds nearly all entities where it looks, so that its silence is a vote; else it abstains. path:
    of its file or pipeline. places: of the records of its file, by the hash of their texts. flaws:
    whether spans with a label without a meaning are an error, or left out and counted.
    """

    name: str
    find: Find
    meanings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    denies: bool = False
    path: Path | None = None
    places: Mapping[bytes, str] = field(default_factory=dict)
    flaws: Flaws = field(default_factory=Flaws)

    def vote(self, docs: Sequence[Doc], labels: Sequence[str]) -> tuple[Votes, tuple[int, int]]:
        """Return the votes on documents, and how many spans overlap, and how many the map drops.

        Spans with equal bounds and weights are one vote for alternatives. The span with the
        largest weight stays of overlapping ones, then the longest. ValueError for a label without a
        meaning, unless `flaws` are skipped.
        """
        bounds, rows, n_overlaps, n_dropped = doc_bounds(docs), [], 0, 0
        looked = np.zeros(bounds[-1][1] if bounds else 0, dtype=bool)
        for (first, last), found in zip(bounds, self.find(docs), strict=True):
            if found is None:
                continue
            regions = [(0, last - first)] if found.regions is None else found.regions
            for start, end in regions:
                looked[first + start : first + end] = True
            # By bounds and weight.
            groups: dict[tuple[int, int, float], list[tuple[str, ...]]] = defaultdict(list)
            for one in found.votes:
                meant = self.meanings.get(one.label, (one.label,))
                if not set(meant) <= set(labels):
                    self._refuse(one.label, labels)
                elif meant:
                    groups[one.start, one.end, one.weight].append(meant)
                else:
                    n_dropped += 1
            taken: set[int] = set()
            votes = [
                (min(1.0, weight * len(several)), end - start, -start, several)
                for (start, end, weight), several in groups.items()
            ]
            for weight, size, at, several in sorted(votes, reverse=True):
                tokens = range(first - at, first - at + size)
                if taken.isdisjoint(tokens):
                    means = [any(label in meant for meant in several) for label in labels]
                    rows.append((tokens.start, tokens.stop, weight, *means))
                    taken.update(tokens)
                    looked[tokens.start : tokens.stop] = True
                else:
                    n_overlaps += len(several)
        columns = np.array(sorted(rows)).reshape(-1, 3 + len(labels))
        table, symbols = np.unique(columns[:, 3:] > 0, axis=0, return_inverse=True)
        spans = np.column_stack((columns[:, :2], symbols.ravel()))
        weights = columns[:, 2]
        return Votes.of(spans, looked, table, self.denies, weights), (n_overlaps, n_dropped)

    def _refuse(self, label: str, labels: Sequence[str]) -> None:
        """Count a span with a label without a meaning. ValueError unless flaws are skipped."""
        name = f"source {self.name!r}"
        problem = Problem(
            f"nobody mapped the label {label!r}",
            f"{name}: nobody mapped its label {label!r}; expected "
            f'{label} = "{labels[0]}" or another of {", ".join(labels)} in '
            f"[sources.{self.name}.map], a list of alternatives, or [] to drop it",
        )
        if not self.flaws.skip:
            raise ValueError(str(problem))
        self.flaws.add(self.path or Path(name), name, problem)


def read_sources(
    path: Path, nlp: Language, flaws: Flaws | None = None
) -> tuple[tuple[str, ...], list[Source]]:
    """Return our labels, and the sources of a config. ValueError names section and setting.

    nlp: the pipeline whose tokenizer makes the documents. flaws: what becomes of flaws of votes, by
    default an error that names those of all files. Relative paths start at the config.
    """
    flaws = flaws or Flaws()
    try:
        config = Config().from_disk(path)
    except OSError:
        raise
    except Exception as error:  # configparser and JSON raise their own
        raise ValueError(f"{path}: is no config: {error}") from None
    labels, sections = config.get("aggregate", {}).get("labels"), config.get("sources")
    if not isinstance(labels, list) or not labels or not all(isinstance(x, str) for x in labels):
        raise ValueError(f'{path}: expected [aggregate] labels = ["DRUG", ..], got {labels!r}')
    if "" in labels or len({*labels}) < len(labels):
        raise ValueError(f"{path}: expected each of [aggregate] labels once, got {labels!r}")
    if not isinstance(sections, dict) or not sections:
        raise ValueError(f"{path}: no source; expected sections such as [sources.rules]")
    shared: dict[Any, Any] = {}
    sources = []
    for name, section in sections.items():
        where = f"{path}: [sources.{name}]"
        try:
            sources.append(_read_source(name, section, labels, path.parent, nlp, shared, flaws))
        except (ValueError, OSError) as error:
            raise ValueError(f"{where} {error}") from None
    flaws.check()
    return tuple(labels), sources


def _read_source(
    name: str,
    section: Any,
    labels: Sequence[str],
    folder: Path,
    nlp: Language,
    shared: dict[Any, Any],
    flaws: Flaws,
) -> Source:
    if not isinstance(section, dict):
        raise ValueError(f"= {section!r}: expected a section with one of {', '.join(OPTIONS)}")
    kind = next((each for each in OPTIONS if each in section), None)
    if kind is None:
        raise ValueError(
            f"expected one of {', '.join(OPTIONS)}, got {', '.join(section) or 'none'}"
        )
    known = (kind, *OPTIONS[kind], "map", "silence")
    if unknown := [key for key in section if key not in known]:
        raise ValueError(f"{unknown[0]}: expected one of {', '.join(known)}")
    for key in section.keys() - {"map"}:
        if not isinstance(section[key], str):
            raise ValueError(f"{key} = {section[key]!r}: expected a string")
    silence, mapped = section.get("silence", "abstains"), section.get("map", {})
    if silence not in ("abstains", "denies"):
        raise ValueError(f'silence = {silence!r}: expected "abstains" or "denies"')
    if not isinstance(mapped, dict):
        raise ValueError(f"map = {mapped!r}: expected a section [sources.{name}.map]")
    meanings = {}
    for key, meant in mapped.items():
        several = [meant] if isinstance(meant, str) else meant
        if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
            raise ValueError(f"map: {key} = {meant!r}: expected a label or a list of labels")
        if wrong := [label for label in several if label not in labels]:
            raise ValueError(f"{wrong[0]!r} is none of the labels {', '.join(labels)}")
        meanings[key] = tuple(several)
    path = folder / section[kind]
    places: dict[bytes, str] = {}
    if kind == "annotations":
        everywhere = section.get("occurrences", "one")
        if everywhere not in ("one", "all"):
            raise ValueError(f'occurrences = {everywhere!r}: expected "one" or "all"')
        if (path, everywhere) not in shared:
            shared[path, everywhere] = read_records(path, nlp, flaws, everywhere == "all")
        # The flaws of all files are an error later: without them the file may have no record.
        known = shared[path, everywhere]
        records = {} if flaws.found else choose(known, section.get("annotator"), path)
        find = find_records(records, flaws)
        places = {key: one.place for key, one in records.items()}
    elif kind == "pipeline":
        find = _find_by_pipeline(path, section.get("spans"), section.get("regions"), shared)
        path = path if path.exists() else get_package_path(path.name)
    elif kind == "patterns":
        find = _find_by_patterns(path, nlp)
    elif kind == "gazetteer":
        if "label" not in section:
            raise ValueError(f"gazetteer = {section[kind]!r} needs label, the label of its phrases")
        find = _find_phrases(path, section["label"], nlp)
    else:
        find = read_groups(section["spans"], section.get("regions"))
    file = None if kind == "spans" else path
    return Source(name, find, meanings, silence == "denies", file, places, flaws)


def _as_votes(spans: Sequence[Span]) -> list[Vote]:
    return [Vote(span.start, span.end, span.label_, 1.0) for span in spans]


def _read_group(doc: Doc, key: str | None, regions: str | None) -> DocVotes | None:
    """Return the spans of a group, or entities, and the regions of another group.

    None for a document without the group.
    """
    if key is not None and key not in doc.spans:
        return None
    looked = [(s.start, s.end) for s in doc.spans.get(regions, ())] if regions else None
    return DocVotes(_as_votes(list(doc.ents if key is None else doc.spans[key])), looked)


def read_groups(key: str, regions: str | None = None) -> Find:
    """Return the votes of a span group of the documents. regions: the group where it looked."""
    return lambda docs: [_read_group(doc, key, regions) for doc in docs]


def _find_by_pipeline(
    path: Path, key: str | None, regions: str | None, shared: dict[Any, Any]
) -> Find:
    """Return the votes of a pipeline. Sources with the same pipeline run it once a shard."""
    if path not in shared:
        nlp = load_pipeline(path if path.exists() else path.name)
        last: list[Any] = []

        def annotate(docs: Sequence[Doc]) -> list[Doc]:
            if not last or last[0] is not docs:
                last[:] = docs, list(nlp.pipe(copy_words(doc, nlp.vocab) for doc in docs))
            found: list[Doc] = last[1]
            return found

        shared[path] = annotate
    return lambda docs: [_read_group(doc, key, regions) for doc in shared[path](docs)]


def _find_by_patterns(path: Path, nlp: Language) -> Find:
    """Return the votes of a file of patterns for spaCy's rulers."""
    ruler: Any = spacy.blank(nlp.lang or "xx", vocab=nlp.vocab).add_pipe("span_ruler")
    for place, one in read_objects(path):
        keys = (("label", str), ("pattern", str | list))
        if isinstance(one, Problem):
            raise ValueError(f"{place}: {one}")
        if not all(isinstance(one.get(key), kind) for key, kind in keys):
            raise ValueError(f'{place}: expected {{"label": .., "pattern": ..}}, got {one!r}')
        try:
            ruler.add_patterns([one])
        except Exception as error:  # spaCy raises different types, as does `re` for a REGEX
            raise ValueError(f"{place}: is no pattern for spaCy's rulers: {error}") from None
    return lambda docs: [DocVotes(_as_votes(ruler.match(doc))) for doc in docs]


def _find_phrases(path: Path, label: str, nlp: Language) -> Find:
    """Return the votes of a list of phrases, regardless of case; the longest match counts."""
    gazetteers = Gazetteers({label: split_phrases(read_phrases(path), nlp)})

    def find(docs: Sequence[Doc]) -> list[DocVotes | None]:
        places = gazetteers.find(label, WordHashes.of(docs)) if docs else np.zeros(0)
        found: list[DocVotes | None] = []
        for first, last in doc_bounds(docs):
            of_doc = places[first:last]
            starts = np.flatnonzero((of_doc == 0) | (of_doc == 3)).tolist()
            ends = (np.flatnonzero(of_doc >= 2) + 1).tolist()
            found.append(DocVotes([Vote(*x, label, 1.0) for x in zip(starts, ends, strict=True)]))
        return found

    return find
