"""Fuzz tests: each file gives all of its sentences or a CorpusError."""

import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from bcrf.io.text import CorpusError, Line
from bcrf.schemes import BIO
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu
from tests.fuzz.targets_formats import COLUMNS, CONLLU

READERS = {"conllu": read_conllu, "columns": partial(read_columns, tag_column=2)}
OPTIONS = {
    "conllu": {"ent_key": "NER"},
    "columns": {"word_column": 1, "tag_column": 2, "ent_columns": [-1]},
}

cells = st.one_of(
    st.sampled_from(["_", "-", "#", "=", "text", "newdoc", "NER=B-X", "SpaceAfter=No", "NOUN"]),
    st.sampled_from(["O", "B-X", "I-X", "E-X", "U-X", "1", "2", "2-3", "1.1", "a"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)
separators = st.sampled_from(["\t", "\t", " ", "\n", "\n", "\n\n", "\r\n", "\x85", "\u2028"])


@st.composite
def random_texts(draw):
    return "".join(a + b for a, b in draw(st.lists(st.tuples(cells, separators), max_size=40)))


@st.composite
def mutated_texts(draw, text):
    """A valid file with a few parts removed, doubled or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        middle = draw(st.one_of(st.just(""), st.just(text[start:end] * 2), cells, separators))
        text = text[:start] + middle + text[end:]
    return text


def read(format, text):
    lines = [Line(Path("f"), i, line) for i, line in enumerate(text.split("\n"), start=1)]
    return list(READERS[format](lines))


def write(format, sentences):
    """Write the words and annotation of sentences in a format."""
    lines = []
    for sentence in sentences:
        if sentence.starts_document:
            lines += ["# newdoc"]
        rows = zip(sentence.words, sentence.tags, sentence.entities, strict=True)
        for i, (word, tag, entity) in enumerate(rows, start=1):
            tag, entity = tag or "_", entity or "_"
            if format == "columns":
                lines.append(f"{word}\t{tag}\t{entity}")
            else:
                lines.append(f"{i}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\tNER={entity}")
        lines.append("")
    return "\n".join(lines)


def check(format, text):
    """Assert that written sentences are read again unchanged, or that the text is an error."""
    try:
        sentences = read(format, text)
    except CorpusError as err:
        assert str(err).startswith("f:")
    else:
        again = read(format, write(format, sentences))
        assert len(again) == len(sentences)
        for one, other in zip(sentences, again, strict=True):
            assert one.words == other.words
            assert one.tags == other.tags
            assert one.entities == other.entities
            assert one.starts_document == other.starts_document


def check_file(format, data):
    """Assert that a file is converted completely, or that the error leaves no output."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "f.txt", Path(folder) / "f.spacy"
        source.write_bytes(data)
        try:
            counts = convert([source], output, format=format, **OPTIONS[format])
        except CorpusError as err:
            assert str(err).startswith(f"{source}:")
            assert list(Path(folder).iterdir()) == [source]
            return
        docs = list(DocBin().from_disk(output).get_docs(Vocab()))
        expected = read(format, data.decode("utf-8-sig").replace("\r\n", "\n"))
        assert [[token.text for token in doc] for doc in docs] == [s.words for s in expected]
        assert sum(len(doc.ents) for doc in docs) == counts.entities
        for doc in docs:
            tags = [f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else t.ent_iob_ for t in doc]
            assert len(BIO.spans(tags)) == len(doc.ents)


each_format = pytest.mark.parametrize("format, text", [("conllu", CONLLU), ("columns", COLUMNS)])


@each_format
def test_the_files_without_mutations_are_valid(format, text):
    assert len(read(format, text)) == 2
    check(format, text)
    check_file(format, text.encode())


@given(text=random_texts(), format=st.sampled_from(sorted(READERS)))
@example(text="# newdoc", format="conllu")
@example(text="a b\tO\tO", format="columns")
def test_random_text(text, format):
    check(format, text)


@each_format
@settings(max_examples=100)
@given(data=st.data())
def test_mutated_files(format, text, data):
    check(format, data.draw(mutated_texts(text)))


@each_format
@given(data=st.data())
def test_conversion_of_random_files(format, text, data):
    check_file(format, data.draw(st.one_of(random_texts(), mutated_texts(text))).encode())


@given(data=st.binary(max_size=60), format=st.sampled_from(sorted(READERS)))
def test_random_bytes(data, format):
    check_file(format, data)
