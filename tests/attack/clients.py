"""Hostile clients of `serve`: half requests, clients that leave, pages, other sites."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import spacy

from spacy_bcrf.bulk.server import Limits
from spacy_bcrf.cli.serve_cli import make_app_of

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


REQUESTS: dict[str, tuple[bytes, set[int]]] = {
    "whole": (request(), {200}),
    "half": (request(size=1000), {408}),
    "half head": (b"POST /annotate HTTP/1.1\r\nHost: loc", {0}),
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

    app = make_app_of(spacy.load(model), ["ner"], limits, hosts=set())
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=60)
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


def clients(model: Path, moves: Sequence[tuple[str, bool]]) -> None:
    """Clients that send a request, and stay or leave: others are answered, and the server ends.

    moves: names of requests, each with whether the client stays for the answer.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        return  # needs the extra serve
    limits = Limits(body_seconds=HALF_SECONDS)
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
        # "half head" has no answer before the server ends.
        for name, client, expected in staying:
            found = read_status(client)
            assert found in expected, (name, found)
        thread.join(30)
        assert not thread.is_alive()
