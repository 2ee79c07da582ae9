"""The compiled reader of CRFsuite's attributes against their meaning, in Python."""

import math
import pickle
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import pytest

from bcrf.linear.crfsuite_attributes import Attributes

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies


class Kind(str, Enum):
    A = "kind"


TEXT = st.text("ab:é好\ud800", max_size=9) | st.sampled_from([b"a", "é".encode(), b"\xff", Kind.A])
NUMBER = st.floats() | st.integers(-2, 2) | st.booleans() | st.just(np.float32(0.5))
WRONG = st.none() | st.just((1,)) | st.just(10**400) | st.builds(object)
NAMES = st.lists(TEXT | NUMBER, max_size=3) | st.sets(TEXT, max_size=3)
VALUE = st.recursive(
    TEXT | NUMBER | NAMES | WRONG,
    lambda value: st.dictionaries(TEXT | st.integers(0, 2), value, max_size=3),
)
TOKEN = (
    st.dictionaries(TEXT | st.none(), VALUE, max_size=4) | NAMES | st.tuples(TEXT) | WRONG | TEXT
)
SEQUENCES = st.lists(st.lists(TOKEN, max_size=3), max_size=3)


def name(token: Any) -> Iterator[tuple[str, float]]:
    """Yield the names and values of a token. ValueError for one without a meaning."""
    if isinstance(token, (str, bytes)) or not isinstance(token, Iterable):
        raise ValueError("expected a dict or a list of str")
    for key in token:
        if not isinstance(key, (str, bytes)):
            raise ValueError(f"attribute {key!r:.60} is not a str")
        text = decode(key)
        if not isinstance(token, dict):
            yield text, 1.0
            continue
        value = token[key]
        if isinstance(value, (str, bytes)):
            yield f"{text}:{decode(value)}", 1.0
        elif isinstance(value, (dict, list, set)):
            yield from ((f"{text}:{inner}", number) for inner, number in name(value))
        else:
            try:
                number = float(value)
            except (TypeError, OverflowError):
                raise ValueError(f"attribute {key!r} has the value") from None
            if not math.isfinite(number):
                raise ValueError(f"attribute {key!r} has the value {value!r}; expected a finite")
            if number:
                yield text, number


def decode(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else str.__str__(text)


def expect(X: list[list[Any]]) -> list[Counter] | str:
    """Return the sum of the values of each name, token by token, or the start of the error."""
    found = []
    for n, sequence in enumerate(X):
        for i, token in enumerate(sequence):
            found.append(Counter())
            try:
                for text, number in name(token):
                    found[-1][text] += number
            except ValueError as error:
                return f"sequence {n}, token {i}: {error}"
    return found


def read(attributes: Attributes, X: list[list[Any]], add: bool = False) -> list[Counter]:
    batch = attributes.read(X, add)
    assert batch.lengths.tolist() == list(map(len, X))
    values = np.ones(len(batch.rows)) if batch.values is None else batch.values
    found = [Counter() for _ in batch.starts[1:]]
    tokens = np.repeat(np.arange(len(found)), np.diff(batch.starts))
    for token, row, value in zip(tokens, batch.rows, values, strict=True):
        found[token][attributes.names[row]] += value
    return found


@hypothesis.settings(deadline=None, max_examples=400)
@hypothesis.given(SEQUENCES)
def test_names_and_errors_have_the_meaning_of_python(X):
    expected = expect(X)
    attributes = Attributes()
    if isinstance(expected, str):
        with pytest.raises(ValueError) as caught:
            attributes.read(X, add=True)
        assert str(caught.value).startswith(expected)
        return
    assert read(attributes, X, add=True) == expected == read(attributes, X)
    assert len(set(attributes.names)) == len(attributes.names)
    assert read(pickle.loads(pickle.dumps(attributes)), X) == expected
    half = set(attributes.names[::2])
    known = [Counter({text: c[text] for text in c if text in half}) for c in expected]
    assert read(Attributes(attributes.names[::2]), X) == known


def test_a_token_without_an_end_is_refused():
    token: dict[str, Any] = {}
    token["a"] = token
    with pytest.raises(RecursionError):
        Attributes().read([[token]])
    deep: dict[str, Any] = {"a": 1}
    for _ in range(50):
        deep = {"a": deep}
    assert Attributes([":".join("a" * 51)]).read([[deep]]).rows.tolist() == [0]


def test_a_token_that_changes_while_it_is_read_harms_nobody():
    token: dict[Any, Any] = {}

    class Clears:
        def __float__(self):
            token.clear()
            return 0.5

    token.update({"a": Clears(), "b": "c" * 99})
    with pytest.raises(RuntimeError, match="changed size"):
        Attributes().read([[token]], add=True)


def test_reading_keeps_no_reference():
    key, value = "a key".upper(), "a value".upper()
    counts = sys.getrefcount(key), sys.getrefcount(value)
    attributes = Attributes(["A KEY:A VALUE", "A KEY:A VALUE:A VALUE"])
    for _ in range(10):
        attributes.read([[{key: value}, {key: {value: [value]}}, (value,)]])
    assert (sys.getrefcount(key), sys.getrefcount(value)) == counts


def test_names_are_str():
    for names in ([1], [b"a"], None):
        with pytest.raises(TypeError):
            Attributes(names)
