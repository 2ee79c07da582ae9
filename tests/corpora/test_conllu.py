"""The reader of CoNLL-U."""

from pathlib import Path

import pytest

from bcrf.io.text import CorpusError, Line
from spacy_bcrf.corpora.formats.conllu import read_conllu


def row(id_, form, upos="X", xpos="_", misc="_"):
    return f"{id_}\t{form}\t_\t{upos}\t{xpos}\t_\t_\t_\t_\t{misc}"


def read(*rows, **options):
    lines = [Line(Path("f.conllu"), i, text) for i, text in enumerate(rows, start=1)]
    return list(read_conllu(lines, **options))


def test_tags_of_upos_or_xpos():
    rows = [row(1, "Dogs", "NOUN", "NNS"), row(2, "-", "PUNCT", "-"), row(3, "x", "_", "_")]
    (sentence,) = read(*rows)
    assert sentence.words == ["Dogs", "-", "x"]
    assert sentence.tags == sentence.pos == ["NOUN", "PUNCT", None]
    (sentence,) = read(*rows, tag="xpos")
    assert sentence.tags == ["NNS", "-", None]
    assert sentence.pos == ["NOUN", "PUNCT", None]


def test_blank_lines_separate_sentences():
    sentences = read("", row(1, "a"), "", "", "# only = a comment", "", row(1, "b"), row(2, "c"))
    assert [sentence.words for sentence in sentences] == [["a"], ["b", "c"]]
    assert [line.number for line in sentences[1].lines] == [7, 8]


def test_newdoc_starts_a_document():
    sentences = read(
        "# newdoc id = one",
        row(1, "a"),
        "",
        "# newpar",
        row(1, "b"),
        "",
        "# newdoc",
        "",
        row(1, "c"),
    )
    assert [sentence.starts_document for sentence in sentences] == [True, False, True]


def test_entity_tags_of_a_key_in_misc():
    rows = [
        row(1, "Ada", misc="SpaceAfter=No|NER=B-PER"),
        row(2, "ran", misc="NER=O|NE=B-X"),
        row(3, "on", misc="NER=_"),
        row(4, "on", misc="NER"),
        row(5, "on", misc="NER=-"),
        row(6, "on"),
    ]
    assert read(*rows)[0].entities == ["B-PER", "O", None, None, None, None]
    assert read(*rows, ent_key="NE")[0].entities == [None, "B-X", None, None, None, None]


NO_SPACE = "SpaceAfter=No"
HI_THERE = [row(1, "Hi"), row(2, "there")]
RANGE = [
    row(1, "I"),
    row("2-3", "don't", misc=NO_SPACE),
    row(2, "do"),
    row(3, "n't"),
    row(4, ".", misc=NO_SPACE),
]
OTHER_RANGE = [
    row(1, "prix", misc=NO_SPACE),
    row("2-3", "du", misc=NO_SPACE),
    row(2, "de"),
    row(3, "le"),
    row(4, "."),
]
RANGES = [
    *(row("1-2", "ab"), row(1, "a"), row(2, "b")),
    *(row("3-3", "c"), row(3, "c")),
    *(row("4-5", "de"), row(4, "d"), row(5, "e")),
]


@pytest.mark.parametrize(
    "text, rows, words, spaces",
    [
        # SpaceAfter decides, with and without a text.
        ("Hithere", [row(1, "Hi", misc=NO_SPACE), row(2, "there")], "Hi there", [False, True]),
        (None, [row(1, "Hi", misc=NO_SPACE), row(2, "there")], "Hi there", [False, True]),
        # Without SpaceAfter, the text decides.
        ("Hi there\xa0 !", [*HI_THERE, row(3, "!")], "Hi there !", [True, True, True]),
        ("Hi there!", [*HI_THERE, row(3, "!")], "Hi there !", [True, False, True]),
        # Spaces are unknown without both, and if the words are not the text.
        (None, HI_THERE, "Hi there", None),
        *((text, HI_THERE, "Hi there", None) for text in ("Hello there", "Hi there you")),
        *((text, HI_THERE, "Hi there", None) for text in ("Hi", "there Hi")),
        # The form of a range is that of its words, or spaces are unknown.
        ("I don't.", RANGE, "I do n't .", [True, False, False, False]),
        ("prixdu.", OTHER_RANGE, "prix de le .", None),
        (None, OTHER_RANGE, "prix de le .", None),
        (None, RANGES, "a b c d e", [False, True, True, False, True]),
    ],
)
def test_spaces(text, rows, words, spaces):
    (sentence,) = read(*([] if text is None else [f"# text = {text}"]), *rows)
    assert (sentence.words, sentence.spaces) == (words.split(), spaces)


def test_words_with_spaces():
    (sentence,) = read("# text = 20 000 km", row(1, "20 000"), row(2, "km", misc=NO_SPACE))
    assert sentence.words == ["20 000", "km"] and sentence.spaces == [True, False]


def test_empty_nodes_are_counted_but_no_tokens():
    (sentence,) = read(row("0.1", "x"), row(1, "a"), row("1.1", "y"), row("1.2", "z"), row(2, "b"))
    assert sentence.words == ["a", "b"] and sentence.empty_nodes == 3


@pytest.mark.parametrize(
    "rows, message",
    [
        (["1 Dogs _ NOUN _ _ _ _ _ _"], r"f.conllu:1: 1 column; expected 10, separated by tabs"),
        ([row(1, "a") + "\t_"], r"f.conllu:1: 11 columns; expected 10"),
        ([row(1, "a"), row(1, "b")], r"f.conllu:2: word 1; expected 2"),
        ([row(1, "a"), row(3, "b")], r"f.conllu:2: word 3; expected 2"),
        ([row(1, "a"), "", row(2, "b")], r"f.conllu:3: word 2; expected 1"),
        ([row("one", "a")], r"f.conllu:1: ID 'one'; expected a word \(3\)"),
        ([row("01", "a")], r"f.conllu:1: ID '01'"),
        ([row("\u0661", "a")], r"f.conllu:1: ID '\u0661'"),
        ([row("9" * 5000, "a")], r"f.conllu:1: ID '999"),
        ([row(1, "")], r"f.conllu:1: empty FORM; expected a word"),
        ([row(1, "a", "NOUNS")], r"f.conllu:1: UPOS 'NOUNS'; expected _ or one of ADJ ADP"),
        ([row(1, "a", "")], r"f.conllu:1: UPOS ''"),
        ([row(1, "a"), "# text = b"], r"f.conllu:2: a comment within a sentence; .*blank line"),
        ([row("1-2", "ab"), row(1, "a")], r"f.conllu:1: range 1-2 in a sentence of 1 words"),
        ([row("1-2", "ab"), ""], r"f.conllu:1: range 1-2 in a sentence of 0 words"),
        ([row("2-3", "ab")], r"f.conllu:1: range 2-3; expected it to start at 1"),
        ([row(1, "a"), row("2-1", "ab")], r"f.conllu:2: range 2-1; expected it to start at 2"),
        (
            [row("1-3", "abc"), row(1, "a"), row("2-3", "bc")],
            r"f.conllu:3: range 2-3 within range 1-3",
        ),
        ([row("1.1", "a")], r"f.conllu:1: empty node 1.1 after word 0"),
        ([row("0.1", "a"), ""], r"f.conllu:1: the sentence ends before its first word"),
        ([row("0.1", "a")], r"f.conllu:1: the sentence ends before its first word"),
    ],
)
def test_malformed_lines(rows, message):
    with pytest.raises(CorpusError, match=message):
        read(*rows)
