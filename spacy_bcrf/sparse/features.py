"""Features of documents: the attributes of templates, read from tokens, words and documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ID, IDS, LOWER, ORTH  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc, Token
from spacy.vocab import Vocab

from bcrf.linear.features import Keys, TemplateFeatures, Tokens
from bcrf.linear.templates import ALIASES, Attribute, TemplateError, parse_templates
from bcrf.linear.word_cache import Bags, WordFunction
from spacy_bcrf.annotation.arrays import (
    DocBatch,
    doc_lengths,
    read_attributes,
    read_doc_attributes,
)
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.scores.foreign_tagger import ForeignTagger
from spacy_bcrf.scores.levels import find_steps, name_steps

from . import doc_attributes, word_attributes
from .doc_attributes import POOLED, Values
from .gazetteers import ATTRIBUTES, EXACT, PLACES, Gazetteers, WordHashes
from .quantized_vectors import VECTOR, check_dimensions, measure_terciles, parse_terciles, quantize
from .two_pass import FirstPass
from .word_tables import CLUSTER, COMPOUND, FREQUENCY, WordTables

DocFunction = Callable[[Doc], Values]
"""From a document to the values of an attribute of each token."""

# Token attributes whose values are hashes of strings. The values of other attributes are numbers
# that may equal a hash by chance.
STRINGS = {
    *("orth", "lower", "norm", "shape", "prefix", "suffix", "lemma", "lang"),
    *("pos", "tag", "dep", "morph", "ent_type", "ent_id", "ent_kb_id"),
}

_PLACE_HASHES = np.array([hash_string(place) for place in PLACES], dtype="uint64")

SCORE = "score"
"""The attributes of foreign taggers, such as `score.pf[-1..1]`."""

# Attributes without an argument and without a name after a dot, other than spaCy's.
_PLAIN = (*word_attributes.PLAIN, *doc_attributes.PLAIN, FREQUENCY, VECTOR, POOLED)


class Features:
    """Templates over documents, which turn tokens into 64-bit feature keys.

    compiled: the templates over arrays. columns: spaCy's token attributes in them. attributes: the
    ids of ORTH, of the columns, and of LOWER for phrases. listed: attributes that need more of the
    document and can have several values. phrases: places in phrases, some of these. may_miss:
    attributes that documents may have no value for. TemplateError for a malformed template, an
    unknown attribute, and in extraction a missing extension or vectors.
    """

    def __init__(
        self,
        texts: Sequence[str],
        gazetteers: Gazetteers | None = None,
        tables: WordTables | None = None,
        first: FirstPass | None = None,
        taggers: Sequence[ForeignTagger] = (),
    ) -> None:
        self.texts = list(texts)
        self.gazetteers = gazetteers or Gazetteers({})
        self.tables = tables or WordTables({})
        self.first = first
        self.taggers = {tagger.name: tagger for tagger in taggers}
        self.templates = parse_templates(self.texts)
        attributes = dict.fromkeys(
            part.attribute for template in self.templates for part in template.parts
        )
        self._of_word: dict[Attribute, WordFunction] = {}
        self._of_doc: dict[Attribute, DocFunction] = {}
        self.columns = [a for a in attributes if not self._add_function(a)]
        self.listed = list(self._of_doc)
        self.may_miss = {a for a in (*self.columns, *self.listed) if a.name != POOLED}
        self.phrases = [a for a in self.listed if a.name.partition(".")[0] in ATTRIBUTES]
        lower = [LOWER] * bool(self.phrases)
        self.attributes = [ORTH, *(IDS[a.name.upper()] for a in self.columns), *lower]
        self.compiled = TemplateFeatures(
            self.templates, self.columns, self._of_word, self.listed, hash_string
        )

    @property
    def kinds(self) -> dict[str, list[Attribute]]:
        """The attributes of the templates, in the order of `compiled`."""
        return {"column": self.columns, "word": list(self._of_word), "listed": self.listed}

    @property
    def needs_frequencies(self) -> bool:
        """Whether a template uses the frequency of words in the training data."""
        return any(attribute.name == FREQUENCY for attribute in self._of_word)

    def load(self, nlp: Language | None = None) -> None:
        self.gazetteers.load(nlp)
        self.tables.load()
        self.tables.tables.pop(VECTOR, None)
        self.compiled.forget_words()

    def measure(self, vocab: Vocab) -> None:
        """Measure the terciles of the vectors once after `load`. TemplateError without vectors."""
        for attribute in self._of_doc:
            if attribute.name == VECTOR and VECTOR not in self.tables.tables:
                try:
                    terciles = measure_terciles(vocab.vectors)
                    check_dimensions(terciles, attribute.lengths)
                except ValueError as error:
                    raise self._error(attribute, str(error)) from error
                self.tables.tables[VECTOR] = terciles

    def count_words(self, docs: Sequence[Doc]) -> None:
        if self.needs_frequencies:
            self.tables.count(token.text for doc in docs for token in doc)
            self.compiled.forget_words()

    def restore(
        self, phrases: Mapping[str, list[str]], tables: Mapping[str, dict[str, str]]
    ) -> None:
        self.gazetteers.restore(phrases)
        self.tables.tables = dict(tables)
        self.compiled.forget_words()

    def check_saved(
        self, phrases: Mapping[str, list[str]], tables: Mapping[str, dict[str, str]]
    ) -> None:
        """Raise ValueError if the templates need phrases or tables that a saved model lacks."""
        for name in (attribute.name for attribute in (*self._of_word, *self._of_doc)):
            kind, _, rest = name.partition(".")
            if kind in ATTRIBUTES and rest not in phrases:
                raise ValueError(f"the saved linear chain has no gazetteer {rest!r} for {name}")
            table = f"{CLUSTER}.{rest}" if kind == COMPOUND else name
            if kind in (CLUSTER, COMPOUND, FREQUENCY, VECTOR) and table not in tables:
                raise ValueError(f"the saved linear chain has no table for {name}")
            if kind == VECTOR:
                parse_terciles(tables[name])

    def keys(self, docs: Sequence[Doc], held_out: bool = False) -> tuple[Keys, NDArray[np.int64]]:
        """Extract feature keys, uint64, and starts int64 (N + 1,). held_out: see `FirstPass`."""
        if not docs:
            return np.zeros(0, "uint64"), np.zeros(1, "int64")
        return self.compiled.extract(self._tokens(docs, held_out, strict=False))

    def score(
        self,
        docs: Sequence[Doc],
        dictionary: Any,
        weights: NDArray[np.float32],
        n_tags: int,
        n_chains: int = 1,
    ) -> NDArray[np.float32]:
        """Return the tag scores (N, T) of documents under weights (rows, stride)."""
        if not docs and not isinstance(docs, DocBatch):
            return np.zeros((0, n_tags), "float32")
        return self.compiled.score(self._tokens(docs), dictionary, weights, n_tags, n_chains)

    def _tokens(self, docs: Sequence[Doc], held_out: bool = False, strict: bool = True) -> Tokens:
        if isinstance(docs, DocBatch) and set(self.attributes) <= set(docs.columns):
            places = [docs.columns.index(attribute) for attribute in self.attributes]
            values, lengths = docs.values.take(places, axis=1), docs.lengths
            text = docs.strings.__getitem__
        else:
            values, lengths = read_attributes(docs, self.attributes), doc_lengths(docs)
            text = docs[0].vocab.strings.__getitem__
        words = WordHashes(values[:, [-1, 0]], lengths) if self.phrases else None
        listed = [self._list(docs, words, attribute, held_out, strict) for attribute in self.listed]
        return Tokens(values[:, 0], values[:, 1 : 1 + len(self.columns)], lengths, text, listed)

    def find_places(self, words: WordHashes) -> NDArray[np.int8]:
        """Return the places (A, N) of words in phrases, see `Gazetteers.find`, by attribute."""
        names = (attribute.name.partition(".") for attribute in self.phrases)
        return np.stack([self.gazetteers.find(x, words, kind == EXACT) for kind, _, x in names])

    def describe(self, doc: Doc, tokens: Iterable[int] | None = None) -> list[list[str]]:
        """Return the readable names of the features of tokens, by default all, in key order."""
        listed = {attribute: self._values(doc, attribute) for attribute in self.listed}
        found = []
        for i in range(len(doc)) if tokens is None else tokens:
            of_token: list[str] = []
            for template in self.templates:
                parts = (self._show(doc, i + p.offset, p.attribute, listed) for p in template.parts)
                of_token += (f"{template}={'|'.join(values)}" for values in product(*parts))
            found.append(of_token)
        return found

    def _show(
        self, doc: Doc, i: int, attribute: Attribute, listed: Mapping[Attribute, Values]
    ) -> Iterator[str]:
        if not 0 <= i < len(doc):
            yield f"<{i}>" if i < 0 else f"<+{i - len(doc) + 1}>"
        elif attribute in self._of_word:
            yield from self._of_word[attribute](doc[i].text)
        elif attribute in listed:
            yield from listed[attribute][i]
        else:
            value = doc.to_array(IDS[attribute.name.upper()])[i]
            if value:
                yield _show_value(doc.vocab.strings, attribute.name, value)

    def still_missing(self, missing: set[Attribute], docs: Sequence[Doc]) -> set[Attribute]:
        """Return the attributes for which no token of the documents has a value either."""
        for doc in docs:
            if not missing:
                break
            values = read_doc_attributes(doc, self.attributes)[:, 1:]
            missing = missing - {a for k, a in enumerate(self.columns) if values[:, k].any()}
            missing -= {a for a in self.listed if a in missing and any(self._values(doc, a))}
        return missing

    def templates_of(self, attributes: set[Attribute]) -> list[str]:
        return [
            str(t) for t in self.templates if any(part.attribute in attributes for part in t.parts)
        ]

    def _list(
        self,
        docs: Sequence[Doc],
        words: WordHashes | None,
        attribute: Attribute,
        held_out: bool,
        strict: bool,
    ) -> Bags:
        """Hash the values of a listed attribute into bags (N,). strict: see `ForeignTagger`."""
        kind, _, name = attribute.name.partition(".")
        if kind in ATTRIBUTES:
            assert words
            return list_places(self.gazetteers.find(name, words, kind == EXACT))
        if kind == SCORE:
            return _hash_scores(self.taggers[name], docs, strict)
        if name == "" and kind == POOLED:
            assert self.first
            # The first chain takes all documents at once.
            by_doc = self.first.values(docs, held_out)
        else:
            by_doc = [self._values(doc, attribute) for doc in docs]
        by_token = list(chain.from_iterable(by_doc))
        hashes = np.array(list(map(hash_string, chain.from_iterable(by_token))), dtype="uint64")
        return Bags(np.cumsum([0, *map(len, by_token)], dtype="int64"), hashes)

    def _values(self, doc: Doc, attribute: Attribute) -> Values:
        try:
            return self._of_doc[attribute](doc)
        except ValueError as error:
            raise self._error(attribute, str(error)) from error

    def _add_function(self, attribute: Attribute) -> bool:
        """Add the function that computes an attribute. Returns False for attributes of spaCy."""
        name, lengths = attribute.name, attribute.lengths
        kind, dot, rest = name.partition(".")
        is_cluster = kind in (CLUSTER, COMPOUND) and dot
        if lengths is not None and not (
            name in word_attributes.LENGTHS or name == VECTOR or is_cluster
        ):
            if dot or name in _PLAIN or IDS.get(name.upper()):
                raise self._error(attribute, f"{name} takes no argument")
            raise self._unknown(attribute)
        # Without a length, `prefix` and `suffix` are attributes of spaCy's lexemes.
        if lengths is not None and name in word_attributes.LENGTHS:
            self._of_word[attribute] = partial(word_attributes.LENGTHS[name], lengths)
        elif name in word_attributes.PLAIN:
            self._of_word[attribute] = word_attributes.PLAIN[name]
        elif is_cluster:
            self._of_word[attribute] = self._cluster(attribute, kind, rest)
        elif name == FREQUENCY:
            self._of_word[attribute] = self.tables.find_frequency
        elif name == VECTOR:
            self._of_doc[attribute] = partial(_quantize, self.tables, lengths)
        elif name == POOLED:
            if self.first is None:
                raise self._error(attribute, f"{POOLED} needs the setting two_pass = true")
            first = self.first
            self._of_doc[attribute] = lambda doc: first.values([doc])[0]
        elif name in doc_attributes.PLAIN:
            self._of_doc[attribute] = doc_attributes.PLAIN[name]
        elif kind == "_" and dot:
            self._of_doc[attribute] = partial(_read_extension, rest)
        elif kind in ATTRIBUTES and dot:
            self._check_name(attribute, "gazetteer", rest, self.gazetteers.names)
            if kind == "partial":
                self._of_word[attribute] = partial(self.gazetteers.find_partial, rest)
            else:
                find = partial(_find_phrases, self.gazetteers, rest, kind == EXACT)
                self._of_doc[attribute] = find
        elif kind == SCORE and dot:
            self._check_name(attribute, "source in scores", rest, list(self.taggers))
            self._of_doc[attribute] = partial(_name_scores, self.taggers[rest])
        elif kind in doc_attributes.OFFSETS and dot:
            rest = ALIASES.get(rest, rest)
            self._check_name(attribute, "string attribute of a token", rest, sorted(STRINGS))
            options: Any = {"attribute": rest, "offset": doc_attributes.OFFSETS[kind]}
            self._of_doc[attribute] = partial(doc_attributes.elsewhere, **options)
        elif name == name.lower() and IDS.get(name.upper()):
            return False
        else:
            raise self._unknown(attribute)
        return True

    def _cluster(self, attribute: Attribute, kind: str, name: str) -> WordFunction:
        if not self.tables.names:
            raise self._error(
                attribute,
                f"the model has no clusters; expected the setting clusters, such as {{{name!r}: "
                "'clusters.tsv'}, whose file `spacy bcrf clusters` writes",
            )
        self._check_name(attribute, "cluster file", name, self.tables.names)
        tables = self.tables
        find = tables.find_cluster if kind == CLUSTER else tables.find_compound
        return partial(find, name, attribute.lengths)

    def _check_name(self, attribute: Attribute, what: str, name: str, known: list[str]) -> None:
        if name not in known:
            raise self._error(
                attribute, f"there is no {what} {name!r}; there are {', '.join(known) or 'none'}"
            )

    def _unknown(self, attribute: Attribute) -> TemplateError:
        return self._error(
            attribute,
            f"unknown attribute {attribute}; expected an attribute of a spaCy token (orth or w, "
            "tag or p, pos, norm, ...), _.extension, "
            f"{', '.join(f'{kind}.name' for kind in ATTRIBUTES)}, "
            "cluster.name(4,6), compound.name(4,6), score.name, "
            f"{', '.join(f'{kind}.tag' for kind in doc_attributes.OFFSETS)}, "
            f"{', '.join(_PLAIN)}, or "
            f"{', '.join(f'{f}(3) or {f}(1..4)' for f in word_attributes.LENGTHS)}",
        )

    def _error(self, attribute: Attribute, what: str) -> TemplateError:
        """Make an error that names the first template with this attribute and the position."""
        parts = ((str(t), part) for t in self.templates for part in t.parts)
        text = next(text for text, part in parts if part.attribute == attribute)
        at = text.index(str(attribute)) + 1
        return TemplateError(f"template {text!r}, position {at}: {what}")


def list_places(places: NDArray[np.int8]) -> Bags:
    """Return places (N,) of `Gazetteers.find` as values of an attribute."""
    is_inside = places >= 0
    return Bags(np.append(0, is_inside.cumsum()), _PLACE_HASHES[places[is_inside]])


def _show_value(strings: Any, name: str, value: np.uint64) -> str:
    if name in STRINGS:
        return strings[int(value)] if int(value) in strings else str(value)
    # spaCy's boolean attributes have numbers below ID. Others, such as head, can be negative.
    is_flag = name == "spacy" or IDS[name.upper()] < ID
    return "True" if is_flag else str(value.astype("int64"))


def _read_extension(name: str, doc: Doc) -> Values:
    """Return each token's distinct values of an extension, several of a collection. ValueError."""
    set_extensions()
    if not Token.has_extension(name):
        raise ValueError(
            f"there is no extension {name!r} of tokens; add it with "
            f"Token.set_extension({name!r}, ...)"
        )
    values: Values = []
    for value in (token._.get(name) for token in doc):
        several = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
        texts = dict.fromkeys(str(each) for each in several if each not in (None, "", False))
        values.append(sorted(texts) if isinstance(value, (set, frozenset)) else list(texts))
    return values


