"""The server ends, and writes a line, whatever its clients do."""

import signal
from urllib.request import urlopen

import pytest

pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.attack.clients import REQUESTS, clients, read_status, request, send, started


def test_a_server_ends_while_clients_hold_half_a_request(trained, tmp_path):
    with started(trained, tmp_path / "log") as (server, address):
        held = [send(address, REQUESTS[name][0]) for name in ("half", "half head") * 5]
        assert read_status(send(address, request())) == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) in (0, -signal.SIGTERM)
        assert {read_status(client) for client in held[::2]} == {408}
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_client_that_leaves_writes_one_line(trained, tmp_path):
    n = 20
    with started(trained, tmp_path / "log") as (_, address):
        for _ in range(n):
            send(address, REQUESTS["half"][0]).close()
        assert read_status(send(address, request())) == 200
        with urlopen(f"http://127.0.0.1:{address[1]}/metrics") as metrics:
            assert f"spacy_bcrf_answers_499_total {n}" in metrics.read().decode()
    first, *lines = (tmp_path / "log").read_text().splitlines()
    assert first.startswith("next: ")
    assert len(lines) == n
    assert set(lines) == {"a client has left before the end of its body"}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("stays", [True, False])
def test_each_kind_of_client_harms_no_other(trained, name, stays):
    clients(trained, [(name, stays), ("whole", True)])


def test_many_clients_at_the_same_time(trained):
    clients(trained, [(name, stays) for name in REQUESTS for stays in (True, False)] * 3)
