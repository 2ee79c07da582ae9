"""Lines of plain and compressed text files."""

import bz2
import gzip
import lzma
import os
import threading

import pytest

from spacy_bcrf.io.text import CorpusError, find_file, read_lines, text_suffix

TEXT = "a\tb\r\n\n\u2028c\x0cd\x85e\xa0\nlast"
LINES = ["a\tb", "", "\u2028c\x0cd\x85e\xa0", "last"]
COMPRESS = {".xz": lzma.compress, ".gz": gzip.compress, ".bz2": bz2.compress, "": bytes}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_only_line_feeds_end_a_line(tmp_path, suffix):
    path = tmp_path / f"file.conll{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT.encode()))
    lines = list(read_lines(path))
    assert [line.text for line in lines] == LINES
    assert [line.number for line in lines] == [1, 2, 3, 4]
    assert text_suffix(path) == ".conll"


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_extension_of_a_compressed_file_may_be_left_out(tmp_path, suffix):
    path = tmp_path / "file.conll"
    stored = path.with_name(path.name + suffix)
    assert find_file(path) == path
    stored.touch()
    assert find_file(path) == stored


def test_progress_adds_up_to_the_size_of_the_file(tmp_path):
    path = tmp_path / "file.conll"
    path.write_text("word\tO\n" * 2500)
    steps = []
    list(read_lines(path, steps.append))
    assert sum(steps) == path.stat().st_size and len(steps) > 1


def test_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfa\nb\n")
    assert [line.text for line in read_lines(path)] == ["a", "b"]


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "latin1.conll"
    path.write_bytes("Haus O\nM\xe4rz O\n".encode("latin1"))
    with pytest.raises(CorpusError, match=r"latin1.conll:2: byte 0xe4 at column 2 is not UTF-8"):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".bz2"])
@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"no archive"])
def test_broken_archives(tmp_path, suffix, damage):
    path = tmp_path / f"broken.conll{suffix}"
    path.write_bytes(damage(COMPRESS[suffix](b"word\tO\n" * 5000)))
    with pytest.raises(CorpusError, match=rf"broken.conll\{suffix}: .*(truncated|cannot be read)"):
        list(read_lines(path))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(CorpusError, match=r"nowhere.conll: cannot be read: No such file"):
        list(read_lines(tmp_path / "nowhere.conll"))
    with pytest.raises(CorpusError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe(tmp_path):
    path = tmp_path / "pipe.conll"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("a\nb\n",))
    writer.start()
    assert [line.text for line in read_lines(path)] == ["a", "b"]
    writer.join()
