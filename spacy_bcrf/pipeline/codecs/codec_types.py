"""The arrays that codecs exchange with components."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Tags = NDArray[np.int32]

Floats = NDArray[np.floating]

Ops = Any
"""Thinc's Ops. Its type hints do not admit boolean arrays."""

PredictedSpans = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]
"""Starts, ends and labels (M,) of predictions. Positions are flat, and a tag spans one token."""

SpanArrays = tuple[
    NDArray[np.integer], NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]
]
"""Starts, ends, labels and probabilities (M,) of spans. Positions are flat."""

Labelings = tuple[NDArray[np.int32], NDArray[np.floating]]
"""Tags (m, L) of the m best labelings, and their scores (m,) in descending order."""

ScoredSpans = tuple[list[tuple[int, int, int]], NDArray[np.floating]]
"""The predictions of a document as (start, end, label), and their probabilities, float32."""

Unit = Literal["token", "span", "word"]
"""The unit of a confidence: the tag of a token, a span, or a word made of tokens."""
