"""Hashes of files."""

from bcrf.io.hashes import hash_files


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
    files = [tmp_path / "a" / "b" / "d", tmp_path / "a"]
    assert len({hash_files(*files), hash_files(*files[::-1]), *map(hash_files, files)}) == 4
