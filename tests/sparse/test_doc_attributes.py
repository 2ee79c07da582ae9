"""Tests of attributes that depend on the whole document."""

import pytest
from spacy.lang.en import English
from spacy.tokens import Doc

from bcrf.linear.templates import TemplateError
from spacy_bcrf.sparse.features import STRINGS, Features
from spacy_bcrf.sparse.gazetteers import Gazetteers

NLP = English()


def values(template, doc):
    """Return the values of a template at each token of a document."""
    features = Features([template])
    _, starts = features.keys([doc])
    found = [[name.partition("=")[2] for name in names] for names in features.describe(doc)]
    assert [len(names) for names in found] == (starts[1:] - starts[:-1]).tolist()
    return found


def test_positions_in_sentences():
    doc = Doc(NLP.vocab, words=list("abcde"), sent_starts=[True, False, False, True, False])
    assert values("position[0]", doc) == [
        ["start <=0", "end <=2"],
        ["start <=1", "end <=1"],
        ["start <=2", "end <=0"],
        ["start <=0", "end <=1"],
        ["start <=1", "end <=0"],
    ]
    # Without boundaries the document is one sentence.
    long = values("position[0]", Doc(NLP.vocab, words=["a"] * 13))
    assert [long[i][0] for i in (0, 4, 7, 12)] == [
        "start <=0",
        "start <=5",
        "start <=10",
        "start >10",
    ]
    assert long[0][1] == "end >10"


def test_the_case_of_a_word_elsewhere():
    words = ["Green", "saw", "green", "leaves", "and", "Mr", "Green", "Leaves", "fall"]
    starts = [i in (0, 7) for i in range(9)]
    doc = Doc(NLP.vocab, words=words, sent_starts=starts)
    found = dict(enumerate(values("repeated[0]", doc)))
    # The occurrence at the start of a sentence says nothing about the others.
    assert found[0] == ["capitalized", "lower"]
    assert found[2] == ["capitalized"]
    assert found[6] == ["lower"]
    assert found[3] == []
    assert found[7] == ["lower"]
    assert found[1] == found[8] == []


def test_annotation_elsewhere():
    doc = Doc(
        NLP.vocab,
        words=["Jordan", "lost", "to", "jordan", ",", "said", "JORDAN"],
        tags=["NNP", "VBD", "IN", "NN", ",", "VBD", "NNP"],
        ents=["B-PER", "O", "O", "B-LOC", "O", "O", "B-PER"],
    )
    assert values("elsewhere.ent_type[0]", doc)[0] == ["LOC", "PER"]
    assert values("elsewhere.ent_type[0]", doc)[3] == ["PER"]
    assert values("elsewhere.p[0]", doc)[6] == ["NN", "NNP"]
    assert values("elsewhere_before.lower[0]", doc)[0] == ["said", "to"]
    assert values("elsewhere_before.lower[0]", doc)[3] == ["said"]
    assert values("elsewhere_after.lower[0]", doc)[6] == [",", "lost"]
    assert values("elsewhere.lower[0]", doc)[1] == []


def test_only_the_most_frequent_values_elsewhere():
    # Twenty neighbours of "the" once each, and the last one twice more.
    words = [word for i in range(20) for word in ("the", f"w{i:02}")] + ["the", "w19"] * 2
    found = values("elsewhere_after.lower[0]", Doc(NLP.vocab, words=words))
    assert found[-2] == ["w00", "w01", "w02", "w03", "w04", "w05", "w06", "w19"]
    # A token's own value does not count.
    assert found[0] == ["w01", "w02", "w03", "w04", "w05", "w06", "w19"]
    assert max(map(len, found)) == 8


def test_each_string_attribute_can_be_read_elsewhere():
    doc = Doc(NLP.vocab, words=["a", "A"], morphs=["Case=Nom", "Case=Acc|Number=Sing"])
    assert values("elsewhere.morph[0]", doc) == [["Case=Acc|Number=Sing"], ["Case=Nom"]]
    assert values("elsewhere.shape[0]", doc) == [["X"], ["x"]]
    for name in STRINGS:
        assert len(values(f"elsewhere.{name}[0]", doc)) == 2
    assert values("elsewhere.lemma[0]", Doc(NLP.vocab)) == []


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("elsewhere.length[0]", "no string attribute of a token 'length'; there are dep, "),
        ("elsewhere[0]", "unknown attribute elsewhere"),
        ("position(2)[0]", "position takes no argument"),
        ("elsewhere.tag(2)[0]", "elsewhere.tag takes no argument"),
    ],
)
def test_bad_document_attributes_are_named(template, what):
    with pytest.raises(TemplateError, match=what):
        Features([template])


def test_partial_matches_of_a_gazetteer():
    gazetteers = Gazetteers({"places": ["New York City", "York", "New Delhi"]})
    features = Features(["partial.places[0]"], gazetteers)
    doc = Doc(NLP.vocab, words=["NEW", "York", "city", "x"])
    found = [[name[-1] for name in names] for names in features.describe(doc)]
    assert found == [["B"], ["I", "U"], ["L"], []]
    gazetteers.restore({"places": ["city"]})
    assert features.describe(doc, [2]) == [["partial.places[0]=U"]]
    with pytest.raises(TemplateError, match="no gazetteer 'names'; there are places"):
        Features(["partial.names[0]"], gazetteers)


def test_fields_of_a_form():
    words = "Note\nSex : M . Date ( of Birth ) : 1 , Name : Ann Lee\nEnd : x : y".replace(
        "\n", " \n "
    )
    doc = Doc(NLP.vocab, words=words.split(" "))
    found = values("field[0]", doc)
    by_word = {token.text: found[token.i] for token in doc}
    assert by_word["Note"] == by_word["Sex"] == by_word["End"] == []
    assert by_word["M"] == by_word["Date"] == ["sex"]
    assert by_word["1"] == ["date of birth"] and by_word["Lee"] == ["name"]
    assert by_word["x"] == ["end"] and by_word["y"] == ["x"]
