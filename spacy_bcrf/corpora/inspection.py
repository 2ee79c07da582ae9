"""What a corpus annotates: entities and their labels, tags, and span groups."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from spacy.attrs import ENT_IOB, ENT_TYPE, ORTH, POS, TAG  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation import partial
from spacy_bcrf.annotation.arrays import doc_lengths, read_doc_attributes
from spacy_bcrf.sparse.two_pass import are_long

T = TypeVar("T")


@dataclass
class TagCounts:
    """Counts for one token attribute. allowed: tokens with several allowed values."""

    values: Counter[int] = field(default_factory=Counter)
    missing: int = 0
    allowed: int = 0


@dataclass
class Inspection:
    """Counts for a corpus. with_context: tokens of documents long enough for `two_pass`.

    has_entities: O counts. inside, outside: tokens of entities, and of O. labels: of entities and
    partial annotation. groups: counts of the labels of all other span groups, by key.
    """

    docs: int = 0
    tokens: int = 0
    with_context: int = 0
    has_entities: bool = False
    inside: int = 0
    outside: int = 0
    labels: set[str] = field(default_factory=set)
    tags: dict[str, TagCounts] = field(
        default_factory=lambda: {"tag": TagCounts(), "pos": TagCounts()}
    )
    groups: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def entity_share(self) -> float:
        """The share of entity tokens among the annotated tokens."""
        return self.inside / max(1, self.inside + self.outside)

    def add(self, doc: Doc) -> None:
        self.docs += 1
        self.tokens += len(doc)
        if are_long(read_doc_attributes(doc, [ORTH])[:, 0], doc_lengths([doc]))[0]:
            self.with_context += len(doc)
        for name, attribute in (("tag", TAG), ("pos", POS)):
            values = Counter(read_doc_attributes(doc, (attribute,))[:, 0].tolist())
            self.tags[name].missing += values.pop(0, 0)
            self.tags[name].values.update(values)
        self.tags["tag"].allowed += len(_only(*partial.read_allowed_tags([Example(doc, doc)]), {}))
        keys = partial.AMBIGUOUS, partial.INCORRECT
        for key in doc.spans.keys() - {*keys}:
            of_group = (span.label_ for span in doc.spans[key])
            self.groups.setdefault(key, Counter()).update(of_group)
        iob, types = read_doc_attributes(doc, (ENT_IOB, ENT_TYPE)).T
        self.inside += int(((iob == 1) | (iob == 3)).sum())
        self.outside += int((iob == 2).sum())
        found = _only(
            *partial.read_partial_annotation([Example(doc, doc)], *keys),
            partial.PartialAnnotation(),
        )
        self.labels.update(doc.vocab.strings[label] for label in {*types.tolist()} - {0})
        self.labels |= partial.find_partial_labels(doc, keys) | (found.annotated_labels or set())
        self.has_entities |= bool(
            self.labels or iob.any() or found.allowed or found.ambiguous or found.incorrect
        )


def _only(found: dict[int, T], problems: dict[int, str], default: T) -> T:
    if problems:
        raise ValueError(problems[0])
    return found.get(0, default)
