"""Child processes: their start when the system fails."""

import errno
import multiprocessing
import os
import re
import signal
import sys
import threading
from multiprocessing import forkserver

import pytest

from spacy_bcrf.bulk import processes
from spacy_bcrf.bulk.processes import Child


def make_folder(path, connection):
    path.mkdir()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a fork server here")
def test_a_fork_server_that_dies_while_it_starts_a_process_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 300)
    # A folder a process: an older server has a standard output that no test captures.
    Child(make_folder, tmp_path / "first").stop()
    server = forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGSTOP)  # it gets the request, but starts nothing
    timer = threading.Timer(0.5, os.kill, (server, signal.SIGKILL))
    timer.start()
    child = Child(make_folder, tmp_path / "second")
    timer.join()
    assert re.fullmatch(r"process \d+, exit code 0", child.stop())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


@pytest.mark.parametrize("number, starts", [(errno.EMFILE, 1), (errno.EAGAIN, 3)])
def test_only_a_passing_error_is_tried_again(monkeypatch, number, starts):
    calls = []

    def start(self):
        calls.append(self)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(processes, "STARTS", 3)
    monkeypatch.setattr(processes.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start)
    with pytest.raises(OSError, match="no process can be started"):
        Child(print, "never")
    assert len(calls) == starts
