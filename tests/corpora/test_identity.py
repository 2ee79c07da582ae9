"""Identity of runs."""

import pytest

from spacy_bcrf.corpora.identity import keep_identity


def test_another_run_is_refused_with_all_differences(tmp_path):
    path = tmp_path / "run.json"
    keep_identity(path, {"model": {"rate": 0.1, "n": 5}, "seed": (0, 1)})
    keep_identity(path, {"seed": (0, 1), "model": {"n": 5, "rate": 0.1}})
    content = path.read_bytes()
    with pytest.raises(ValueError) as error:
        keep_identity(path, {"model": {"rate": 0.2}, "seed": [0, 1], "labels": []})
    expected = "model rate was 0.1, is 0.2; model n is missing now; labels is new. Give the same"
    assert f"{tmp_path}: was started differently: {expected}" in str(error.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"?", b"\xff"])
def test_a_file_of_something_else_is_named(tmp_path, content):
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.json: is not the file of an earlier run"):
        keep_identity(path, {})
    assert path.read_bytes() == content
