"""`python -m spacy bcrf annotate` with inputs and output in an object store."""

import json
import os
import signal
import time

import pytest
from annotate_outputs import read_rows
from commands import command
from forked_commands import start_module

run = command("annotate")
TEXTS = ["Ann saw Rome .", "Why on earth not ?", "Bob saw Oslo .", 'Eve, "x" saw Kiel .'] * 10


@pytest.fixture
def memory():
    """The files of fsspec's memory, empty."""
    pytest.importorskip("upath")
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a server of moto on this machine. Its files by name."""
    pytest.importorskip("s3fs")
    pytest.importorskip("upath")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        boto3 = pytest.importorskip("boto3")
        client = boto3.client("s3")
        client.create_bucket(Bucket="texts")
        yield client
    server.stop()


def make_lines(n):
    lines = [json.dumps({"id": i, "text": TEXTS[i % len(TEXTS)]}) for i in range(n)]
    return "\n".join([*lines, "{"])


def read_store(names, read, output):
    """Rows of all shards, errors, and lines of the log."""
    found = {}
    for kind in ("shards/", "progress/", "errors.jsonl"):
        chosen = sorted(name for name in names if name.startswith(f"{output}/{kind}"))
        found[kind] = [json.loads(line) for name in chosen for line in read(name).splitlines()]
    return found["shards/"], found["errors.jsonl"], found["progress/"]


def check_once(found, n):
    rows, errors, log = found
    assert [row["id"] for row in rows] == list(range(n))
    assert len(errors) == 1 and errors[0]["reason"].startswith("no JSON")
    assert log.count({"complete": True}) == 1
    shards = {line["number"]: line for line in log if "number" in line}
    assert sorted(shards) == list(range(len(shards)))
    assert sum(line["n_written"] for line in shards.values()) == n


def test_inputs_and_output_in_a_store(pipeline, memory, here):
    memory.pipe("/in/a.jsonl", make_lines(20).encode())
    memory.pipe("/in/b.txt", b"Ann saw Rome .")
    memory.pipe("/in/c.md", b"?")
    model = pipeline / "model"
    options = ("--shard", 4)
    result = run(model, "memory://in", "-o", "memory://out/run", *options, exit_code=3)
    assert "22 documents read, 21 written to memory://out/run, 1 failed" in result.output
    assert "1 files with other extensions are skipped" in result.output
    rows, errors, _ = read_store(memory.find("/out"), memory.cat, "/out/run")
    assert [error["id"] for error in errors] == ["memory://in/a.jsonl:21"]
    (here / "a.jsonl").write_text(make_lines(20))
    (here / "b.txt").write_text("Ann saw Rome .")
    run(model, "a.jsonl", "b.txt", "-o", "out", *options, exit_code=3)
    local = read_rows(here / "out")
    assert rows[-1].pop("id") == "memory://in/b.txt:1" and local[-1].pop("id") == "b.txt:1"
    assert rows == local
    # A glob names the same files.
    run(model, "memory://in/*.[jt]*", "-o", "memory://out/run", *options, exit_code=3)
    same = run(model, "memory://in", "-o", "memory://out/run", *options, exit_code=3)
    assert "22 documents read, 21 written" in same.output


def test_a_run_in_a_store_goes_on_and_checks_what_is_there(pipeline, memory, here):
    memory.pipe("/in/a.jsonl", make_lines(20).encode())
    options = (pipeline / "model", "memory://in/a.jsonl", "-o", "memory://out/run")
    run(*options, "--shard", 4, exit_code=3)
    # As if killed after the first two shards, by a run that another one repeated.
    (log,) = memory.find("/out/run/progress")
    lines = memory.cat(log).splitlines(keepends=True)
    memory.pipe(log, b"".join(lines[:2]))
    memory.pipe("/out/run/progress/other.jsonl", lines[0])
    memory.rm("/out/run/errors.jsonl")
    first = memory.modified("/out/run/shards/000000.jsonl")
    run(*options, "--shard", 4, exit_code=3)
    check_once(read_store(memory.find("/out"), memory.cat, "/out/run"), 20)
    assert memory.modified("/out/run/shards/000000.jsonl") == first
    result = run(*options, "--shard", 5, exit_code=1)
    assert "memory://out/run: was started differently: options shard was 4, is 5" in result.output
    memory.rm("/out/run/shards/000001.jsonl")
    result = run(*options, "--shard", 4, exit_code=1)
    assert "memory://out/run/shards/000001.jsonl: is missing" in result.output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["memory://in/b.jsonl", "-o", "out"], "in/b.jsonl: there is no such file or folder"),
        (["memory://in", "-o", "memory://in/x", "-n", 2], "is in the memory of one process"),
        (["memory://in", "-o", "memory://in"], "is in the folder of the output, memory://in"),
        (["memory://in", "-o", "memory://other"], "has mine.txt, but no manifest.json"),
        (["nosuch://in", "-o", "out"], "nosuch"),
    ],
)
def test_wrong_urls(pipeline, memory, here, arguments, message):
    memory.pipe("/in/a.jsonl", make_lines(1).encode())
    memory.pipe("/other/mine.txt", b"")
    result = run(pipeline / "model", *arguments, exit_code=1)
    assert message in result.output
    assert sorted(memory.find("/")) == ["/in/a.jsonl", "/other/mine.txt"]


def test_an_input_that_cannot_be_read_stops_the_run(pipeline, memory, here, monkeypatch):
    memory.pipe("/in/a.txt", b"Ann saw Rome .\n" * 6)
    memory.pipe("/in/b.txt", b"Ann saw Rome .")
    options = (pipeline / "model", "memory://in", "-o", "memory://out", "--shard", 2)
    open_file = type(memory)._open

    with monkeypatch.context() as patch:
        n_opened = 0

        def fail(self, path, *args, **kwargs):
            nonlocal n_opened
            n_opened += path == "/in/b.txt"
            if path == "/in/b.txt" and n_opened > 1:  # after its hash
                raise PermissionError(13, "Access denied")
            return open_file(self, path, *args, **kwargs)

        patch.setattr(type(memory), "_open", fail)
        result = run(*options, exit_code=1)
    assert "memory://in/b.txt: cannot be read: Access denied" in result.output
    assert len(memory.find("/out/shards")) == 3
    assert "7 documents read, 7 written" in run(*options).output


@pytest.mark.slow
def test_a_killed_run_goes_on_in_s3(pipeline, bucket, here):
    """kill -9 at several points, of one process and of two."""
    n = 200
    bucket.put_object(Bucket="texts", Key="in/a.jsonl", Body=make_lines(n).encode())
    command = ["spacy", "bcrf", "annotate", pipeline / "model", "s3://texts/in"]
    command += ["-o", "s3://texts/out/run", "--shard", 5]

    def names():
        found = bucket.get_paginator("list_objects_v2").paginate(Bucket="texts", Prefix="out/run/")
        return [each["Key"] for page in found for each in page.get("Contents", ())]

    def n_shards():
        return sum("/shards/" in name for name in names())

    for kill in range(3):
        target = n_shards() + 3
        options = ("--n-process", 2) if kill == 1 else ()
        process = start_module([*command, *options], here, here / "log")
        end = time.monotonic() + 300
        while process.is_alive() and n_shards() < target and time.monotonic() < end:
            time.sleep(0.05)
        assert process.is_alive(), (here / "log").read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert 3 <= n_shards() < n // 5
    process = start_module(command, here, here / "log")
    process.join()
    assert process.exitcode == 3, (here / "log").read_text()

    def read(name):
        return bucket.get_object(Bucket="texts", Key=name)["Body"].read()

    check_once(read_store(names(), read, "out/run"), n)


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_named(pipeline, bucket, here, monkeypatch):
    (here / "a.txt").write_text("Ann saw Rome .")
    run_s3 = ["spacy", "bcrf", "annotate", pipeline / "model", "a.txt", "-o"]
    process = start_module([*run_s3, "s3://nosuch/out"], here, here / "log")
    process.join()
    log = (here / "log").read_text()
    assert process.exitcode == 1 and "bucket does not exist" in log and "Traceback" not in log
