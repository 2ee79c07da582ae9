"""Inputs that would fill the memory. Each must be refused or annotated within 600 MiB: 250 MiB
of an idle process, and 350 MiB."""

import gzip
import json
import os
import re
import socket
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMITED = Path(__file__).with_name("limited_annotate.py")
MIB = 1 << 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]


def squeeze(n_mib):
    """Zeros compressed by zlib: the block of a MiB that all are like, repeated."""
    packer = zlib.compressobj()
    head = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (n_mib - 1)


def pack(start, part, times):
    """A .gz file of a start and a part that is repeated: several archives are one."""
    return gzip.compress(start) + gzip.compress(part, 1) * times


META = json.dumps({"text": "Ann", "m": "x" * 15 * MIB}).encode() + b"\n"
ZEROS = bytes(16 * MIB)
FILES = {
    "meta.jsonl.gz": (lambda: pack(b"", META, 17), 0),
    "line.jsonl.gz": (lambda: pack(b'{"', ZEROS, 16), 3),
    "line.txt.gz": (lambda: pack(b"a\n", ZEROS, 16), 3),
    "quote.csv.gz": (lambda: pack(b'text\n"', b"\n" * MIB, 2), 3),
    "zeros.spacy": (lambda: squeeze(256), 4),
    "zeros.spacy.gz": (lambda: gzip.compress(squeeze(256), 1), 4),
}
"""Files that need more than 250 MiB if they are read whole, and the exit code of the run."""


def test_inputs_that_would_fill_the_memory(trained, tmp_path):
    for name, (make, _) in FILES.items():
        (tmp_path / name).write_bytes(make())
    command = [sys.executable, LIMITED, trained, tmp_path, *(tmp_path / name for name in FILES)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["file"], one["exit"]) for one in found] == [(n, c) for n, (_, c) in FILES.items()]
    assert max(one["MiB"] for one in found) < 350, found


def test_a_server_reads_no_more_of_a_body_than_it_takes(trained, tmp_path):
    pytest.importorskip("uvicorn")
    from tests.attack.clients import started

    with started(trained, tmp_path / "log") as (server, address):
        assert b" 200 " in post(address, 0)
        idle = peak(server.pid)
        assert b" 413 " in post(address, 300 * MIB)
        assert b" 200 " in post(address, 0)
        assert peak(server.pid) - idle < 200


def peak(pid):
    """Return the largest memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) >> 10


def post(address, n_more):
    """Send a text with more characters, and return the start of the answer."""
    head, tail = b'{"text": "Ann saw Rome .', b'"}'
    size = len(head) + n_more + len(tail)
    with socket.create_connection(address, timeout=300) as client:
        client.sendall(
            b"POST /annotate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % size + head
        )
        try:
            for _ in range(n_more // MIB):
                client.sendall(b"x" * MIB)
            client.sendall(tail)
        except OSError:
            pass  # the server has closed the connection
        try:
            return client.recv(1000)
        except ConnectionResetError:
            return b" 413 "  # the answer is lost if the client still sends
