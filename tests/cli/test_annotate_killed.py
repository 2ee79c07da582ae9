"""Runs of `python -m spacy bcrf annotate` that are killed and started again."""

import json
import os
import random
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from annotate_outputs import check_once, read_lines, read_rows
from forked_commands import start_module

from spacy_bcrf.bulk.processes import run_processes
from spacy_bcrf.bulk.shards import Shard
from spacy_bcrf.bulk.worker import BulkError, RunSettings
from spacy_bcrf.corpora.texts import TextRecord

pytestmark = pytest.mark.slow

N_DOCS = 600
SHARD = 10


@pytest.fixture
def here(monkeypatch):
    """A folder in memory, if there is one: on some disks, each fsync of a shard takes long."""
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=parent) as folder:
        monkeypatch.chdir(folder)
        yield Path(folder)
        monkeypatch.undo()


@pytest.fixture
def texts(here):
    """A file of texts, one of them without text."""
    rng = random.Random(0)
    lines = []
    for i in range(N_DOCS):
        words = [rng.choice(["Ann", "Bob", "saw", "Rome", "Oslo", "."]) for _ in range(6)]
        lines.append(json.dumps({"id": i, "text": " ".join(words)} if i != 5 else {"id": i}))
    (here / "a.jsonl").write_text("\n".join(lines))
    return here / "a.jsonl"


def arguments(pipeline, output):
    model = pipeline / "model"
    return ["spacy", "bcrf", "annotate", model, "a.jsonl", "-o", output, "--shard", SHARD]


def shard_files(output):
    return len(list((output / "shards").glob("0*"))) if output.exists() else 0


def test_killed_at_ten_points(pipeline, texts, here):
    """After 10 kills, each document is written once, as by a run that is not killed."""
    rng = random.Random(1)
    output = here / "out"
    n_kills, most = 0, N_DOCS // SHARD - 20
    while n_kills < 10:
        before = shard_files(output)
        process = start_module(arguments(pipeline, "out"), here, here / "log")
        if n_kills % 4:  # else anywhere from the start on
            target, seconds = min(most, before + rng.randrange(1, 5)), 60.0
        else:
            target, seconds = most, rng.uniform(0, 0.5)
        end = time.monotonic() + seconds
        while process.is_alive() and shard_files(output) < target and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.01))
        assert process.is_alive(), (here / "log").read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        n_kills += 1
    assert 7 < shard_files(output) < N_DOCS // SHARD
    process = start_module(arguments(pipeline, "out"), here, here / "log")
    process.join()
    assert process.exitcode == 3, (here / "log").read_text()
    check_once(output, [i for i in range(N_DOCS) if i != 5])
    assert [error["id"] for error in read_lines(output / "errors.jsonl")] == [5]
    process = start_module(arguments(pipeline, "whole"), here, here / "log")
    process.join()
    assert read_rows(here / "whole") == read_rows(output)


def workers_of(pid):
    """The processes that the fork server of a process has started."""
    return [
        worker
        for server in children(pid)
        if b"forkserver" in Path(f"/proc/{server}/cmdline").read_bytes()
        for worker in children(server)
    ]


def children(pid):
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_two_processes_of_which_one_dies_and_then_their_parent(pipeline, texts, here):
    (here / "a.jsonl").write_text((texts.read_text() + "\n") * 3)
    command = [*arguments(pipeline, "out"), "--n-process", 2]
    parent = start_module(command, here, here / "log")
    wait_for(lambda: shard_files(here / "out") > 2)
    first, second = workers_of(parent.pid)
    # Stopped, the other one cannot finish all shards before a new process takes the first one's.
    os.kill(second, signal.SIGSTOP)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: set(workers_of(parent.pid)) - {first, second})
    os.kill(second, signal.SIGCONT)
    orphans = workers_of(parent.pid)
    assert first not in orphans and len(orphans) == 2
    os.kill(parent.pid, signal.SIGKILL)
    parent.join()
    wait_for(lambda: not any(map(is_alive, orphans)))
    n_shards = shard_files(here / "out")
    assert 2 < n_shards < 3 * N_DOCS // SHARD
    # The number of processes may differ.
    parent = start_module(command[:-2], here, here / "log")
    parent.join()
    assert parent.exitcode == 3, (here / "log").read_text()
    check_once(here / "out", [i for i in range(N_DOCS) if i != 5] * 3)


class Poison(TextRecord):
    """A record that ends the process that receives it."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_shard_that_ends_every_process_is_named(pipeline, here):
    shards = [
        Shard(0, [TextRecord("a", "a.txt:1", "Ann saw Rome .")], 0),
        Shard(1, [Poison("b", "a.txt:2", "Bob saw Oslo .")], 0),
    ]
    settings = RunSettings(str(pipeline / "model"), (), "jsonl", here)
    finished = []
    with pytest.raises(
        BulkError, match=r"shard 1, a.txt:2 to a.txt:2: 4 workers died \(process \d+, exit code 9"
    ):
        finished.extend(run_processes(settings, 1, shards))
    assert [shard.number for shard in finished] == [0]
    assert [path.name for path in here.iterdir()] == ["000000.jsonl"]


class Deadly(TextRecord):
    """A record that ends the process that tokenizes it."""

    def make_doc(self, nlp):
        os._exit(9)


def test_documents_that_end_workers_are_set_aside(pipeline, here):
    shards = [
        Shard(n, [TextRecord(f"{n}{c}", f"a.txt:{n}{c}", "Ann saw Rome .") for c in "abcd"], 0)
        for n in range(2)
    ]
    for i in (1, 2):
        shards[1].items[i] = Deadly(f"1{'abcd'[i]}", "a.txt:9", "boom")
    settings = RunSettings(str(pipeline / "model"), (), "jsonl", here)
    first, second = sorted(run_processes(settings, 1, shards))
    assert (first.n_read, first.n_written) == (4, 4)
    assert (second.n_read, second.n_written) == (4, 2)
    assert [failure.id for failure in second.failures] == ["1b", "1c"]
    assert second.failures[0].reason.startswith("set aside: 4 workers died, the last one with this")
    assert "exit code 9" in second.failures[1].reason
    assert [row["id"] for row in read_lines(here / "000001.jsonl")] == ["1a", "1d"]
    assert not list(here.glob("*at-*"))
