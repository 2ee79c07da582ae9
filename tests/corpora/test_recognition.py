"""The format and the columns of a file by its content."""

import os
from itertools import islice
from pathlib import Path

import pytest

from bcrf.io.text import read_lines, scan_lines
from spacy_bcrf.corpora.formats.columns import Columns, guess_columns, read_columns
from spacy_bcrf.corpora.recognition import ANNOTATED
from spacy_bcrf.corpora.sample import Sample

NER2003 = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\nGerman JJ B-NP B-MISC\n"
UNER = "# sent_id = 1\n# text = in tampa\n1\tin\tO\t-\tann\n2\ttampa\tB-LOC\t-\tann\n"
# The annotators of most words are missing.
ANNOTATORS = "1\tin\tO\t-\t-\n2\ttampa\tB-LOC\t-\tann\n" + "3\tand\tO\t-\t-\n" * 20
TWEETS = "@ann\tO\n\tO\nhi\tO\nRome\tB-LOC\nis\tO\nfar\tO\n" * 3
GERMEVAL = "#\thttp://a.de\n1\tUni\tB-ORG\tO\n2\tRom\tI-ORG\tB-LOC\n"
TAG_FIRST = "O\tin\nB-LOC\tRome\nO\tand\n\nB-LOC\tOslo\n"
# Entities may follow after the lines that are read.
NO_INNER = "in\tO\tO\nRome\tB-LOC\tO\nOslo\tB-LOC\tO\n"
ONLY_CHUNKS = "Rome NNP B-NP O\nis VBZ B-VP O\nfar RB B-ADVP O\n"
POS_FIRST = "P\tin\tO\nN\tRome\tB-LOC\nP\ton\tO\nN\tOslo\tB-LOC\nP\tat\tO\nN\tBonn\tB-LOC\n"


def recognize_format(path):
    """Return the name of the first format that recognizes a file, None without one."""
    found = (each.name for each in ANNOTATED if each.recognize(Sample(path)))
    return next(found, None)


@pytest.mark.parametrize(
    "text, columns",
    [
        (NER2003, Columns()),
        (UNER, Columns(2, (3,))),
        (ANNOTATORS, Columns(2, (3,))),
        (TWEETS, Columns()),
        (GERMEVAL, Columns(2, (3, -1))),
        (TAG_FIRST, Columns(2, (1,))),
        (POS_FIRST, Columns(2)),
        (NO_INNER, Columns(1, (2, -1))),
        (ONLY_CHUNKS, Columns()),
        ("a\tI\nb\tZ\n", Columns()),
        ("1\t2\n3\t4\n", Columns()),
        ("", Columns()),
    ],
)
def test_columns_by_content(tmp_path, text, columns):
    path = tmp_path / "a.unknown"
    path.write_text(text)
    assert guess_columns(Sample(path)) == columns
    assert recognize_format(path) == ("columns" if "\tO" in text or " O" in text else None)
    if columns != Columns() and text:
        found = read_columns(
            read_lines(path), word_column=columns.word, ent_columns=columns.entities
        )
        words = [word for sentence in found for word in sentence.words]
        assert {"Rome", "Rom", "tampa"} & {*words} and "http://a.de" not in words


@pytest.mark.parametrize(
    "text, format",
    [
        ('\n{"text": "a"}\n', "jsonl"),
        ('[{"text": "a"}]', "jsonl"),
        ("[\n  {}\n]", "jsonl"),
        ('[ {"text": "a"} ]', "jsonl"),
        ("[]", "jsonl"),
        ('{\n "text": "a"}', "jsonl"),
        ("{\tO\nx\tO\n", "columns"),
        ("[ O\nx O\n", "columns"),
        ("# newdoc\n1-2\tdu\t" + "\t".join("_" * 8) + "\n", "conllu"),
        ("The first sentence .\n\nAnother one .\nOf five words it is\n", None),
        ("word\nword\n", None),
        ("\n\n", None),
    ],
)
def test_formats_by_content(tmp_path, text, format):
    path = tmp_path / "a.unknown"
    path.write_text(text)
    assert recognize_format(path) == format


FOLDER = os.environ.get("BCRF_CORPORA")
CORPORA = {
    "conll2000/test.txt": ("columns", Columns(), Columns(3, (1,))),
    "genia/dev.iob2": ("columns", Columns(1, (2, -1)), Columns(3, (1, 2))),
    "germeval2014/dev.iob2": ("columns", Columns(1, (2, -1)), Columns(3, (1, 2))),
    "jnlpba/devel.tsv": ("columns", Columns(), Columns(2, (1,))),
    "wnut17/emerging.test.annotated": ("columns", Columns(), Columns(2, (1,))),
    "uner-english-ewt/en_ewt-ud-dev.iob2": ("columns", Columns(2, (3,)), Columns(4, (3,))),
    "ud-german-gsd/de_gsd-ud-dev.conllu": ("conllu", None, None),
}
"""Format, columns, and columns in the reverse order."""


@pytest.mark.skipif(not FOLDER, reason="BCRF_CORPORA names no folder of published corpora")
@pytest.mark.parametrize("name", CORPORA)
def test_slices_of_published_corpora(tmp_path, name):
    format, columns, reverse = CORPORA[name]
    lines = [line.text for line in islice(scan_lines(Path(FOLDER, name)), 300)]
    path = tmp_path / "a.unknown"
    path.write_text("\n".join(lines))
    assert recognize_format(path) == format
    if columns is None:
        return
    assert guess_columns(Sample(path)) == columns
    separator = "\t" if any("\t" in line for line in lines) else " "
    lines = [
        line if line.startswith("#") else separator.join(line.split(separator)[::-1])
        for line in lines
    ]
    path.write_text("\n".join(lines))
    found = guess_columns(Sample(path))
    width = max(len(line.split(separator)) for line in lines if line[:1] not in ("", "#"))
    entities = tuple(column % (width + 1) for column in found.entities)
    assert found._replace(entities=entities) == reverse
