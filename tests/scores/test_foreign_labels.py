"""Labels of foreign taggers under our names."""

import numpy as np
import pytest

from spacy_bcrf.scores.foreign_labels import (
    Merge,
    find_names,
    find_unclear,
    match_tags,
    split_label,
)

BILUO = ["O", "B-PER", "I-PER", "L-PER", "U-PER"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [("B-PER", ("B", "PER")), ("S_X-Y", ("S", "X-Y")), ("O", ("", "O")), ("LOC", ("", "LOC"))],
)
def test_prefixes(label, expected):
    assert split_label(label) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["O", "B-PER", "I-PER"], [0, 1, 2, 2, 1]),
        (["O", "B-PER", "I-PER", "E-PER", "S-PER"], [0, 1, 2, 3, 4]),
        (["PER", "O"], [1, 0, 0, 0, 0]),
        (["O", "I_PER"], [0, 1, 1, 1, 1]),
        (["O", "B-ORG"], [0, -1, -1, -1, -1]),
    ],
)
def test_tags_take_the_label_that_stands_for_them(labels, expected):
    assert match_tags(labels, BILUO).tolist() == expected


def test_merged_labels_keep_their_probability_and_lose_ambiguous_prefixes():
    labels = ["O", "B-GIVEN", "I-GIVEN", "B-SURNAME", "B-CITY", "B-DATE"]
    merge = Merge(labels, {"GIVEN": "PERSON", "SURNAME": "PERSON", "DATE": "O"})
    assert merge.labels == ["O", "PERSON", "B-CITY"]
    p = np.array([[0.1, 0.2, 0.1, 0.3, 0.2, 0.1], [np.nan] * 6], dtype="float32")
    merged = np.exp(merge.apply(np.log(p)))
    np.testing.assert_allclose(merged[0], [0.2, 0.6, 0.2], rtol=1e-5)
    assert np.isnan(merged[1]).all()


def test_an_unknown_foreign_label_names_the_known_ones():
    with pytest.raises(ValueError, match="has no DATUM; it has O, PER"):
        Merge(["O", "B-PER"], {"DATUM": "DATE"})


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["O", "E-MAIL", "PHONE"], ["E-MAIL", "PHONE"]),
        (["O", "E-MAIL"], ["E-MAIL"]),
        (["O", "B-DAY", "PHONE"], ["B-DAY", "PHONE"]),
        (["O", "B-E-MAIL", "I-E-MAIL"], ["E-MAIL"]),
        (["O", "[PAD]", "B-PER", "I-PER"], ["PER", "[PAD]"]),
    ],
)
def test_plain_names_that_look_prefixed(labels, names):
    merged = Merge(labels, {}).labels
    assert find_names(merged) == names
    tags = ["O", *(f"{prefix}-{name}" for name in names for prefix in "BILU")]
    assert (match_tags(merged, tags) >= 0).all()
    foreign = names[0]
    assert find_names(Merge(labels, {foreign: "E-MAIL"}).labels)[0] == "E-MAIL"


def test_names_without_prefixes():
    assert find_names(["O", "I-B", "B-B", "A"]) == ["A", "B"]


def test_the_middle_of_bmes_and_suffixes_are_prefixes():
    assert Merge(["O", "B-PER", "M-PER", "E-PER", "S-PER"], {}).labels[2] == "M-PER"
    assert match_tags(["O", "B-PER", "M-PER", "E-PER", "S-PER"], BILUO).tolist() == [0, 1, 2, 3, 4]
    assert Merge(["O", "PER-B", "PER-I"], {}).labels == ["O", "B-PER", "I-PER"]
    # M and B belong to the names.
    assert find_names(Merge(["O", "M-PESA"], {}).labels) == ["M-PESA"]
    assert find_names(Merge(["O", "VITAMIN-B"], {}).labels) == ["VITAMIN-B"]


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        (["O", "B-X"], {}, ([], True)),
        (["PER", "OTHER"], {}, (["PER", "OTHER"], False)),
        (["PER", "OTHER"], {"OTHER": "O"}, ([], True)),
        (["0", "B-PER", "I-PER"], {"0": ""}, ([], True)),
        (["LABEL_0", "LABEL_1"], {"LABEL_1": "PER"}, (["LABEL_0"], False)),
        (["O", "[PAD]", "X", "B-PER"], {"X": "X"}, (["[PAD]"], True)),
    ],
)
def test_labels_that_may_mean_no_entity(labels, names, expected):
    assert find_unclear(labels, names) == expected
