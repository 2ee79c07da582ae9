"""F of spans and accuracy of tags."""

from __future__ import annotations

from collections.abc import Sequence

from bcrf.schemes import read_spans


def span_f(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """Compute the F of spans in percent, as conlleval does, from the tags of each sentence."""
    expected, predicted = (
        {(i, *span) for i, tags in enumerate(sentences) for span in read_spans(tags)}
        for sentences in (gold, found)
    )
    return 200 * len(expected & predicted) / max(len(expected) + len(predicted), 1)


def accuracy(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """Compute the share of equal tags in percent, from the tags of each sentence."""
    pairs = [
        pair for sentence in zip(gold, found, strict=True) for pair in zip(*sentence, strict=True)
    ]
    return 100 * sum(one == other for one, other in pairs) / max(len(pairs), 1)
