"""The decoder for F: the spans with the largest sum of posterior - threshold."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Potentials, best_spans
from spacy_bcrf.layers.decoding import F

from .codecs import Codec
from .codecs.codec_types import Floats, Ops, PredictedSpans, Tags

THRESHOLD = 0.5
"""The threshold of a label without one: take what is more probable than not."""
HIGHEST = 1 - 1e-5
"""The highest threshold. The posterior of a preset span is 1 up to rounding."""


def check_decoder(name: str, codec: Codec, decoder: str) -> None:
    """Raise ValueError if a component without spans has the decoder for F."""
    if decoder == F and codec.spans is None:
        raise ValueError(
            f"[{name}] decoder = {F!r} chooses spans, but the component predicts {codec.what}. Set "
            "the decoder viterbi"
        )


def find_thresholds(
    name: str, labels: Sequence[str], threshold: float | dict[str, float]
) -> NDArray[np.float64]:
    """Return the threshold (L,) of each label. ValueError for other labels."""
    found = label_thresholds(name, labels, threshold)
    return np.where(found > 0, found, THRESHOLD).clip(max=HIGHEST)


def label_thresholds(
    name: str, labels: Sequence[str], threshold: float | dict[str, float]
) -> NDArray[np.float64]:
    """Return the threshold (L,) of each label, 0 without one. ValueError for other labels."""
    by_label = threshold if isinstance(threshold, dict) else dict.fromkeys(labels, threshold)
    if unknown := sorted(by_label.keys() - {*labels}):
        raise ValueError(
            f"[{name}] threshold names the labels {', '.join(unknown)}; the component has "
            f"{', '.join(labels)}"
        )
    return np.array([by_label.get(label, 0) for label in labels], dtype="float64")


def choose_spans(
    codec: Codec, posterior: Potentials, thresholds: NDArray[np.float64], ops: Ops
) -> tuple[PredictedSpans, Floats]:
    """Return M spans in order of the text, and their probabilities (M,).

    Their sum of probability - threshold is the largest of all sets that the chains can hold: spans
    of one chain do not overlap. thresholds: of labels. Constraints and presets are in the
    posterior, which is 0 for each span that they forbid.
    """
    assert codec.spans is not None
    least = float(thresholds.min(initial=HIGHEST))
    starts, ends, labels, p = codec.candidates(posterior, least, ops)
    gains = p - thresholds[labels]
    groups, depths = codec.spans.find_groups()
    # Groups side by side, so that their spans do not overlap.
    shift = groups[labels] * int(ends.max(initial=0))
    depth_of_span = depths[groups[labels]]
    chosen = np.zeros(len(starts), dtype=bool)
    for depth in np.unique(depth_of_span).tolist():
        some = np.flatnonzero(depth_of_span == depth)
        bounds = (starts + shift)[some], (ends + shift)[some]
        chosen[some[best_spans(*bounds, gains[some], depth)]] = True
    return (starts[chosen], ends[chosen], labels[chosen]), p[chosen]


def encode_spans(codec: Codec, spans: PredictedSpans, lengths: Tags) -> Tags:
    """Return the tags (C N,) of spans. lengths: (C B,) of the rows of all chains."""
    assert codec.spans is not None
    return codec.spans.encode(spans, lengths[:: codec.n_chains])
