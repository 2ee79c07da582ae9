"""Records to documents: spans that do not fit are left out, and nothing else."""

import pytest
import spacy

from bcrf.io.json_objects import Problem
from spacy_bcrf.annotation.misaligned import find_misaligned
from spacy_bcrf.corpora.make_doc import make_doc
from spacy_bcrf.corpora.record import Record, RecordSpan

NLP = spacy.blank("en")
TEXT = "Ada Lovelace lived in Rome"


def make(*spans, text=TEXT, words=None, rejected=(), key=None, align="strict", **fields):
    record = Record(
        ["f:1"],
        text,
        words,
        [RecordSpan(start, end, tuple(labels)) for start, end, *labels in spans],
        [RecordSpan(start, end, tuple(labels)) for start, end, *labels in rejected],
        **{"complete": True, **fields},
    )
    return make_doc(record, NLP, key, align)


def found(made, key=None):
    group = made.doc.ents if key is None else made.doc.spans.get(key, ())
    return [(span.text, span.label_) for span in group]


def iob(made):
    return "".join(token.ent_iob_ or "-" for token in made.doc)


@pytest.mark.parametrize(
    "align, expected, tags",
    [
        ("strict", [("Rome", "LOC")], "--OOB"),
        ("contract", [("Ada", "PER"), ("Rome", "LOC")], "BOOOB"),
        ("expand", [("Ada Lovelace", "PER"), ("Rome", "LOC")], "BIOOB"),
        ("split", [("Ada Lo", "PER"), ("Rome", "LOC")], "BIOOOB"),
    ],
)
def test_a_span_that_cuts_a_token(align, expected, tags):
    made = make((0, 6, "PER"), (22, 26, "LOC"), align=align)
    assert (found(made), iob(made)) == (expected, tags)
    assert made.doc.text == TEXT
    problems = [(problem.reason, str(problem)) for problem in made.left_out]
    assert problems == [
        (
            "cut tokens",
            "span 0:6 'Ada Lo' PER cuts tokens of 'Ada Lovelace'; expected 0:12, or "
            "`convert --align` contract, expand or split",
        )
    ] * (align == "strict")


@pytest.mark.parametrize("key", [None, "sc"])
def test_a_span_that_cuts_a_token_stays_gold_beside_the_tokens(key):
    made = make((0, 6, "PER"), (22, 26, "LOC"), (5, 9, "PER", "ORG"), key=key)
    assert find_misaligned(made.doc, key) == [(0, 6, "PER")]  # of a certain label
    assert not find_misaligned(made.doc, "other")
    split = make((0, 6, "PER"), rejected=[(5, 9, "LOC")], key=key, align="split")
    assert not find_misaligned(split.doc, key)


def test_a_contraction_to_nothing_is_left_out():
    made = make((5, 9, "PER"), align="contract")
    assert (found(made), iob(made), len(made.left_out)) == ([], "O-OOO", 1)


def test_in_a_span_group_a_span_that_cuts_a_token_may_be_there():
    made = make((0, 12, "ORG"), (0, 6, "PER"), (22, 26, "LOC"), key="sc")
    assert found(made, "sc") == [("Ada Lovelace", "ORG"), ("Rome", "LOC")]
    allowed = [token._.allowed_labels for token in made.doc]
    assert allowed == [["O", "ORG", "PER"], ["O", "ORG", "PER"], None, None, None]
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("bcrf_spans")
    for label in ("LOC", "ORG", "PER"):
        pipe.add_label(label)
    gold = pipe.read_gold([spacy.training.Example(nlp.make_doc(TEXT), made.doc)])
    assert not gold.problems
    # Two tokens are open in the chain of PER alone.
    assert sorted(gold.tags.sum(axis=1).tolist()) == [1] * 13 + [5] * 2


def test_a_rejected_span_is_never_moved():
    for align in ("strict", "contract", "expand"):
        made = make(rejected=[(0, 6, "PER")], align=align)
        assert not found(made, "incorrect_spans") and iob(made) == "OOOOO" and made.left_out
    made = make(rejected=[(0, 6, "PER")], align="split")
    assert found(made, "incorrect_spans") == [("Ada Lo", "PER")]


@pytest.mark.parametrize(
    "spans, expected, tags",
    [
        ([(4, 12, "PER"), (0, 12, "ORG")], [("Ada Lovelace", "ORG")], "BIOOO"),
        ([(0, 12, "PER"), (4, 26, "LOC")], [("Lovelace lived in Rome", "LOC")], "-BIII"),
        ([(0, 12, "PER"), (0, 12, "LOC")], [("Ada Lovelace", "PER")], "BIOOO"),
        ([(0, 12, "PER"), (4, 12)], [("Ada Lovelace", "PER")], "BIOOO"),
    ],
)
def test_the_longest_of_overlapping_entities_stays(spans, expected, tags):
    made = make(*spans)
    assert (found(made), iob(made)) == (expected, tags)
    assert [problem.reason for problem in made.left_out] == ["overlap"]


def test_overlapping_ambiguous_spans():
    for key in (None, "sc"):
        made = make((0, 12, "LOC", "PER"), (4, 12, "LOC", "ORG"), key=key)
        assert found(made, "ambiguous_spans") == [("Ada Lovelace", "LOC"), ("Ada Lovelace", "PER")]
        assert [problem.reason for problem in made.left_out] == ["overlap"]


@pytest.mark.parametrize(
    "labels, wrong",
    [(["PER"], ["PER"]), (["PER"], []), (["LOC", "PER"], ["LOC", "PER"]), ([], [])],
)
def test_an_entity_that_is_rejected_too_is_left_out(labels, wrong):
    made = make((0, 12, *labels), (22, 26, "LOC"), rejected=[(0, 12, *wrong)])
    assert (found(made), iob(made)) == ([("Rome", "LOC")], "--OOB")
    assert not {"ambiguous_spans", "incorrect_spans"} & set(made.doc.spans)
    assert {problem.reason for problem in made.left_out} == {"contradiction"}
    made = make((0, 12, "PER"), rejected=[(0, 12, "ORG")])
    assert not made.left_out and iob(made) == "BIOOO"


WORDS = ["Ada", " ", "left", "\xa0", "\u3000"]


@pytest.mark.parametrize(
    "bounds, expected", [((0, 2), "Ada"), ((1, 4), "left"), ((2, 5), "left"), ((3, 5), None)]
)
def test_white_space_at_an_edge_is_trimmed(bounds, expected):
    """In tokens as in characters."""
    offsets = [0, 4, 6, 11, 13, 15]
    texts = [make((*bounds, "PER"), text=None, words=WORDS)]
    text = "".join(word + " " for word in WORDS)
    texts.append(make((offsets[bounds[0]], offsets[bounds[1]], "PER"), text=text))
    for made in texts:
        assert found(made) == ([(expected, "PER")] if expected else [])
        assert made.n_trimmed == bool(expected)
        assert [problem.reason for problem in made.left_out] == ["white space"] * (not expected)


def test_words_that_are_not_in_the_text():
    with pytest.raises(Problem) as caught:
        make(words=["Eve"])
    assert caught.value.reason == "not tokenized"


def test_a_missing_tag_in_a_span_group_allows_all_labels():
    doc = make(words=TEXT.split(), key="sc", missing=[(4, 12)], complete=True).doc
    assert [bool(token._.allowed_labels) for token in doc][:3] == [False, True, False]
