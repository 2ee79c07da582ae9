"""JSON values and tables of results."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_bcrf.result import Result, as_json


@dataclass(repr=False)
class Found(Result):
    name: str
    value: Any


@pytest.mark.parametrize(
    "value, expected",
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.float32("nan"), None),
        (float("inf"), None),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array([np.nan, 1.0]), [None, 1.0]),
        (("a", np.int32(1)), ["a", 1]),
        ({"n": np.int8(1), "nlp": spacy.blank("xx")}, {"n": 1}),
        (Found("inner", 1.0), {"name": "inner", "value": 1.0}),
    ],
)
def test_values_are_json(value, expected):
    found = json.loads(json.dumps(Found("x", value).to_json(), allow_nan=False))
    assert found == {"name": "x", "value": expected}
    assert as_json(value) == expected


def test_the_table_is_escaped():
    assert "<td>a&lt;b</td>" in Found("a<b", 1)._repr_html_()
