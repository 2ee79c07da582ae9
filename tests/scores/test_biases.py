"""Transition biases in the format of the Privacy Filter."""

import json

import numpy as np
import pytest

from spacy_bcrf.scores.biases import NAMES, read_biases, spread_biases, write_biases

TAGS = ["O", *(f"{p}-{name}" for name in ("A", "B") for p in "BILU")]
BIASES = dict(zip(NAMES, (0.1, -0.2, 0.3, -0.4, 0.5, -0.6), strict=True))


def test_operating_points_are_written_and_read(tmp_path):
    path = tmp_path / "viterbi_calibration.json"
    transitions = spread_biases(BIASES, TAGS)
    write_biases(path, transitions, TAGS)
    write_biases(path, np.zeros_like(transitions), TAGS, "plain")
    assert read_biases(path) == pytest.approx(BIASES)
    assert set(read_biases(path, "plain").values()) == {0.0}


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("O", "O", "background_stay"),
        ("O", "U-A", "background_to_start"),
        ("B-A", "I-A", "inside_to_continue"),
        ("I-A", "L-A", "inside_to_end"),
        ("L-A", "O", "end_to_background"),
        ("U-A", "B-B", "end_to_start"),
        ("B-A", "I-B", None),
        ("B-A", "O", None),
    ],
)
def test_each_transition_has_its_bias(old, new, name):
    found = spread_biases(BIASES, TAGS)[TAGS.index(old), TAGS.index(new)]
    assert found == pytest.approx(BIASES[f"transition_bias_{name}"] if name else 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected operating points"),
        ({"operating_points": {"a": {}}}, "no operating point 'default'; there are a"),
        ({"operating_points": {"default": {"biases": {NAMES[0]: 1}}}}, f"has no {NAMES[1]}"),
    ],
)
def test_a_wrong_file(tmp_path, content, message):
    path = tmp_path / "biases.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=rf"biases\.json: .*{message}"):
        read_biases(path)


@pytest.mark.parametrize("content", ["{", "[]", '{"operating_points": 5}', "[" * 100_000, "\xff"])
def test_a_damaged_file_stays(tmp_path, content):
    path = tmp_path / "biases.json"
    path.write_text(content, encoding="latin-1")
    for call in (read_biases, lambda path: write_biases(path, np.zeros((9, 9)), TAGS)):
        with pytest.raises(ValueError, match=r"biases\.json: expected operating points"):
            call(path)
    assert path.read_text(encoding="latin-1") == content
