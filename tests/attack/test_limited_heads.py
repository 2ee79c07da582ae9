"""Heads of requests end at 64 KiB and 10 seconds; bodies, kept connections and chunks do not."""

import socket
import threading
import time

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("httptools", reason="needs the extra serve")

from spacy_bcrf.serve.limited_heads import limit_heads  # noqa: E402
from spacy_bcrf.serve.server import Limits  # noqa: E402

SECONDS = 0.5
GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


async def app(scope, receive, send):
    """Answer with the size of the body."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = str(size).encode()
    head = {"type": "http.response.start", "status": 200, "headers": []}
    await send({**head, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def address():
    http = limit_heads(Limits(head_seconds=SECONDS))
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=http, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join()


@pytest.fixture
def client(address):
    with socket.create_connection(address, timeout=30) as client:
        yield client


def statuses(client):
    """The statuses of all answers until the server closes the connection."""
    found = b""
    while part := client.recv(10_000):
        found += part
    return [int(line.split()[1]) for line in found.split(b"\r\n") if b"HTTP/1.1 " in line]


def test_the_defaults_are_those_of_the_page():
    assert (Limits().head_bytes, Limits().head_seconds) == (65536, 10)


@pytest.mark.parametrize("size, status", [(65536, 200), (65537, 431)])
def test_a_head_has_a_size(client, size, status):
    rest = b"Connection: close\r\n\r\n" if status == 200 else b""
    client.sendall(GET + b"X: " + b"a" * (size - len(GET) - len(rest) - 5) + b"\r\n" + rest)
    assert statuses(client) == [status]


@pytest.mark.parametrize("start", [GET + b"X: ", GET + b"X: ", b"GET /", CHUNKED + b"1;"])
@pytest.mark.parametrize("part", [b"a" * 10_000, b": a\r\nX" * 1000])
def test_a_head_without_end_is_not_read(client, start, part):
    with pytest.raises(OSError):
        client.sendall(start)
        for _ in range(5000):  # 50 MB
            client.sendall(part)


@pytest.mark.parametrize("half", [b"", b"\r\n", GET, GET + b"\r\n" + GET])
def test_a_head_has_a_time(address, half):
    start = time.monotonic()
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(half)
        assert statuses(client) == [200] * half.count(b"\r\n\r\n") + [408]
    assert SECONDS * 0.9 <= time.monotonic() - start < 20


def test_bytes_one_by_one_do_not_lengthen_the_time(client):
    with pytest.raises(OSError):
        for byte in GET * 100:
            client.sendall(bytes([byte]))
            time.sleep(0.02)


def test_bodies_may_be_longer_and_later(client):
    client.sendall(CHUNKED)
    time.sleep(2 * SECONDS)
    client.sendall(b"1\r\na\r\n" * 100_000)  # more than the limit around the content
    client.sendall(b"0\r\n\r\n" + GET + b"Connection: close\r\n\r\n")
    found = b""
    while part := client.recv(10_000):
        found += part
    assert found.count(b" 200 ") == 2 and b"\r\n\r\n100000" in found
