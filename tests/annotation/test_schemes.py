"""Tagging schemes: constraints, encoding, decoding and repair."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bcrf.schemes import BIES, BILUO, BIO, MISSING, get_scheme, read_spans

SCHEMES = [BIO, BILUO, BIES]
LABELS = ["PER", "LOC"]
each_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)


@st.composite
def spans_and_length(draw):
    """Entities without overlaps in a sequence of up to 12 tokens."""
    length = draw(st.integers(0, 12))
    spans, position = [], 0
    while position < length:
        end = draw(st.integers(position + 1, length))
        if draw(st.booleans()):
            spans.append((position, end, draw(st.sampled_from(LABELS))))
        position = end
    return spans, length


def random_tags(scheme):
    return st.lists(st.sampled_from(["", *scheme.tags(LABELS)]), max_size=10)


@pytest.mark.parametrize(
    "name, tags",
    [
        ("BIO", "O B-PER I-PER B-LOC I-LOC"),
        ("BILUO", "O B-PER I-PER L-PER U-PER B-LOC I-LOC L-LOC U-LOC"),
        ("BIES", "O B-PER I-PER E-PER S-PER B-LOC I-LOC E-LOC S-LOC"),
    ],
)
def test_tags_and_names(name, tags):
    assert get_scheme(name).tags(LABELS) == tags.split()
    assert get_scheme(name).tags([]) == ["O"]


def test_an_unknown_scheme_is_an_error_listing_the_schemes():
    with pytest.raises(ValueError, match=r"one of BIO, BILUO, BIES, got 'BILOU'"):
        get_scheme("BILOU")


@pytest.mark.parametrize(
    "scheme, allowed",
    [
        (BIO, "O>O O>B B>O B>B B>I I>O I>B I>I"),
        (BILUO, "O>O O>B O>U B>I B>L I>I I>L L>O L>B L>U U>O U>B U>U"),
        (BIES, "O>O O>B O>S B>I B>E I>I I>E E>O E>B E>S S>O S>B S>S"),
    ],
)
def test_transitions_within_a_label(scheme, allowed):
    tags, matrix = scheme.tags(["X"]), scheme.constraints(["X"]).transitions
    pairs = {f"{tags[i][0]}>{tags[j][0]}" for i, j in np.argwhere(matrix)}
    assert pairs == set(allowed.split())


@each_scheme
def test_constraints_accept_exactly_the_valid_sequences(scheme):
    """The matrices and `spans` agree on every sequence of up to three tags."""
    tags = scheme.tags(LABELS)
    transitions, starts, ends = vars(scheme.constraints(LABELS)).values()
    for length in (1, 2, 3):
        for ids in itertools.product(range(len(tags)), repeat=length):
            allowed = starts[ids[0]] and ends[ids[-1]]
            allowed &= all(transitions[a, b] for a, b in itertools.pairwise(ids))
            sequence = [tags[i] for i in ids]
            if allowed:
                assert scheme.encode(scheme.spans(sequence), length) == sequence
            else:
                with pytest.raises(ValueError, match="not valid in"):
                    scheme.spans(sequence)
                with pytest.raises(ValueError, match="forbids tag id"):
                    scheme.decode_ids(ids)


@each_scheme
def test_without_labels_the_only_tag_is_outside(scheme):
    for allowed in vars(scheme.constraints([])).values():
        assert allowed.all() and allowed.size == 1


@each_scheme
@given(data=spans_and_length())
def test_encode_and_spans_round_trip(scheme, data):
    spans, length = data
    assert scheme.spans(scheme.encode(spans, length)) == spans


@each_scheme
@given(batch=st.lists(spans_and_length(), max_size=4))
def test_decode_ids_of_a_batch_equals_the_spans_of_each_sequence(scheme, batch):
    names, tags, flat, offset = scheme.tags(LABELS), [], [], 0
    for spans, length in batch:
        tags += scheme.encode(spans, length)
        flat += [(offset + start, offset + end, LABELS.index(label)) for start, end, label in spans]
        offset += length
    columns = np.array(flat, dtype="int32").reshape(-1, 3).T
    ids = [names.index(tag) for tag in tags]
    decoded = scheme.decode_ids(ids, [length for _, length in batch])
    assert_array_equal(decoded, columns)


@pytest.mark.parametrize(
    "scheme, ids, token",
    [
        (BIO, [0, 2], 1),
        (BIO, [1, 4], 1),
        (BIO, [1, -1], 1),
        (BILUO, [1, 0], 0),
        (BILUO, [0, 1], 1),
        (BILUO, [4, 2, 3], 1),
        (BIES, [1, 7], 1),
    ],
)
def test_decode_ids_names_the_first_invalid_token(scheme, ids, token):
    with pytest.raises(ValueError, match=f"token {token}:"):
        scheme.decode_ids(ids)


def test_no_entity_crosses_a_sequence_boundary():
    ids = [0, 1, 2, 0]
    assert_array_equal(BIO.decode_ids(ids, [4])[1], [3])
    with pytest.raises(ValueError, match="token 2:"):
        BIO.decode_ids(ids, [2, 0, 2])
    with pytest.raises(ValueError, match="token 1:"):
        BILUO.decode_ids([0, 1, 3, 0], [2, 2])
    with pytest.raises(ValueError, match="add up to 3"):
        BIO.decode_ids(ids, [3])


@pytest.mark.parametrize(
    "spans, message",
    [
        ([(0, 2, "PER"), (1, 3, "LOC")], r"\(1, 3, .*overlaps"),
        ([(2, 2, "PER")], r"\(2, 2, .*empty"),
        ([(3, 5, "PER")], r"\(3, 5, .*outside of the 4"),
        ([(-1, 2, "PER")], r"\(-1, 2, .*outside of the 4"),
    ],
)
def test_encode_refuses_overlapping_empty_and_outside_spans(spans, message):
    with pytest.raises(ValueError, match=message):
        BIO.encode(spans, 4)


@pytest.mark.parametrize(
    "scheme, tags, fixed, n_repaired",
    [
        (BIO, "O I-PER I-PER", "O B-PER I-PER", 1),
        (BIO, "B-PER I-LOC I-LOC", "B-PER B-LOC I-LOC", 1),
        (BIO, "B-PER I-PER B-PER", "B-PER I-PER B-PER", 0),
        (BILUO, "B-PER O", "U-PER O", 1),
        (BILUO, "I-PER", "U-PER", 1),
        (BILUO, "B-PER I-PER", "B-PER L-PER", 1),
        (BILUO, "B-PER L-PER L-PER", "B-PER L-PER U-PER", 1),
        (BILUO, "U-PER I-PER L-LOC", "U-PER U-PER U-LOC", 2),
        (BIES, "B-PER S-PER E-PER", "S-PER S-PER S-PER", 2),
        (BIES, "O E-LOC B-LOC I-LOC", "O S-LOC B-LOC E-LOC", 2),
    ],
)
def test_repair(scheme, tags, fixed, n_repaired):
    assert scheme.repair(tags.split()) == (fixed.split(), n_repaired)


def test_errors_name_the_token_the_tag_and_a_valid_tag():
    with pytest.raises(ValueError, match=r"token 1: 'I-PER' after 'O' .* 'B-PER' would be"):
        BIO.spans(["O", "I-PER"])
    with pytest.raises(ValueError, match=r"token 1: 'S-PER' is not a BIO tag; .*B-label, I-label"):
        BIO.repair(["O", "S-PER"])
    for nonsense in ("B", "B-", "PER", "X-PER", "b-PER", "_"):
        with pytest.raises(ValueError, match=f"token 0: '{nonsense}'"):
            BIO.spans([nonsense])


def test_missing_tags_stay_missing_and_end_entities():
    tags = [None, "B-PER", "", "I-PER", "-"]
    assert BIO.repair(tags) == ([None, "B-PER", "", "B-PER", "-"], 1)
    assert BIO.spans(["", "B-PER", "I-PER", None]) == [(1, 3, "PER")]


def test_labels_may_contain_hyphens():
    assert BIO.spans(["B-GPE-STATE", "I-GPE-STATE"]) == [(0, 2, "GPE-STATE")]


@each_scheme
@given(data=st.data())
def test_repair_is_valid_idempotent_and_keeps_conlleval_entities(scheme, data):
    tags = data.draw(random_tags(scheme))
    fixed, n_repaired = scheme.repair(tags)
    assert n_repaired == sum(a != b for a, b in zip(tags, fixed, strict=True))
    assert scheme.spans(fixed) == read_spans(tags)
    assert scheme.repair(fixed) == (fixed, 0)
    assert [tag in MISSING for tag in fixed] == [tag in MISSING for tag in tags]


def conlleval_spans(tags):
    """Oracle: startOfChunk and endOfChunk of CoNLL-2000's conlleval.pl, for BIO tags."""

    def split(tag):
        return ("O", "") if tag == "O" else tuple(tag.split("-"))

    ends, begins = "BB BO IB IO", "BB IB OB OI"
    spans, start = [], None
    previous, previous_type = "O", ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, kind = split(tag)
        step, changes = previous + prefix, kind != previous_type
        if start is not None and (step in ends or (previous != "O" and changes)):
            spans.append((start, i, previous_type))
            start = None
        if start is None and prefix != "O" and (step in begins or changes):
            start = i
        previous, previous_type = prefix, kind
    return spans


@given(st.lists(st.sampled_from(BIO.tags(LABELS)), max_size=10))
def test_read_spans_equals_conlleval(tags):
    assert read_spans(tags) == conlleval_spans(tags)
