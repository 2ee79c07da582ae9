"""Kinds of identifiers, by form and check digits."""

import pytest

from spacy_bcrf.sparse.word_attributes import PLAIN, find_identifiers


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("4012888888881881", ["card"]),
        ("4012-8888-8888-1881", ["card"]),
        ("4012888888881882", []),
        ("79927398713", []),  # passes the check, but is no card
        ("GB82WEST12345698765432", ["iban"]),
        ("gb82west12345698765432", ["iban"]),
        ("GB82WEST12345698765433", []),
        ("192.168.0.1", ["ip"]),
        ("192.168.0.256", []),
        ("2001:db8::1", ["ip"]),
        ("a.b@c.org", ["mail"]),
        ("a@b", []),
        ("https://a.b/c", ["web"]),
        ("www.a.b", ["web"]),
        ("١٢٣٤٥٦٧٨٩٠١٢", []),
        ("", []),
    ],
)
def test_kinds(word, kinds):
    assert list(find_identifiers(word)) == kinds


def test_traits_of_words_in_addresses():
    find = PLAIN["address"]
    assert list(find("N.,\n")) == [
        "length 1",
        "word n",
        "digits False False",
        "direction True",
        "street False",
        "vowels False",
        "end ,",
    ]
    assert list(find("(1200"))[:2] == ["number 4", "zeros 2"]
    assert list(find("&amp;"))[1] == "word &"
    for word, is_street in {"Ave.,": True, "Oaks": False, "PASS": True, "Lanes": True}.items():
        assert f"street {is_street}" in find(word)
