"""Atomic file and folder writes."""

from pathlib import Path

import pytest

from spacy_bcrf.io.atomic import replacing, replacing_folder, write_text


def test_an_exception_leaves_the_old_file(tmp_path):
    path = tmp_path / "new/file.txt"
    write_text(path, "old")

    def fail() -> None:
        with replacing(path) as part:
            part.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [file.read_text() for file in path.parent.iterdir()] == ["old"]


def test_a_folder_cannot_be_replaced_by_a_file(tmp_path):
    for path in (Path(), tmp_path):
        with pytest.raises(ValueError, match="expected the name of a file to write"):
            write_text(path, "text")


def test_an_exception_leaves_no_folder(tmp_path):
    path = tmp_path / "new/folder"

    def write(name: str) -> None:
        with replacing_folder(path) as part:
            (part / name).touch()
            if name == "bad":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write("bad")
    assert not list(path.parent.iterdir())
    path.mkdir()
    write("good")
    assert [file.relative_to(path.parent) for file in path.parent.rglob("*")] == [
        Path("folder"),
        Path("folder/good"),
    ]
    with pytest.raises(ValueError, match="expected a new or empty folder"):
        write("more")
