"""Identifiers of texts: what is one, what is none, and texts in pieces."""

import pickle
from copy import deepcopy

import pytest

pytest.importorskip("phonenumbers", reason="needs the extra identifiers")
pytest.importorskip("stdnum", reason="needs the extra identifiers")

from hypothesis import example, given
from hypothesis import strategies as st

from spacy_bcrf.annotation.identifiers import LONGEST_KEY, Identifiers

FINDER = Identifiers()
KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\n\nMIIEow+/=\n-----END RSA PRIVATE KEY-----"
CARDS = "4111 1111 1111 1111", "5500 0055 5555 5559"
PHONES = "0161 496 0118", "0161 496 0119"
GREEK = "GR16 0110 1250 0000 0001 2300 695"
RIGHT = [
    ("user=jessica.marlow status=200 took=18ms", {"jessica.marlow": "USERNAME"}),
    ("ip=203.0.113.87,", {"203.0.113.87": "IP_ADDRESS"}),
    ('{"tel":"+966501239876"}', {"+966501239876": "PHONE_NUMBER"}),
    ("3,Fatima,,+353 20 911 7344,Galway", {"+353 20 911 7344": "PHONE_NUMBER"}),
    ("<b>jtran@brightwater.example</b>.", {"jtran@brightwater.example": "EMAIL_ADDRESS"}),
    ("Tel. 0161 496 0118 |", {"0161 496 0118": "PHONE_NUMBER"}),
    ("her daughter (617-555-0164) drives", {"617-555-0164": "PHONE_NUMBER"}),
    (f"{GREEK}, VAT", {GREEK: "IBAN_CODE"}),
    ("Card 5500 0055 5555 5559 SUPERMARKT 2271", {"5500 0055 5555 5559": "CREDIT_CARD"}),
    ("mac=3c:22:fb:9a:01:d4 ap", {"3c:22:fb:9a:01:d4": "MAC_ADDRESS"}),
    ("from 2001:db8:85a3::8a2e:370:7334.", {"2001:db8:85a3::8a2e:370:7334": "IP_ADDRESS"}),
    ("Steuer-ID: 65 929 970 489", {"65 929 970 489": "NATIONAL_ID"}),
    ("id 123e4567-e89b-12d3-a456-426614174000", {"123e4567-e89b-12d3-a456-426614174000": "UUID"}),
    ('PASSWORD = "t0p-S3cret!Rabbit"', {"t0p-S3cret!Rabbit": "KEY"}),
    ("`AKIAZ7QXW3RT5YHNB2LM`", {"AKIAZ7QXW3RT5YHNB2LM": "KEY"}),
    (f"key:\n{KEY}\nend", {KEY: "KEY"}),
    ("(https://x.example/d?u=1).", {"https://x.example/d?u=1": "URL"}),
    ("exp 2027 4111 1111 1111 1111", {"4111 1111 1111 1111": "CREDIT_CARD"}),
    ("4111 1111 1111 1111 5500 0055 5555 5559", dict.fromkeys(CARDS, "CREDIT_CARD")),
    ("Tel: 0161 496 0118/0161 496 0119", dict.fromkeys(PHONES, "PHONE_NUMBER")),
    ("Call 0161 496 0118 0161 496 0119", dict.fromkeys(PHONES, "PHONE_NUMBER")),
    ("0161 496 0118, 0161 496 0119", dict.fromkeys(PHONES, "PHONE_NUMBER")),
    ("Call 555 0118 12", {"555 0118 12": "PHONE_NUMBER"}),
    ("ids 1234 2341 2341 2346", {"2341 2341 2346": "NATIONAL_ID"}),
    ("Ph: +44 131 496 0733", {"+44 131 496 0733": "PHONE_NUMBER"}),
    ("or +44 (0)131 496 0733.", {"+44 (0)131 496 0733": "PHONE_NUMBER"}),
    ("ring me in the morning on 07911123456", {"07911123456": "PHONE_NUMBER"}),
    ("My password is Harbour!Seal48.", {"Harbour!Seal48": "KEY"}),
    ("passcode 558 213 for the gate", {"558 213": "KEY"}),
    ("security code: 4471,", {"4471": "KEY"}),
    ("session=s%3Aq8Zt1vKx0LmP3 ok", {"s%3Aq8Zt1vKx0LmP3": "KEY"}),
    ("postgres://ledger_rw:T0psail@db.x:5432/a", {"ledger_rw": "USERNAME", "T0psail": "KEY"}),
    ("AB12 GR16 0110 1250 0000 0001 2300 695", {GREEK: "IBAN_CODE"}),
]  # fmt: skip
WRONG = [
    *('{"ticket": 4812, "sku": "TX-200"}', "type 2 diabetes, bp 142/88, 12 of 14, 1,204.77"),
    *("2025-02-11T06:14:09Z took=18ms 10:02:33", "version 3.2.1, chapter 6.2, TX-310"),
    *("code is 482 913. GR17 0110 1250 0000 0001 2300 695", "card 5500 0055 5555 5558"),
    *("std::vector<int> a = 2 * 3", "from 01/03/2025 to 12.11.2024", "No. 2025-00417"),
    *("reset the password within 24 hours", "session 3: 12:30 to 14:00", "order 01234567890"),
    *("password has 12 signs", "pin the 3 notes", "a passcode of 6 digits"),
    *("pin to 10:30", "security code (3-digit)", "access code 2024-01-01", "password 8-16 signs"),
]