def _find_phrases(gazetteers: Gazetteers, name: str, exact: bool, doc: Doc) -> Values:
    places = gazetteers.find(name, WordHashes.of([doc]), exact).tolist()
    return [[PLACES[k]] if k >= 0 else [] for k in places]


def _quantize(tables: WordTables, dimensions: Sequence[int] | None, doc: Doc) -> Values:
    if VECTOR not in tables.tables:
        raise ValueError("there are no terciles of the vectors; initialize or load the model first")
    return quantize(tables.tables[VECTOR], dimensions, doc)


@lru_cache(maxsize=64)
def hash_steps(labels: tuple[str, ...]) -> NDArray[np.uint64]:
    """Return the hashes of the values of a source, see `name_steps`."""
    return np.array(list(map(hash_string, name_steps(labels))), dtype="uint64")


def _hash_scores(tagger: ForeignTagger, docs: Sequence[Doc], strict: bool) -> Bags:
    values = np.concatenate([scores.values for scores in tagger.find(docs, strict=strict)])
    tokens, steps = find_steps(tagger.merge.extend(values))
    starts = tokens.searchsorted(np.arange(len(values) + 1))
    return Bags(starts, hash_steps(tuple(tagger.merge.extended))[steps])


def _name_scores(tagger: ForeignTagger, doc: Doc) -> Values:
    (scores,), names = tagger.find([doc]), name_steps(tagger.merge.extended)
    found: list[list[str]] = [[] for _ in doc]
    for token, step in zip(*find_steps(tagger.merge.extend(scores.values)), strict=True):
        found[token].append(names[step])
    return found
