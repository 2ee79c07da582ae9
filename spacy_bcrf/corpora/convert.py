"""Conversion of annotated files of all formats to `.spacy` files, with counts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from sys import maxsize

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import get_lang_class
from spacy.vocab import Vocab
from tqdm import tqdm

from bcrf.io.json_objects import Problem
from bcrf.io.text import CorpusError
from bcrf.lazy import lazy
from spacy_bcrf.annotation.misaligned import find_misaligned
from spacy_bcrf.readers.doc_files import write_all

from .counts import CorpusCounts, ProblemLog
from .entity_tag_reader import EntityTagReader
from .formats.prodigy import merge
from .formats.table import Format
from .make_doc import Align, make_doc, tokenize
from .reading import Reading
from .recognition import find_format, find_inputs
from .record import Record
from .sample import Sample
from .sentence import UNSPACED
from .time_limit import TookTooLongError, time_limit, watch_tokenizer
from .tokenization import TokenFit, TokenizerChoice, TokenizerName, make_blank

MOST_SKIPPED = 0.1
"""Largest share of records with a problem, unless the caller asks for more."""

_ATTRS = ("ORTH", "TAG", "POS", "ENT_IOB", "ENT_TYPE", "SENT_START")


def convert(
    inputs: Sequence[Path],
    output: Path,
    *,
    format: str = "auto",
    lang: str = "xx",
    tokenizer: TokenizerChoice = "language",
    labels: Iterable[str] | None = None,
    spans_key: str | None = None,
    align: Align = "strict",
    n_sents: int = 1,
    tag: str = "upos",
    ent_key: str | None = None,
    word_column: int | None = None,
    tag_column: int = 0,
    ent_columns: Sequence[int] | None = None,
    drop_words: bool = False,
    scheme: str = "auto",
    ent_complete: bool = False,
    shard: int = 0,
    skip_malformed: bool | None = None,
    timeout: float = 60.0,
    report: Callable[[str], object] = lambda message: None,
) -> CorpusCounts:
    """Write the records of annotated files, and of the .ann files in folders, to `output`.

    format: name in `formats.table`, or "auto" to decide by name and content.
    lang: language of the tokenizer, and of words in files without spaces. If the language has
        spaces, such documents have `Doc.has_unknown_spaces`, and spaCy trains on their words.
    tokenizer: of texts. "auto" chooses the one that fits the spans, see `TokenFit.chosen`, which
        takes another pass. Only "language" keeps tokens of a text in the file that have no tags.
    labels: the only valid labels; None for any. With O among them, they are the names of `ner_tags`
        in the order of their ids.
    n_sents: sentences of columns in a Doc; 0 for all of a document, which never crosses files.
    tag, ent_key: see `conllu.read_conllu`; ent_key None for a key by content.
    word_column, tag_column, ent_columns, drop_words: see `columns.read_columns`; None for columns
        by content.
    spans_key, align: see `make_doc`. scheme, ent_complete: see `EntityTagReader`. shard: see
        `doc_files.write_all`.
    skip_malformed: skip all records with a problem; or, if False, write nothing if there is one, or
        if a span is left out. By default, skip none of columns, and MOST_SKIPPED of other records.
    timeout: seconds for the tokenizer of a text; 0 for no limit.
    report: receives what content decided, and the first `counts.MAX_REPORTS` problems, each with
        file and line.

    CorpusError names the problems if there are too many, if a file cannot be read, or if no record
    is left. `output` then stays as it was. ValueError for a wrong argument.
    """
    if n_sents < 0:
        raise ValueError(f"{n_sents} sentences per document; expected 0 (all) or more")
    reading = Reading(
        EntityTagReader(scheme, complete=ent_complete),
        *_split_names(labels),
        spans_key=spans_key,
        n_sents=n_sents,
        unspaced=check_language(lang) in UNSPACED,
        tag=tag,
        ent_key=ent_key,
        word_column=word_column,
        tag_column=tag_column,
        ent_columns=ent_columns,
        drop_words=drop_words,
        report=report,
    )
    samples = [Sample(path) for path in find_inputs(inputs)]
    has_columns = bool(word_column or tag_column or ent_columns)
    sources = [(find_format(each, format, has_columns, report), each) for each in samples]
    conversion = _Conversion(sources, reading)
    conversion.keeps_words = tokenizer == "language"
    nlp = _Blank(lang, timeout)
    if tokenizer == "auto":
        tokenizer = conversion.fit_tokenizer(nlp)
    if tokenizer != nlp.tokenizer:
        nlp = _Blank(lang, timeout, tokenizer)
    write_all(conversion.make_docs(nlp, align, skip_malformed, output), output, shard, _ATTRS)
    conversion.report(nlp)
    return reading.counts


def check_language(lang: str) -> str:
    """Return a language. ValueError if spaCy does not know it."""
    try:
        get_lang_class(lang)
    except ImportError:
        raise ValueError(f"unknown language {lang!r}; expected a code of spaCy, or xx") from None
    return lang


class _Blank:
    """A blank pipeline. Its tokenizer, which may need a package, loads with the first text."""

    def __init__(self, lang: str, timeout: float, tokenizer: TokenizerName = "language") -> None:
        self.lang, self.timeout, self.tokenizer = lang, timeout, tokenizer
        self.vocab = Vocab()

    @lazy
    def _nlp(self) -> Language:
        try:
            nlp = make_blank(self.lang, self.tokenizer)
        except ImportError as error:
            raise ValueError(f"language {self.lang!r}: {error}") from None
        nlp.max_length = maxsize  # the limit is for parsers
        watch_tokenizer(nlp)
        return nlp

    def make_doc(self, text: str) -> Doc:
        """Tokenize a text. Problem if it takes more than `timeout` seconds."""
        nlp = self._nlp
        try:
            with time_limit(self.timeout):
                return nlp.make_doc(text)
        except TookTooLongError as error:
            raise Problem(
                "not tokenized", f"the tokenizer {error} (see `convert --timeout`)"
            ) from None


class _Conversion:
    """The records of files as documents, and what becomes of their problems."""

    def __init__(self, sources: Sequence[tuple[Format, Sample]], reading: Reading) -> None:
        self.sources, self.reading, self.counts = sources, reading, reading.counts
        if all(format.unit == "sentences" for format, _ in sources):
            self.counts.unit = "sentences"
        self.n_sentences = self.n_skipped_sentences = 0  # records of columns
        self.overlap = ""  # the first one
        self.cut = TokenFit()
        self.keeps_words = True

    def fit_tokenizer(self, nlp: _Blank) -> TokenizerName:
        """Return the tokenizer that fits the spans of texts, and keep their counts.

        nlp: with the language's tokenizer.
        """
        fit = self.counts.fit
        of_texts = [source for source in self.sources if source[0].unit != "sentences"]
        silent = replace(
            self.reading,
            report=lambda message: None,
            counts=CorpusCounts(),
            problems=ProblemLog(),
        )
        for record in _Conversion(of_texts, silent)._read():
            if record.text is not None:
                with suppress(Problem):
                    words = tokenize(record.drop_words(), nlp)
                    fit.add(words, map(record.trim, record.spans))
        return fit.chosen

    def make_docs(
        self, nlp: _Blank, align: Align, skip_malformed: bool | None, output: Path
    ) -> Iterator[Doc]:
        """Yield the documents. CorpusError at the end if there are too many problems."""
        reading = self.reading
        for record in self._merge(self._read()):
            if not self.keeps_words:
                record = record.drop_words()
            try:
                made = make_doc(record, nlp, reading.spans_key, align)
            except Problem as problem:
                reading.skip(record.places, record.n_spans, problem)
                continue
            for each in made.left_out:
                message = f"{record.places[0]}: {each}"
                if each.reason == "overlap":  # in some corpora too many: they hide all others
                    self.overlap = self.overlap or message
                else:
                    reading.problems.add(message, kind=each.reason)
            self.counts.add(record, made, reading.spans_key)
            for span in find_misaligned(made.doc, reading.spans_key):
                self.cut.add_cut(made.doc, *span[:2])
            yield made.doc
        wrong = self._find_wrong(skip_malformed, output)
        if wrong or reading.problems.fatal:
            lines = reading.problems.lines()
            raise CorpusError("\n".join(lines + [f"{wrong}: {self.counts}"] * bool(wrong)))

    def _read(self) -> Iterator[Record]:
        reading, counts = self.reading, self.counts
        paths = [sample.path for _, sample in self.sources]
        n_bytes = sum(path.stat().st_size for path in paths if path.is_file())
        bar = tqdm(total=n_bytes, unit="B", unit_scale=True, delay=1.0, disable=None)
        reading.advance = bar.update
        with bar:
            for format, sample in self.sources:
                bar.set_description(sample.path.name, refresh=False)
                n_before, n_skipped = counts.records, counts.skipped.total()
                is_empty = True
                assert format.read is not None
                try:
                    for record in format.read(sample, reading):
                        is_empty = False
                        yield record
                    if is_empty and counts.records == n_before:
                        raise CorpusError(f"{sample.path}: no records; expected at least one")
                except CorpusError as error:
                    reading.problems.fail(error)
                if format.unit == "sentences":  # the caller has counted the last record
                    self.n_sentences += counts.records - n_before
                    self.n_skipped_sentences += counts.skipped.total() - n_skipped

    def _merge(self, records: Iterable[Record]) -> Iterator[Record]:
        """Merge answers about the same text. They come last: a text recurs anywhere."""
        groups: dict[object, list[Record]] = {}
        for record in records:
            if record.is_answer:
                key = record.text or tuple(record.words or ())
                groups.setdefault(key, []).append(record)
            else:
                yield record
        for group in tqdm(groups.values(), "merging", unit="docs", delay=1.0, disable=None):
            try:
                yield merge(group)
            except Problem as problem:
                places = [place for record in group for place in record.places]
                self.reading.skip(places, sum(record.n_spans for record in group), problem)

    def _find_wrong(self, skip_malformed: bool | None, output: Path) -> str:
        """Return why nothing is written, empty if all is right."""
        counts = self.counts
        n_skipped = counts.skipped.total()
        n_records = counts.records - counts.ignored.total()
        most: float = n_records if skip_malformed else 0
        if skip_malformed is None and not self.n_skipped_sentences:
            most = MOST_SKIPPED * (n_records - self.n_sentences)
        if n_skipped > most:
            return (
                f"{output}: not written, because {n_skipped:,} of {counts.records:,} {counts.unit} "
                "have a problem; `convert --skip-malformed` leaves them out"
            )
        if skip_malformed is False and counts.left_out:
            return f"{output}: not written, because `convert --strict` leaves out no span"
        if not (skip_malformed or counts.kept_spans) and counts.left_out:
            return (
                f"{output}: not written, because all spans are left out; expected another "
                "`convert --tokenizer`, --lang or --align, or --skip-malformed"
            )
        key = self.reading.ent_key
        if key is not None and counts.tokens and not self.reading.entity_tags.n_tags:
            return (
                f"{output}: not written, because no word has an entity tag under the key {key!r} "
                "(see `convert --ent-key`)"
            )
        if not counts.docs and not self.reading.problems.fatal:
            paths = ", ".join(str(sample.path) for _, sample in self.sources)
            return f"{paths}: no record is left"
        return ""

    def report(self, nlp: _Blank) -> None:
        """Report the problems, spans that other tokens keep, and the scheme of the entity tags."""
        reading, counts, tags = self.reading, self.counts, self.reading.entity_tags
        for line in reading.problems.lines():
            reading.report(line)
        if self.overlap:
            reading.report(
                f"{counts.left_out['overlap']:,} of {counts.spans:,} spans overlap longer ones and "
                f"are left out, such as {self.overlap}"
            )
        counts.tokenizer, self.cut.spans = nlp.tokenizer, counts.spans
        if self.cut.chosen != nlp.tokenizer == "language":
            choice = f"`convert --tokenizer {self.cut.chosen}`"
            reading.report(f"{self.cut.describe(nlp.lang)} ({choice})")
        if tags.n_tags:
            counts.scheme, counts.repaired = tags.scheme, tags.n_repaired
            counts.assumed_outside = tags.n_assumed_outside
        if better := tags.better_scheme:
            reading.report(
                f"Warning: {counts.repaired:,} entity tags are invalid in the scheme "
                f"{counts.scheme}, fewer are in {better}; expected `convert --scheme {better}` "
                "or auto"
            )


def _split_names(names: Iterable[str] | None) -> tuple[frozenset[str] | None, list[str]]:
    """Return the valid labels, None for any, and the tags by id, empty if the names are labels."""
    if names is None:
        return None, []
    names = list(names)
    if "O" not in names:
        return frozenset(names), []
    return frozenset(name.partition("-")[2] or name for name in names if name != "O"), names
