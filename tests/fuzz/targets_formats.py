"""Fuzz targets of the parsers of untrusted files and settings.

A target takes any bytes. It catches the documented errors, so each exception of a target is a
defect: another type of error, an error without a place, a wrong count, or output after an error.
"""

import bz2
import gzip
import json
import lzma
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.training import Example

from bcrf.io.json_objects import Problem, read_objects
from bcrf.io.text import CorpusError, read_lines
from bcrf.schemes import BIO
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.cli.options import parse_labels
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.entity_tag_reader import EntityTagReader
from spacy_bcrf.corpora.formats import jsonl, label_studio, prodigy
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.corpora.formats.crfsuite import CRFsuiteCorpus
from spacy_bcrf.corpora.make_doc import make_doc
from spacy_bcrf.corpora.record import Ignored, Record
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.readers.doc_files import read_docs
from spacy_bcrf.readers.partial_corpora import make_partial_reader

Target = Callable[[bytes], None]

COLUMNS = """-DOCSTART- -X- O

EU NNP B-ORG
rejects VBZ O
# NN I-PER
call NN _

# text = a b
Peter NNP I-PER
- : -

"""
CONLLU = """# newdoc id = d
# sent_id = 1
# text = I don't see 20 000 cats.
1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\tNER=O
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\tNER=O
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\tNER=B-X
3.1\tsee\tsee\tVERB\tVB\t_\t_\t_\t_\t_
4\tsee\tsee\tVERB\tVB\t_\t0\troot\t_\tNER=I-X
5\t20 000\t_\tNUM\tCD\t_\t6\tnummod\t_\tNER=_
6\tcats\tcat\tNOUN\tNNS\t_\t4\tobj\t_\tSpaceAfter=No|NER=I-Y
7\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# text = du
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t0\troot\t_\t_
2\tle\tle\tDET\t_\t_\t1\tdet\t_\t_

"""
CRFSUITE = "B-X\tw[0]=Ann\tshape\\:Xxx:1\nO\tw[0]=left\n\nI-Y\tw[0]=Rome:1.0\ta\\\\b\n"
TAGS = jsonl.TagNames(("O", "B-PER", "B-X", "B-ORG"))
PERSON = {"start": 0, "end": 3, "label": "PER"}
PARTIAL = [
    {
        "text": "Ann met  Bob in Rome",
        "spans": [PERSON, {"start": 9, "end": 12, "label": ["PER", "ORG"], "text": "Bob"}],
        "rejected": [{"start": 16, "end": 20, "label": None}],
        "annotated_labels": ["PER", "ORG"],
        "complete": False,
    },
    {
        "text": " Ann",
        "tokens": ["Ann"],
        "spans": [{"token_start": 0, "token_end": 0, "label": "X"}],
    },
    {"text": "Ann left"},
]
OTHER_TOOLS = [
    {"tokens": ["Ann", "left", "Rome"], "ner_tags": [1, 0, 2]},
    {"tokens": ["Ann", "left"], "ner_tags": ["U-PER", "O"]},
    {"text": "Ann left", "label": [[0, 3, "PER"]]},
    {"text": "Ann left", "entities": [{"id": 1, "label": "X", "start_offset": 0, "end_offset": 3}]},
    {"text": "Ann left", "ents": [PERSON]},
]
PRODIGY = [
    {"text": "Ann left", "spans": [PERSON], "answer": "accept", "_view_id": "ner_manual"},
    {"text": "Ann left", "spans": [PERSON], "answer": "reject", "_view_id": "ner"},
    {"text": "Bob left", "spans": [PERSON], "answer": "reject", "_is_binary": True},
    {"text": "Ann left", "answer": "ignore"},
]
LABEL_STUDIO = [
    {
        "data": {"text": "\U0001f389 Ann left"},
        "annotations": [
            {
                "was_cancelled": False,
                "result": [
                    {"value": {"start": 3, "end": 6, "text": "Ann", "labels": ["PER", "X"]}},
                    {"value": {"choices": ["news"]}},
                ],
            }
        ],
    },
    {"data": {"body": "left"}, "annotations": [{"was_cancelled": True}]},
]
SETTINGS: dict[str, Any] = {
    "scheme": "BIO",
    "annotate": ["confidence"],
    "temperature": 0.5,
    "incorrect_spans_key": None,
    "entity_ratio": {"ratio": 0.15, "margin": 0.05, "weight": 10.0},
    "model.head.@layers": "spacy-bcrf.CRF.v1",
    "model.head.decoder": "bcrf(10)",
    "model.head.n_iter": 5,
    "model.head.relaxation": 1.3,
    "model.head.scale": 2.0,
    "model.head.transitions": "shared",
}


