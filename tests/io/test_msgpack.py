"""MessagePack: equal values, the bytes of the specification and of srsly, damaged bytes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrf.io import msgpack

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=20)
    ),
    max_leaves=60,
)
SIZES = [0, 15, 16, 31, 32, 255, 256, 65535, 65536]
LARGE = [kind(n) for n in SIZES for kind in ("a".__mul__, b"a".__mul__, [None].__mul__)]
LARGE += [dict.fromkeys(range(n)) for n in SIZES]
NUMBERS = [sign * 2**k + d for k in range(64) for sign in (1, -1) for d in (0, -1)]
NUMBERS = [n for n in NUMBERS if n >= -(2**63)]


@given(values)
def test_values_come_back(value):
    assert msgpack.loads(msgpack.dumps(value)) == value


def test_bytes_of_the_specification():
    assert (
        msgpack.dumps({"compact": True, "schema": 0}).hex()
        == "82a7636f6d70616374c3a6736368656d6100"
    )
    assert msgpack.dumps((-1, -33, 128, -(2**63), 2**64 - 1)).hex() == (
        "95ffd0dfcc80d38000000000000000cfffffffffffffffff"
    )


@pytest.mark.parametrize("value", LARGE + NUMBERS, ids=lambda value: repr(value)[:20])
def test_sizes_and_numbers_at_their_limits(value):
    data = msgpack.dumps(value)
    assert msgpack.loads(data) == value
    if srsly := _srsly():
        assert data == srsly.msgpack_dumps(value)


@given(values)
def test_bytes_equal_those_of_srsly(value):
    srsly = pytest.importorskip("srsly")
    data = msgpack.dumps(value)
    assert data == srsly.msgpack_dumps(value)
    assert srsly.msgpack_loads(data) == value


@given(values, st.data())
def test_damaged_bytes_give_a_value_or_an_error(value, data):
    """And never another value than srsly finds."""
    good = bytearray(msgpack.dumps(value))
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    bad = bytes(good[: data.draw(st.integers(0, len(good)))])
    try:
        found = msgpack.loads(bad)
    except ValueError:
        return
    if srsly := _srsly():
        assert repr(srsly.msgpack_loads(bad)) == repr(found)  # NaN is not equal to itself


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "the value ends after byte 0, the last one"),
        (b"\xa3ab", "the value ends at byte 4, but there are 3"),
        (b"\xcb\x00", "the value ends after byte 2, the last one"),
        (b"\xdd\xff\xff\xff\xff\x01", "the value ends after byte 6, the last one"),
        (b"\x01\x02", "the value ends at byte 1, but there are 2"),
        (b"\x91\xc1", "byte 1: no known type has the code 0xc1"),
        (b"\x82\x01\x01\x90\x01", "byte 0: a map or list is the key"),
        (b"\xa1\xff", "invalid start byte"),
        (b"\x91" * 101 + b"\x01", "byte 100: more than 100 maps and lists"),
        (b"\x91" * 10**6, "more than 100 maps and lists"),
    ],
)
def test_damage_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        msgpack.loads(data)


@pytest.mark.parametrize(
    "value, message",
    [
        (2**64, "no type for the int of 18446744073709551616"),
        (-(2**63) - 1, "no type for the int of -9223372036854775809"),
        ({1, 2}, "no type for set"),
        (1j, "no type for complex"),
    ],
)
def test_what_has_no_bytes(value, message):
    with pytest.raises(ValueError, match=message):
        msgpack.dumps([value])


def test_deep_values():
    value: list = []
    for _ in range(99):
        value = [value]
    assert msgpack.loads(msgpack.dumps(value)) == value
    with pytest.raises(ValueError, match="more than 100 maps and lists"):
        msgpack.dumps([value])


def test_numbers_that_are_not_finite():
    assert math.isnan(msgpack.loads(msgpack.dumps(math.nan)))
    assert msgpack.loads(msgpack.dumps(-math.inf)) == -math.inf


def _srsly():
    try:
        import srsly
    except ImportError:
        return None
    return srsly
