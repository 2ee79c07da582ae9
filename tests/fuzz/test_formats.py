"""Each fuzz target of the formats survives mutations of its seeds."""

import random

import pytest
from targets_formats import SEEDS, TARGETS

TOKENS = (
    *(b"\n", b"\t", b" ", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"_", b"-"),
    *(b"null", b"true", b"-1", b"1e400", b"NaN", b"{}", b"[]", b'"', b"[", b"]", b",", b"\\ud800"),
)
N_INPUTS = {"settings": 30, "convert": 10, ".gz": 30, ".xz": 30, ".bz2": 30}
"""Fewer inputs for the slow targets."""


def mutate(seed, rng):
    """Remove, double, replace or insert a few parts."""
    data = seed
    for _ in range(rng.randint(1, 3)):
        start = rng.randint(0, len(data))
        end = min(len(data), start + rng.randint(0, 12))
        middle = rng.choice((b"", data[start:end] * 2, rng.choice(TOKENS), rng.randbytes(1)))
        data = data[:start] + middle + data[end:]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_seeds(name):
    target, rng = TARGETS[name], random.Random(name)
    for seed in SEEDS[name]:
        target(seed)
    for _ in range(N_INPUTS.get(name, 200)):
        data = mutate(rng.choice(SEEDS[name]), rng)
        try:
            target(data)
        except Exception as error:
            error.add_note(f"input: {data!r}")
            raise
