"""Random changes of bytes."""

from __future__ import annotations

import random

NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
TEXTS = [
    *(b"\n", b"\t", b" ", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"_", b"-"),
    *(b"null", b"true", b"-1", b"1e400", b"NaN", b"{}", b"[]", b'"', b"[", b"]", b",", b"\\ud800"),
]


def mutate(rng: random.Random, seeds: list[bytes]) -> bytes:
    """Apply 1 to 8 changes to a seed, fewer more often."""
    data = rng.choice(seeds)
    for _ in range(min(8, 1 + int(rng.expovariate(0.7)))):
        start = rng.randint(0, len(data))
        end = min(len(data), start + int(rng.expovariate(1 / 16)))
        data = data[:start] + _replacement(rng, data[start:end], seeds) + data[end:]
    return data


def _replacement(rng: random.Random, part: bytes, seeds: list[bytes]) -> bytes:
    kind = rng.randrange(7)
    if kind == 0:
        return b""
    if kind == 1:
        return part * rng.choice([2, 3, 100])
    if kind == 2:
        return rng.randbytes(len(part))
    if kind == 3:
        return rng.choice(TEXTS)
    if kind == 4:
        size = rng.choice([1, 2, 4, 8])
        number = rng.choice(NUMBERS) & (1 << 8 * size) - 1
        return number.to_bytes(size, rng.choice(["little", "big"]))
    if kind == 5 and part:
        at = rng.randrange(len(part))
        return part[:at] + bytes([part[at] ^ 1 << rng.randrange(8)]) + part[at + 1 :]
    other = rng.choice(seeds)
    start = rng.randint(0, len(other))
    return other[start : start + int(rng.expovariate(1 / 16))]
