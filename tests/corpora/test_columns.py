"""The reader of CoNLL columns."""

from pathlib import Path

import pytest

from bcrf.io.text import CorpusError, Line, scan_lines
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu


def read(text, **options):
    lines = [Line(Path("f.conll"), i, line) for i, line in enumerate(text.split("\n"), start=1)]
    return list(read_columns(lines, **options))


@pytest.mark.parametrize("separator", ["\t", " ", "  ", " \t"])
def test_first_column_is_the_word_and_last_the_entity_tag(separator):
    rows = [["EU", "NNP", "B-NP", "B-ORG"], ["rejects", "VBZ", "B-VP", "O"]]
    text = "\n".join(separator.join(columns) for columns in rows)
    if separator == " \t":
        text = f"a b c d\n\n{text}"  # blanks, because the first row has no tab
    sentence = read(text)[-1]
    assert sentence.words == ["EU", "rejects"]
    assert sentence.entities == ["B-ORG", "O"]
    assert sentence.tags == sentence.pos == [None, None]
    assert sentence.spaces is None


def test_columns_by_number_from_either_end():
    text = "1\tBoeing\tNNP\tB-ORG\t-\tsteve"
    (sentence,) = read(text, word_column=2, tag_column=-4, ent_columns=[4])
    assert (sentence.words, sentence.tags, sentence.entities) == (["Boeing"], ["NNP"], ["B-ORG"])
    (sentence,) = read(text, word_column=2, ent_columns=[0])
    assert sentence.entities == [None]


def test_missing_tags_are_none():
    (sentence,) = read("a\tX\tO\nb\t_\t_\nc\t\t\nd\t-\t-", tag_column=2)
    assert sentence.tags == ["X", None, None, "-"]
    assert sentence.entities == ["O", None, None, None]


def test_blank_lines_separate_sentences():
    sentences = read("a\tO\n\t\nb\tO\n \nc\tO\n\n\n\nd\tO")
    assert [sentence.words for sentence in sentences] == [["a"], ["b"], ["c"], ["d"]]
    assert [sentence.lines[0].number for sentence in sentences] == [1, 3, 5, 9]


@pytest.mark.parametrize(
    "marker",
    [
        "-DOCSTART-",
        "-DOCSTART-\tO",
        "-DOCSTART- -X- O O",
        "###MEDLINE:95369245",
        "# newdoc",
        " -DOCSTART- O",
    ],
)
@pytest.mark.parametrize("blank_lines, separator", [("", "\t"), ("\n", " ")])
def test_document_markers_start_documents(marker, blank_lines, separator):
    text = f"{marker}\n{blank_lines}a O\nb O\n\nc O\n{blank_lines}{marker}\n{blank_lines}d O"
    text = text.replace(" O", f"{separator}O")
    sentences = read(text)
    assert [sentence.words for sentence in sentences] == [["a", "b"], ["c"], ["d"]]
    assert [sentence.starts_document for sentence in sentences] == [True, False, True]


def test_comments_and_the_text_of_a_sentence():
    sentences = read(
        "# global.columns = ID FORM NER\n# sent_id = a-1\n# text = Hi, Ada!\n"
        "1\tHi\tO\n2\t,\tO\n3\tAda\tB-PER\n4\t!\tO\n\n# text = no\n1\tyes\tO\n",
        word_column=2,
    )
    assert sentences[0].words == ["Hi", ",", "Ada", "!"]
    assert sentences[0].spaces == [False, True, False, True]
    assert sentences[1].spaces is None


def test_words_that_start_with_a_number_sign_are_no_comments():
    assert read("#\tO\n#newdoc\tO\n#text\tO")[0].words == ["#", "#newdoc", "#text"]
    assert read("#\tO\n\n")[0].words == ["#"]
    assert read("# text = a\tb\na O")[0].words == ["a"]
    assert read("# O\n#newdoc O\n#text O\na O")[0].words == ["#", "#newdoc", "#text", "a"]


def test_lines_with_a_number_sign_and_no_tab_are_comments():
    assert [s.words for s in read("# Made by hand\na\tO\n#\n# and so on\nb\tO")] == [["a"], ["b"]]


def test_only_tabs_and_blanks_separate_columns():
    assert read("20\xa0000 O\na\u3000b O")[0].words == ["20\xa0000", "a\u3000b"]
    assert read("20 000\tO")[0].words == ["20 000"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\tO\n\nb", r"f.conll:3: 1 column; expected 2, separated by tabs, as in line 1"),
        ("a X O\nb O", r"f.conll:2: 2 columns; expected 3, separated by blanks, as in line 1"),
        ("a\tO\n\xa0\nb\tO", r"f.conll:2: 1 column; expected 2"),
        ("a\tO\n\tO", r"f.conll:2: empty word; expected one in column 1"),
        ("a\tO\n \tO", r"f.conll:2: empty word"),
        (
            "-DOCSTART-\n\na",
            r"f.conll:3: 1 column; column 1 is chosen for the word and the entity tag; expected",
        ),
    ],
)
def test_malformed_lines(text, message):
    with pytest.raises(CorpusError, match=message):
        read(text)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"word_column": 3}, r"f.conll:1: 2 columns; column 3 for the word does not exist"),
        ({"word_column": 0}, r"f.conll:1: 2 columns; column 0 for the word does not exist"),
        ({"tag_column": -3}, r"f.conll:1: 2 columns; column -3 for the tag does not exist"),
        ({"ent_columns": [2, 5]}, r"2 columns; column 5 for the entity tag does not exist"),
        # The last column has a number too.
        ({"tag_column": 2}, r"f.conll:1: .*column 2 is chosen for the tag and the entity tag; exp"),
    ],
)
def test_missing_columns(options, message):
    with pytest.raises(CorpusError, match=message):
        read("a\tO", **options)


@pytest.mark.parametrize("suffix", ["iob2", "conllu"])
def test_a_document_starts_at_a_comment_that_is_not_utf8(tmp_path, suffix):
    rows = {"iob2": "{}\tO\n\n", "conllu": "1\t{}" + 8 * "\t_" + "\n\n"}[suffix]
    path = tmp_path / f"corpus.{suffix}"
    text = "# newdoc id = a\n" + rows.format("a") + "# newdoc id = caf\xe9\n" + rows.format("b")
    path.write_bytes(text.encode("latin-1"))
    read = {"iob2": read_columns, "conllu": read_conllu}[suffix]
    found = [(s.words, s.starts_document) for s in read(scan_lines(path))]
    assert found == [(["a"], True), (["b"], True)]
