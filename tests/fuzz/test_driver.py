"""The driver notices exceptions, crashes and hangs, and keeps the input."""

import os
import signal

import pytest

from tests.fuzz import __main__ as driver


def fail(data):
    if b"!" in data:
        raise AssertionError("defect")


def crash(data):
    if b"!" in data:
        os.kill(os.getpid(), signal.SIGKILL)


def hang(data):
    while b"!" in data:
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("target", [fail, crash, hang])
def test_a_failure_leaves_its_input(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver, "SECONDS_PER_INPUT", 1)
    assert driver.run("good", target, [b"good"], 0, 0)
    assert list(tmp_path.iterdir()) == []
    assert not driver.run("bad", target, [b"good", b"bad!"], 0, 0)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == b"bad!"
