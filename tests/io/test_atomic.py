"""Atomic file and folder writes."""

import errno
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from bcrf.io.atomic import replacing, replacing_folder, write_text


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
    with pytest.raises(ValueError, match="nothing in it is replaced"):
        write("more")
    assert [file.name for file in path.iterdir()] == ["good"]


def get_mode(path):
    return f"{path.stat().st_mode & 0o777:o}"


def test_links_and_modes_stay(tmp_path):
    real, link = tmp_path / "real/file.txt", tmp_path / "link.txt"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(tmp_path / "between")
    (tmp_path / "between").symlink_to("real/file.txt")
    write_text(link, "new")
    assert link.is_symlink() and (tmp_path / "between").is_symlink()
    assert (real.read_text(), get_mode(real)) == ("new", "640")
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "between",
        "file.txt",
        "link.txt",
        "real",
    ]


def test_a_dangling_link_gets_its_target(tmp_path):
    link = tmp_path / "link.txt"
    link.symlink_to("new/file.txt")
    write_text(link, "text")
    assert link.is_symlink() and (tmp_path / "new/file.txt").read_text() == "text"


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ValueError, match="a: is a link that leads to itself"):
        write_text(tmp_path / "a", "text")


def test_after_the_replacement_nothing_fails(tmp_path, monkeypatch):
    fsync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "this file system cannot sync folders")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    write_text(tmp_path / "file", "text")
    assert (tmp_path / "file").read_text() == "text"


def test_a_file_that_cannot_be_synced_replaces_nothing(tmp_path, monkeypatch):
    write_text(tmp_path / "file", "old")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "cannot write")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="cannot write"):
        write_text(tmp_path / "file", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_new_files_and_folders_have_the_mode_of_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "text")
        with replacing_folder(tmp_path / "folder") as part:
            # Until it is whole, no one else can read it.
            assert get_mode(part) == "700"
    finally:
        os.umask(old)
    assert (get_mode(tmp_path / "file"), get_mode(tmp_path / "folder")) == ("640", "750")


def test_nobody_can_guess_the_temporary_name(tmp_path):
    names = set()
    for _ in range(2):
        with replacing(tmp_path / "figure.svg") as part:
            part.touch()
            names.add(part.name)
            assert part.name.startswith(".") and part.suffix == ".svg"
            assert str(os.getpid()) not in part.name
    assert len(names) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_text(link, "text")
    reader.join(timeout=10)
    assert found == ["text"] and pipe.is_fifo() and link.is_symlink()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc on this system")
def test_an_open_file_is_written_to_and_stays(tmp_path):
    path = tmp_path / "redirected.txt"
    with path.open("w+") as file:
        write_text(Path(f"/proc/self/fd/{file.fileno()}"), "text")
        assert file.read() == "text"
    assert [p.name for p in tmp_path.iterdir()] == ["redirected.txt"]


@pytest.mark.parametrize("write", [replacing, replacing_folder])
def test_an_error_without_a_file_gets_the_path(tmp_path, write):
    path = tmp_path / "out"
    with pytest.raises(OSError) as raised, write(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(path)


@pytest.mark.parametrize("write, make", [(replacing, "mkstemp"), (replacing_folder, "mkdtemp")])
def test_a_folder_that_cannot_be_written_to_names_the_output(tmp_path, monkeypatch, write, make):
    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied", f"{args[-1]}/.unfinished-x")

    monkeypatch.setattr(tempfile, make, refuse)
    path = tmp_path / "out"
    with pytest.raises(PermissionError) as raised, write(path):
        pass
    assert raised.value.filename == str(path)
