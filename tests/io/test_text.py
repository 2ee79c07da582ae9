"""Lines of plain and compressed text files."""

import bz2
import gzip
import lzma
import os
import threading
import tracemalloc

import pytest

from bcrf.io.text import (
    BLOCK,
    MAX_LINE,
    CorpusError,
    UnreadableError,
    find_file,
    read_lines,
    scan_lines,
    text_suffix,
)

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
    with pytest.raises(CorpusError, match=rf"broken.conll\{suffix}: broken or truncated") as caught:
        list(read_lines(path))
    # The system can read it, so to try again is of no use.
    assert not isinstance(caught.value, UnreadableError)


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


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_bomb_of_one_line_is_refused_in_little_memory(tmp_path, suffix):
    path = tmp_path / f"bomb.conll{suffix}"
    path.write_bytes(COMPRESS[suffix](b"a\n" + bytes(4 * MAX_LINE)))
    tracemalloc.start()
    with pytest.raises(CorpusError, match=r"bomb.*:2: the line is longer than 16 MiB; expected"):
        list(read_lines(path))
    assert tracemalloc.get_traced_memory()[1] < 3 * MAX_LINE
    tracemalloc.stop()


def test_pieces_of_a_line(tmp_path):
    path = tmp_path / "long.json"
    text = "[" + "\U0001f600" * BLOCK + "]"
    path.write_text(f"\ufeff{text}\n{text}", encoding="utf8")
    steps = []
    pieces = list(scan_lines(path, steps.append, in_pieces=True))
    assert all(len(piece.text.encode()) <= BLOCK + 3 for piece in pieces)
    for number in (1, 2):
        assert "".join(piece.text for piece in pieces if piece.number == number) == text
    assert sum(steps) == path.stat().st_size and len(steps) > len(pieces) / 2


@pytest.mark.parametrize(
    "tail, column", [(b"\xf0\x9f", 3), (b"\xf0\x9f\n", 3), (b"\xf0\x9fa\n", 3)]
)
@pytest.mark.parametrize("in_pieces", [True, False])
@pytest.mark.parametrize("head", [0, BLOCK - 3])
def test_a_broken_character_at_the_end(tmp_path, tail, column, in_pieces, head):
    path = tmp_path / "cut.json"
    path.write_bytes(b"ab".rjust(head + 2) + tail)
    with pytest.raises(CorpusError, match=f"cut.json:1: byte 0xf0 at column {head + column} is"):
        *_, line = scan_lines(path, in_pieces=in_pieces)
        raise line.error(line.problem)