def _lines(records: Iterable[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(record) for record in records).encode()


def _fuzz_columns(data: bytes, reader: Callable[..., Iterable[Sentence]]) -> None:
    """Read a file with and without malformed sentences, and check the entity tags."""
    with _file(data, "f.txt") as (source, output):
        problems: list[CorpusError] = []
        try:
            sentences = list(reader(read_lines(source), on_malformed=problems.append))
        except CorpusError as error:
            _check_error(error, source, output)
            return
        assert all(str(problem).startswith(f"{source}:") for problem in problems)
        try:
            assert len(list(reader(read_lines(source)))) == len(sentences) and not problems
        except CorpusError as error:
            assert str(error) == str(problems[0])
        tags = EntityTagReader()
        for sentence in sentences:
            columns = sentence.lines, sentence.words, sentence.tags, sentence.pos, sentence.entities
            assert {len(sentence.words)} == set(map(len, columns)) and all(sentence.words)
            with suppress(CorpusError):
                assert BIO.repair(tags.read(sentence))[1] == 0


def _fuzz_records(data: bytes) -> None:
    """Convert a file of any tool, and count the annotation of the documents again."""
    with _file(data, "f.json") as (source, output):
        problems: list[str] = []
        try:
            counts = convert(
                [source],
                output,
                labels=TAGS.by_id,
                skip_malformed=True,
                report=problems.append,
            )
        except CorpusError as error:
            _check_error(error, source, output)
            return
        assert bool(problems) == bool(counts.skipped or counts.left_out)
        assert all(str(source) in problem for problem in problems)
        docs = list(read_docs(output, _nlp().vocab))
        assert len(docs) == counts.docs
        assert sum(len(doc.ents) for doc in docs) == counts.entities
        assert sum(map(len, docs)) == counts.tokens
        assert sum(not token.ent_iob for doc in docs for token in doc) == counts.missing


def _fuzz_json(data: bytes, read_record: Callable[..., Record]) -> None:
    """Make documents of the records of a file, and compare their annotation."""
    labels = frozenset(("PER", "X", "ORG"))
    records = []
    with _file(data, "f.json") as (source, output):
        try:
            for place, value in read_objects(source):
                assert place.startswith(f"{source}:")
                with suppress(Problem, Ignored):
                    if not isinstance(value, Problem):
                        records.append(read_record(value, place, known_labels=labels))
        except CorpusError as error:
            _check_error(error, source, output)
            return
    for record in [*records, *_merge(records)]:
        with suppress(Problem):
            made = make_doc(record, _nlp())
            n_kept = made.entities + made.ambiguous + made.rejected
            assert n_kept + len(made.left_out) <= record.n_spans
            assert len(made.doc.ents) == made.entities
            if not (made.left_out or record.missing):
                are_known = all(token.ent_iob for token in made.doc)
                assert are_known == record.complete or not len(made.doc)


def _merge(records: list[Record]) -> list[Record]:
    """Merge the records with the first text, as if they were answers of Prodigy."""
    group = [record for record in records if record.text and record.text == records[0].text]
    with suppress(Problem):
        return [prodigy.merge(group)] if group else []
    return []


def _fuzz_crfsuite(data: bytes) -> None:
    with _file(data, "f.crfsuite") as (source, output):
        try:
            examples = list(CRFsuiteCorpus(source)(_nlp()))
        except CorpusError as error:
            _check_error(error, source, output)
            return
        assert examples and all(isinstance(example, Example) for example in examples)


def _fuzz_compressed(data: bytes, suffix: str) -> None:
    with _file(data, f"f.txt{suffix}") as (source, output):
        try:
            convert([source], output, format="columns")
        except CorpusError as error:
            _check_error(error, source, output)


def _fuzz_labels(data: bytes) -> None:
    for name in ("labels.json", "labels.txt"):
        with _file(data, name) as (source, _):
            try:
                labels = parse_labels(str(source))
            except ValueError as error:
                assert str(source) in str(error)
            else:
                assert labels and all(label.strip() == label != "" for label in labels)


def _fuzz_partial_corpora(data: bytes) -> None:
    """Settings of `spacy-bcrf.PartialCorpora.v1`, with a corpus that exists."""
    with _file(b"", "f.spacy") as (source, _):
        try:
            settings = json.loads(data.replace(b"PATH", str(source).encode()))
        except (ValueError, RecursionError):
            return
        if isinstance(settings, dict):
            try:
                make_partial_reader(settings)
            except ValueError as error:
                assert "[PartialCorpora]" in str(error)


def _fuzz_settings(data: bytes) -> None:
    """A setting of `bcrf_ner`: its number, a colon and its value in JSON, or else a string."""
    number, _, text = data.partition(b":")
    if not number.isdigit() or len(number) > 2 or int(number) >= len(SETTINGS):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text.decode(errors="replace")
    config: dict[str, Any] = {}
    inner = config
    *outer, last = list(SETTINGS)[int(number)].split(".")
    for key in outer:
        inner = inner.setdefault(key, {})
    inner[last] = value
    # spaCy's ConfigValidationError and RegistryError are ValueErrors.
    with suppress(ValueError):
        spacy.blank("xx").add_pipe("bcrf_ner", config=config)


class _file:
    """A temporary folder with a file of these bytes. Gives its path, and one to write to."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> tuple[Path, Path]:
        source = Path(self.folder.__enter__()) / self.name
        source.write_bytes(self.data)
        return source, source.with_name("out.spacy")

    def __exit__(self, *error: Any) -> None:
        self.folder.__exit__(*error)


def _check_error(error: CorpusError, source: Path, output: Path) -> None:
    assert str(error).startswith((f"{source}:", f"{output}: not written")), error
    assert list(source.parent.iterdir()) == [source]


@cache
def _nlp() -> Language:
    set_extensions()
    return spacy.blank("xx")


TARGETS: dict[str, Target] = {
    "columns": partial(_fuzz_columns, reader=partial(read_columns, tag_column=2)),
    "conllu": partial(_fuzz_columns, reader=read_conllu),
    "crfsuite": _fuzz_crfsuite,
    "convert": _fuzz_records,
    "jsonl": partial(_fuzz_json, read_record=partial(jsonl.read_record, tags=TAGS)),
    "prodigy": partial(_fuzz_json, read_record=prodigy.read_record),
    "label-studio": partial(_fuzz_json, read_record=label_studio.read_record),
    "labels": _fuzz_labels,
    "partial-corpora": _fuzz_partial_corpora,
    "settings": _fuzz_settings,
    **{suffix: partial(_fuzz_compressed, suffix=suffix) for suffix in (".gz", ".xz", ".bz2")},
}

SEEDS: dict[str, list[bytes]] = {
    "columns": [COLUMNS.encode()],
    "conllu": [CONLLU.encode()],
    "crfsuite": [CRFSUITE.encode()],
    "convert": [
        json.dumps(records, indent=1).encode() for records in (PARTIAL, OTHER_TOOLS, LABEL_STUDIO)
    ],
    "jsonl": [_lines(PARTIAL), _lines(OTHER_TOOLS), json.dumps(PARTIAL).encode()],
    "prodigy": [_lines(PRODIGY)],
    "label-studio": [_lines(LABEL_STUDIO)],
    "labels": [b'["PER", "LOC"]', b"PER\nLOC\n"],
    "partial-corpora": [
        json.dumps({"a": {"path": "PATH", "annotated_labels": ["X"], "weight": 2.0}}).encode()
    ],
    "settings": [f"{i}:{json.dumps(value)}".encode() for i, value in enumerate(SETTINGS.values())],
    ".gz": [gzip.compress(COLUMNS.encode(), mtime=0)],
    ".xz": [lzma.compress(COLUMNS.encode())],
    ".bz2": [bz2.compress(COLUMNS.encode())],
}
