"""Hostile clients of `serve`: half requests, clients that leave, pages, other sites."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import spacy

from spacy_bcrf.serve.app import make_app
from spacy_bcrf.serve.server import Limits

Address = tuple[str, int]
TEXT = "Ann saw Rome ."
HALF_SECONDS = 2.0
"""Seconds that a body may take in the random cases."""


def request(host: str = "localhost", size: int | None = None, more: str = "") -> bytes:
    """Return a request for an annotation. size: of the body, by default right."""
    body = json.dumps({"text": TEXT})
    return (
        f"POST /annotate HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{more}"
        f"Content-Length: {len(body) if size is None else size}\r\n\r\n{body}"
    ).encode()


def page(text: str = "Ann+saw+Rome+.+" * 300, host: str = "localhost") -> bytes:
    """Return a request for a page."""
    return f"GET /?text={text} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


CHUNKED = b"POST /annotate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUESTS: dict[str, tuple[bytes, set[int]]] = {
    "whole": (request(), {200}),
    "half": (request(size=1000), {408}),
    "half head": (b"POST /annotate HTTP/1.1\r\nHost: loc", {408, 0}),
    "no head": (b"\r\n", {408, 0}),
    "long head": (b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000, {431, 0}),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200_000, {431, 0}),
    "long target": (b"GET /" + b"a" * 1_000_000, {431, 0}),
    "long size of a chunk": (CHUNKED + b"1;" + b"a" * 1_000_000, {431, 413, 408, 0}),
    "long trailers": (CHUNKED + b"0\r\n" + b"X: a\r\n" * 200_000, {431, 422, 0}),
    "bytes": (b"\x00\xff" * 100 + b"\r\n\r\n", {400}),
    "page": (page(), {200, 503}),
    "long page": (page("x" * 6000), {422}),
    "other host": (request("evil.example"), {403}),
    "other site": (request(more="Sec-Fetch-Site: cross-site\r\n"), {403}),
    # 2 MB can take longer than HALF_SECONDS on a loaded machine.
    "large": (request(size=3_000_000) + b"x" * 2_000_001, {413, 0, 408}),
}
"""Requests by name, each with the statuses of a right answer; 0 for a closed connection."""


def send(address: Address, data: bytes) -> socket.socket:
    """Return a connection with a request."""
    client = socket.create_connection(address, timeout=300)
    with suppress(ConnectionError):  # the server may read no more
        client.sendall(data)
    return client


def read_status(client: socket.socket) -> int:
    """Return the status of an answer, 0 if the server closes the connection."""
    try:
        with client:
            found = client.recv(1000)
    except ConnectionError:
        return 0
    return int(found.split()[1]) if found else 0


@contextmanager
def serving(model: Path, limits: Limits) -> Iterator[tuple[Address, threading.Thread]]:
    """Serve a pipeline in a thread. It is told to end at the end."""
    import uvicorn

    app = make_app(spacy.load(model), ["ner"], limits, hosts=set())
    from spacy_bcrf.serve.limited_heads import limit_heads

    config = uvicorn.Config(
        app, port=0, http=limit_heads(limits), log_level="warning", timeout_graceful_shutdown=60
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname(), thread
    finally:
        server.should_exit = True


@contextmanager
def started(model: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], Address]]:
    """Run the command `serve`, with its output in a file, and kill it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    options = ("serve", str(model), "--port", str(address[1]))
    command = [sys.executable, "-m", "spacy", "bcrf", *options]
    with log.open("wb") as file:
        server = subprocess.Popen(command, stderr=file, stdout=file)
    try:
        end = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(address).close()
                break
            except ConnectionRefusedError:
                assert server.poll() is None and time.monotonic() < end
                time.sleep(0.1)
        yield server, address
    finally:
        server.kill()
        server.wait()


def clients(model: Path, moves: Sequence[tuple[str, bool]]) -> None:
    """Clients that send a request, and stay or leave: others are answered, and the server ends.

    moves: names of requests, each with whether the client stays for the answer.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        return  # needs the extra serve
    limits = Limits(body_seconds=HALF_SECONDS, head_seconds=HALF_SECONDS)
    with ExitStack() as stack:
        with serving(model, limits) as (address, thread):
            staying = []
            for name, stays in moves:
                data, expected = REQUESTS[name]
                client = stack.enter_context(send(address, data))
                if stays:
                    staying.append((name, client, expected))
                else:
                    client.close()
            start = time.monotonic()
            assert read_status(send(address, request())) == 200
            assert time.monotonic() - start < 20
        for name, client, expected in staying:
            found = read_status(client)
            assert found in expected, (name, found)
        thread.join(30)
        assert not thread.is_alive()
