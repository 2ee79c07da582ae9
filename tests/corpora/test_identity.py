"""Identity of runs."""

import pytest

from spacy_bcrf.corpora.identity import hash_files, keep_identity


def test_the_hash_of_a_folder_is_of_names_and_contents(tmp_path):
    def found():
        return hash_files(tmp_path / "a")

    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "c"
    file.write_bytes(b"12")
    first = found()
    (tmp_path / "a" / "__pycache__").mkdir()
    (tmp_path / "a" / "__pycache__" / "c.pyc").touch()
    assert found() == first
    file.write_bytes(b"13")
    assert found() != first
    file.write_bytes(b"12")
    file.rename(tmp_path / "a" / "b" / "d")
    assert found() != first
    assert hash_files(tmp_path / "a" / "b" / "d") != first


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
