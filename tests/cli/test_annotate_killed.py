"""Runs of `python -m spacy bcrf annotate` that are killed and started again."""

import json
import os
import random
import signal
import time

import pytest
from annotate_outputs import check_once, read_lines, read_rows
from forked_commands import run_module, start_module

pytestmark = pytest.mark.slow

N_DOCS = 900
SHARD = 10


@pytest.fixture
def texts(here):
    """A file of texts, one of them without text."""
    rng = random.Random(0)
    lines = []
    for i in range(N_DOCS):
        words = [rng.choice(["Ann", "Bob", "saw", "Rome", "Oslo", "."]) for _ in range(30)]
        lines.append(json.dumps({"id": i, "text": " ".join(words)} if i != 5 else {"id": i}))
    (here / "a.jsonl").write_text("\n".join(lines))
    return here / "a.jsonl"


def arguments(pipeline, output):
    model = pipeline / "model"
    return ["spacy", "bcrf", "annotate", model, "a.jsonl", "-o", output, "--shard", SHARD]


def shard_files(output):
    return len(list((output / "shards").glob("0*"))) if output.exists() else 0


def test_killed_at_twenty_points(pipeline, texts, here):
    """After 20 kills, each document is written once, as by a run that is not killed."""
    rng = random.Random(1)
    output = here / "out"
    n_kills = 0
    while n_kills < 20:
        before = shard_files(output)
        process = start_module(arguments(pipeline, "out"), here, here / "log")
        if n_kills % 4:  # else anywhere from the start on
            target = min(N_DOCS // SHARD - 20, before + rng.randrange(1, 5))
            while process.is_alive() and shard_files(output) < target:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.03))
        else:
            time.sleep(rng.uniform(0, 1))
        assert process.is_alive(), (here / "log").read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        n_kills += 1
    assert 10 < shard_files(output) < N_DOCS // SHARD
    process = start_module(arguments(pipeline, "out"), here, here / "log")
    process.join()
    assert process.exitcode == 3, (here / "log").read_text()
    check_once(output, [i for i in range(N_DOCS) if i != 5])
    assert [error["id"] for error in read_lines(output / "errors.jsonl")] == [5]
    process = start_module(arguments(pipeline, "whole"), here, here / "log")
    process.join()
    assert read_rows(here / "whole") == read_rows(output)


def children(pid):
    """The processes that a process started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's /proc")
def test_two_processes_of_which_one_dies_and_then_their_parent(pipeline, texts, here):
    (here / "a.jsonl").write_text((texts.read_text() + "\n") * 4)
    command = [*arguments(pipeline, "out"), "--n-process", 2]
    parent = start_module(command, here, here / "log")
    wait_for(lambda: shard_files(here / "out") > 2)
    workers = [
        pid for pid in children(parent.pid) if "spawn_main" in open(f"/proc/{pid}/cmdline").read()
    ]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    n_shards = shard_files(here / "out")
    wait_for(lambda: shard_files(here / "out") > n_shards + 2)
    orphans = [pid for pid in children(parent.pid) if pid != workers[0]]
    os.kill(parent.pid, signal.SIGKILL)
    parent.join()
    wait_for(lambda: not any(map(is_alive, orphans)))
    parent = start_module(command, here, here / "log")
    parent.join()
    assert parent.exitcode == 3, (here / "log").read_text()
    check_once(here / "out", [i for i in range(N_DOCS) if i != 5] * 4)


def test_a_shard_that_ends_every_process_is_named(pipeline, here):
    """A pipeline that kills its process: the run stops, and names the shard."""
    (here / "poison.py").write_text(
        "import os\n"
        "from spacy.language import Language\n"
        "@Language.component('poison')\n"
        "def poison(doc):\n"
        "    if doc.text == 'poison':\n"
        "        os._exit(9)\n"
        "    return doc\n"
    )
    (here / "a.txt").write_text("Ann saw Rome .\npoison\n")
    make = (
        "import poison, spacy\n"
        f"nlp = spacy.load({str(pipeline / 'model')!r})\n"
        "nlp.add_pipe('poison', first=True)\n"
        "nlp.to_disk('model')\n"
    )
    (here / "make.py").write_text(make)
    run_module(["make"], here, here / "log")
    (here / "sitecustomize.py").write_text("import poison\n")
    (here / "command.py").write_text(
        "import os, sys\n"
        "os.environ['PYTHONPATH'] = os.getcwd() + ':' + os.environ.get('PYTHONPATH', '')\n"
        "import poison\n"
        "from spacy_bcrf.cli import app\n"
        "if __name__ == '__main__':\n"
        "    app()\n"
    )
    command = ["command", "annotate", "model", "a.txt", "-o", "out", "-n", 2, "--shard", 1]
    process = start_module(command, here, here / "log")
    process.join()
    log = (here / "log").read_text()
    assert process.exitcode == 1, log
    assert "shard 1, a.txt:2 to a.txt:2: 3 processes died (exit code 9)" in log
    assert read_lines(here / "out" / "progress.jsonl")[0]["number"] == 0
