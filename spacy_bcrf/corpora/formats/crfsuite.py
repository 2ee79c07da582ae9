"""CRFsuite: its text format, the label and the features of one token a line, and Docs for it."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from tqdm import tqdm

from bcrf.io.text import CorpusError, Line, find_file, read_lines
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.entity_tag_reader import EntityTagReader
from spacy_bcrf.corpora.sentence import Sentence

_VALUE = re.compile(r"(?<!\\)(?:\\\\)*:([^:]*)$")
_ESCAPED = re.compile(r"\\([\\:])")
_WORD = "w[0]="
_SPAN_TAG = re.compile(r"O$|[BILUES]-.")


def read_crfsuite(lines: Iterable[Line]) -> Iterator[tuple[Sentence, list[list[str]]]]:
    """Yield the sequences of a file, with the features of each token, and the word of `w[0]=word`.

    Labels are tags, and entity tags too if all look so (O, B-NP). CorpusError names a line without
    a label, or with a feature whose value is not 1: linear chains have boolean features.
    """
    sentence = Sentence()
    features: list[list[str]] = []
    for line in lines:
        if not line.text.strip(" \t"):
            if sentence.words:
                yield _finish(sentence), features
                sentence, features = Sentence(), []
            continue
        label, *fields = line.text.split("\t")
        if not label.strip(" "):
            raise line.error("no label; expected a label and features, separated by tabs")
        found = list(dict.fromkeys(_read_feature(line, field) for field in fields))
        word = next((text.removeprefix(_WORD) for text in found if text.startswith(_WORD)), "")
        sentence.lines.append(line)
        sentence.words.append(word or "_")
        sentence.tags.append(label)
        sentence.pos.append(None)
        sentence.entities.append(label)
        features.append(found)
    if sentence.words:
        yield _finish(sentence), features


def CRFsuiteCorpus(
    path: str | Path, spans_key: str = "chunks", limit: int = 0
) -> Callable[[Language], Iterator[Example]]:
    """`spacy-bcrf.CRFsuiteCorpus.v1`: a corpus reader of CRFsuite's text format.

    Labels become tags; labels of spans also become entities and `spans[spans_key]`. The template
    `_.crfsuite[0]` of `spacy-bcrf.LinearChain.v1` reads the features.
    path: a plain or compressed file. limit: maximum number of sequences; 0 for all.
    """

    def read(nlp: Language) -> Iterator[Example]:
        if path is None:
            raise ValueError("spacy-bcrf.CRFsuiteCorpus.v1 needs a path, got null")
        file = find_file(Path(path))
        entities = EntityTagReader()
        progress = tqdm(delay=5, leave=False, unit="B", unit_scale=True, desc=file.name)
        n = 0
        with progress:
            for sentence, features in read_crfsuite(read_lines(file, progress.update)):
                predicted = set_features(Doc(nlp.vocab, words=sentence.words), features)
                yield Example(predicted, _make_reference(nlp, sentence, entities, spans_key))
                n += 1
                if n == limit:
                    return
        if not n:
            raise CorpusError(f"{file}: no sequences; expected at least one")

    return read


def set_features(doc: Doc, features: Iterable[Iterable[str]]) -> Doc:
    """Set `token._.crfsuite` for the template `_.crfsuite[0]`. A feature counts once a token."""
    set_extensions()
    for token, found in zip(doc, features, strict=True):
        token._.crfsuite = list(found)
    return doc


def crfsuite_tokens(docs: Iterable[Doc], templates: str = "ner") -> list[list[list[str]]]:
    """Return the features of each token, which `bcrf.sklearn.CRF` and python-crfsuite read.

    A document with values of `token._.crfsuite` has these. Templates make the features of others.
    templates: a name of `template_sets.SETS`, ValueError for another one.

    >>> import spacy
    >>> from spacy_bcrf.corpora.formats.crfsuite import crfsuite_tokens
    >>> [[ann, left]] = crfsuite_tokens([spacy.blank("en")("Ann left")])
    >>> ann[1:3], left[1:3]
    (['orth[-1]=<-1>', 'orth[0]=Ann'], ['orth[-1]=Ann', 'orth[0]=left'])
    """
    from spacy_bcrf.sparse.features import Features  # readers of corpora need no templates
    from spacy_bcrf.sparse.template_sets import get_templates

    set_extensions()
    features = Features(get_templates(templates))
    sequences = []
    for doc in docs:
        given = [list(token._.crfsuite) for token in doc]
        sequences.append(given if any(given) else features.describe(doc))
    return sequences


def _make_reference(
    nlp: Language, sentence: Sentence, entities: EntityTagReader, spans_key: str
) -> Doc:
    has_spans = sentence.entities[0] is not None
    reference = Doc(
        nlp.vocab,
        words=sentence.words,
        tags=[tag or "" for tag in sentence.tags],
        ents=[tag or "" for tag in entities.read(sentence)] if has_spans else None,
        sent_starts=[i == 0 for i in range(len(sentence.words))],
    )
    if has_spans:
        reference.spans[spans_key] = list(reference.ents)
    return reference


def _read_feature(line: Line, field: str) -> str:
    value = _VALUE.search(field)
    if value:
        number = value[1]
        try:
            is_one = float(number) == 1
        except ValueError:
            raise line.error(
                f"feature {field!r} has the value {number!r}; expected a number; "
                "write \\: for a colon in a name"
            ) from None
        if not is_one:
            raise line.error(f"feature {field!r} has the value {number}; expected 1, or no value")
        field = field[: value.start(1) - 1]
    if not field:
        raise line.error("empty feature; expected one between two tabs")
    return _ESCAPED.sub(r"\1", field)


def _finish(sentence: Sentence) -> Sentence:
    if not all(_SPAN_TAG.match(label or "") for label in sentence.entities):
        sentence.entities = [None] * len(sentence.words)
    return sentence