@pytest.mark.parametrize(("text", "expected"), RIGHT)
def test_finds_with_check_digits_and_glued_to_markup(text: str, expected: dict[str, str]) -> None:
    assert {text[a:b]: label for a, b, label in FINDER.find(text)} == expected


@pytest.mark.parametrize("text", WRONG)
def test_leaves_other_numbers(text: str) -> None:
    assert FINDER.find(text) == []


def test_a_long_list_of_numbers_is_found() -> None:
    for n in range(5):
        text = " ".join([*"1234567"[:n], *CARDS * 5, GREEK, *PHONES * 5])
        found = [text[a:b] for a, b, _ in FINDER.find(text)]
        assert found == [*CARDS * 5, GREEK, *PHONES * 5]


def test_an_open_key_ends_the_search() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + "abc " * LONGEST_KEY + "a@b.example"
    (found,) = FINDER.find(text)
    assert text[found.start :] == "a@b.example"


@example(["x", KEY, "a@b.example 12"], [7], "")
@given(
    st.lists(
        st.sampled_from([*dict(RIGHT), *WRONG, *CARDS, KEY, "A", " ", "\n", "12 "]), max_size=5
    ),
    st.lists(st.integers(1, 40), min_size=1),
    st.sampled_from(["", " "]),
)
def test_pieces_of_a_text_give_the_same(parts: list[str], sizes: list[int], blank: str) -> None:
    text = blank.join(parts)
    found, read, at, k = [], "", 0, 0
    while len(read) < len(text):
        read = text[: len(read) + sizes[k % len(sizes)]]
        new, at = FINDER.scan(read, at, False)
        found += new
        k += 1
    found += FINDER.scan(text, at, True)[0]
    assert sorted(found) == FINDER.find(text)


def test_a_long_word_in_a_stream_takes_linear_time() -> None:
    """An embedded picture is one word. Quadratic time would be hours here."""
    text = "a" * 10**6 + " ann@b.example"
    assert FINDER.scan(text, 0, False) == ([], 10**6 + 1)


def test_copies_find_the_same() -> None:
    finder = Identifiers(["GB"])
    for copied in (pickle.loads(pickle.dumps(finder)), deepcopy(finder)):
        assert copied.regions == ("GB",)
        assert copied.find(RIGHT[0][0]) == finder.find(RIGHT[0][0]) != []


def test_names_an_unknown_country() -> None:
    with pytest.raises(ValueError, match="unknown country 'XX'"):
        Identifiers(["US", "XX"])
