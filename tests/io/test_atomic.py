"""Files that are there whole or not at all."""

from pathlib import Path

import pytest

from spacy_bcrf.io.atomic import replacing, write_text


def test_what_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "new/file.txt"
    write_text(path, "old")

    def fail() -> None:
        with replacing(path) as part:
            part.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [file.read_text() for file in path.parent.iterdir()] == ["old"]


def test_a_folder_is_no_file_to_write(tmp_path):
    for path in (Path(), tmp_path):
        with pytest.raises(ValueError, match="expected the name of a file to write"):
            write_text(path, "text")
