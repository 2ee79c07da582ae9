"""Conversion of sentences in column formats (CoNLL-U, CoNLL columns) to `.spacy` files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from spacy.tokens import Doc, Span
from spacy.util import get_lang_class
from spacy.vocab import Vocab

from bcrf.io.text import CorpusError, Line, scan_lines
from bcrf.schemes import read_spans
from spacy_bcrf.corpora.doc_files import Writer

from .entity_tag_reader import EntityTagReader
from .problems import AllProblems, Problems, each_file
from .sentence import OnMalformed, Sentence, raise_error
from .spacing import UNSPACED


class Reader(Protocol):
    """Reads the sentences of one format."""

    def __call__(
        self, lines: Iterable[Line], *, on_malformed: OnMalformed = raise_error
    ) -> Iterator[Sentence]: ...


_ATTRS = ("ORTH", "TAG", "POS", "ENT_IOB", "ENT_TYPE", "SENT_START")


@dataclass
class Counts:
    """Numbers of documents, sentences, tokens and annotations, missing ones too."""

    docs: int = 0
    sentences: int = 0
    skipped: int = 0
    """Malformed sentences; none of the other numbers counts anything of them."""
    tokens: int = 0
    missing_tags: int = 0
    missing_pos: int = 0
    missing_entities: int = 0
    assumed_outside: int = 0
    """Words without an entity tag that became O."""
    entities: int = 0
    layers: int = 1
    """Columns of entity tags."""
    scheme: str = ""
    """The scheme of the entity tags, which the `repaired` tags violate."""
    repaired: int = 0
    empty_nodes: int = 0
    dropped: int = 0
    """Malformed words that their sentences leave out."""
    unknown_spaces: int = 0
    """Sentences with unknown spaces: neither the file nor the language decides about them."""

    def __str__(self) -> str:
        entity_tags = self.tokens * self.layers - self.missing_entities - self.assumed_outside
        return (
            f"{self.docs:,} docs, {self.sentences:,} sentences "
            f"({self.unknown_spaces:,} with unknown spaces) + {self.skipped:,} skipped, "
            f"{self.tokens:,} tokens; "
            f"tags: {self.tokens - self.missing_tags:,} + {self.missing_tags:,} missing; "
            f"pos: {self.tokens - self.missing_pos:,} + {self.missing_pos:,} missing; "
            f"entity tags: {entity_tags:,} ({self.scheme}, {self.repaired:,} repaired) "
            f"+ {self.assumed_outside:,} taken as O + {self.missing_entities:,} missing; "
            f"{self.entities:,} entities; {self.empty_nodes:,} empty nodes left out"
        ) + f"; {self.dropped:,} malformed words left out" * bool(self.dropped)


def convert(
    sources: Sequence[tuple[Path, Reader]],
    output: Path,
    *,
    lang: str = "xx",
    n_sents: int = 1,
    scheme: str = "auto",
    ent_complete: bool = False,
    spans_key: str | None = None,
    shard: int = 0,
    skip_malformed: bool = False,
    report: Callable[[str], object] = lambda problem: None,
) -> Counts:
    """Write the sentences of all sources to `output`.

    sources: files and the readers of their formats.
    lang: language of the words, for files without spaces. Words of a language without spaces have
        none. For other languages `Doc.has_unknown_spaces` is set, so that spaCy trains on the words
        and does not tokenize a made-up text.
    n_sents: sentences in a Doc; 0 for all of a document. A Doc never crosses the end of a document.
    scheme: of the entity tags, one of `entity_tag_reader.SCHEMES` or "auto".
    ent_complete: words without an entity tag are O, not missing.
    spans_key: write the entity tags to `spans[spans_key]`, for instance as chunks, and not to
        `ents`. A Doc without any such tag gets no span group.
    shard: number of Docs in a file, see `shards.Writer`; 0 for one file.

    skip_malformed: skip and count sentences with a malformed line.
    report: receives the first `problems.MAX_REPORTS` errors of skipped sentences and of left out
        words, each with file and line.

    CorpusError names the malformed lines of the sources, ValueError a wrong argument; `output` then
    stays as it was.
    """
    if n_sents < 0:
        raise ValueError(f"{n_sents} sentences per document; expected 0 (all) or more")
    check_language(lang)
    counts = Counts()
    entity_reader = EntityTagReader(scheme, complete=ent_complete)
    vocab = Vocab()

    dropped = Problems(report, "malformed words")
    problems = (
        Problems(report, "skipped sentences")
        if skip_malformed
        else AllProblems("malformed sentences", "`convert --skip-malformed` skips such sentences")
    )
    sentences = _read(sources, entity_reader, problems, dropped)
    with Writer(output, shard, _ATTRS) as writer:
        for group in _group(sentences, n_sents):
            if lang in UNSPACED:
                for sentence in group:
                    sentence.spaces = sentence.spaces or [False] * len(sentence.words)
            writer.add(_make_doc(vocab, group, spans_key))
            counts.sentences += len(group)
            for sentence in group:
                counts.tokens += len(sentence.words)
                counts.layers = 1 + len(sentence.layers)
                counts.missing_tags += sentence.tags.count(None)
                counts.missing_pos += sentence.pos.count(None)
                counts.empty_nodes += sentence.empty_nodes
                counts.unknown_spaces += sentence.spaces is None
        dropped.finish()
        problems.finish()
    counts.skipped, counts.dropped = problems.n, dropped.n
    counts.docs = writer.n_docs
    counts.entities = entity_reader.n_entities
    counts.missing_entities = entity_reader.n_missing
    counts.assumed_outside = entity_reader.n_assumed_outside
    counts.repaired = entity_reader.n_repaired
    counts.scheme = entity_reader.scheme
    if better := entity_reader.better_scheme:
        report(
            f"Warning: {counts.repaired:,} entity tags are invalid in the scheme {counts.scheme}, "
            f"fewer are in {better}; expected --scheme {better} or auto"
        )
    return counts


def check_language(lang: str) -> None:
    """Raise ValueError for a language that spaCy does not know."""
    try:
        get_lang_class(lang)
    except ImportError:
        raise ValueError(f"unknown language {lang!r}; expected a code that spaCy knows") from None


def _read(
    sources: Sequence[tuple[Path, Reader]],
    entity_reader: EntityTagReader,
    problems: Problems,
    dropped: Problems,
) -> Iterator[Sentence]:
    """Yield the sentences of all files, with IOB2 tags. Each file starts a document.

    CorpusError if a file cannot be read, or nothing is left of it.
    """

    def skip(error: CorpusError) -> None:
        problems.add(str(error))

    for path, reader, advance in each_file(sources):
        starts_document, n_sentences, n_problems = True, 0, problems.n
        try:
            for sentence in reader(scan_lines(path, advance), on_malformed=skip):
                sentence.starts_document |= starts_document
                try:
                    sentence.entities, *sentence.layers = [
                        entity_reader.read(replace(sentence, entities=layer))
                        for layer in (sentence.entities, *sentence.layers)
                    ]
                except CorpusError as error:
                    skip(error)
                    starts_document = sentence.starts_document
                    continue
                for line in sentence.dropped:
                    dropped.add(str(line))
                starts_document = False
                n_sentences += 1
                yield sentence
            is_named = problems.in_error and problems.n > n_problems
            if not (n_sentences or is_named):
                raise CorpusError(f"{path}: no sentences; expected at least one")
        except CorpusError as error:
            problems.fail(error)


def _group(sentences: Iterable[Sentence], n_sents: int) -> Iterator[list[Sentence]]:
    """Yield the sentences of each Doc."""
    group: list[Sentence] = []
    for sentence in sentences:
        if group and (sentence.starts_document or len(group) == n_sents):
            yield group
            group = []
        group.append(sentence)
    if group:
        yield group


def _make_doc(
    vocab: Vocab,
    sentences: Sequence[Sentence],
    spans_key: str | None,
) -> Doc:
    spaces = [space for sentence in sentences for space in sentence.spaces or []]
    if spaces:
        # The text ends with the last word.
        spaces[-1] = False
    tags = [tag for sentence in sentences for tag in sentence.entities]
    doc = Doc(
        vocab,
        words=[word for sentence in sentences for word in sentence.words],
        spaces=spaces if all(sentence.spaces for sentence in sentences) else None,
        tags=[tag or "" for sentence in sentences for tag in sentence.tags],
        pos=[pos or "" for sentence in sentences for pos in sentence.pos],
        ents=[tag or "" for tag in tags],
        sent_starts=[i == 0 for sentence in sentences for i in range(len(sentence.words))],
    )
    if spans_key is not None:
        _move_entities(doc, spans_key, tags, sentences)
        for layer in zip(*(sentence.layers for sentence in sentences), strict=True):
            found = read_spans([tag for of_sentence in layer for tag in of_sentence])
            group = {(s.start, s.end, s.label_) for s in doc.spans.get(spans_key, ())} | {*found}
            doc.spans[spans_key] = [Span(doc, *span) for span in sorted(group)]
    return doc


def _move_entities(
    doc: Doc, spans_key: str, tags: Sequence[str | None], sentences: Sequence[Sentence]
) -> None:
    """Move entities to a span group. It can be missing as a whole, but not for some words."""
    if None in tags and tags.count(None) < len(tags):
        lines = [line for sentence in sentences for line in sentence.lines]
        raise lines[tags.index(None)].error(
            "no chunk tag, but other words of the Doc have one; expected a tag, or --ent-complete"
        )
    if None not in tags:
        doc.spans[spans_key] = list(doc.ents)
    doc.set_ents([], default="missing")
