"""`python -m spacy bcrf annotate` with inputs and output in an object store."""

import gzip
import json
import os
import shutil
import signal
import time
from collections import Counter

import pytest
from annotate_outputs import read_rows
from cloudpathlib import implementation_registry
from cloudpathlib.local import LocalS3Client, local_s3_implementation
from commands import command
from forked_commands import start_module
from spacy.tokens import DocBin

from bcrf.io.atomic import replacing, write_text
from bcrf.io.text import UnreadableError, read_lines
from spacy_bcrf.corpora.inputs import find_inputs
from spacy_bcrf.corpora.remote import find_below, find_sizes, make_path

run = command("annotate")
TEXTS = ["Ann saw Rome .", "Why on earth not ?", "Bob saw Oslo .", 'Eve, "x" saw Kiel .'] * 10


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder that has the objects of s3://, by cloudpathlib's stand-in for S3."""
    client = LocalS3Client(local_storage_dir=tmp_path / "store")
    monkeypatch.setitem(implementation_registry, "s3", local_s3_implementation)
    monkeypatch.setattr(LocalS3Client, "_default_client", client)
    return tmp_path / "store"


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a server of moto on this machine. Its files by name."""
    boto3 = pytest.importorskip("boto3")
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
    shards = {line["number"]: line for line in log if "number" in line}
    assert [line["complete"] for line in log if "complete" in line] == [len(shards)]
    assert sorted(shards) == list(range(len(shards)))
    assert sum(line["n_written"] for line in shards.values()) == n


def read_folder(output):
    """As `read_store`, from a folder of the stand-in."""
    names = [path.relative_to(output.parent).as_posix() for path in output.rglob("*.jsonl")]
    return read_store(names, lambda name: (output.parent / name).read_text(), output.name)


def test_inputs_and_output_in_a_store(pipeline, store, here):
    put(store / "in/a.jsonl", make_lines(20))
    put(store / "in/b.txt", "Ann saw Rome .")
    put(store / "in/c.md", "?")
    model = pipeline / "model"
    options = ("--shard", 4)
    result = run(model, "s3://in", "-o", "s3://out/run", *options, exit_code=3)
    assert "22 documents read, 21 written to s3://out/run, 1 failed" in result.output
    assert "skipped 1 file with other extensions" in result.output
    rows, errors, _ = read_folder(store / "out/run")
    assert [error["id"] for error in errors] == ["s3://in/a.jsonl:21"]
    (here / "a.jsonl").write_text(make_lines(20))
    (here / "b.txt").write_text("Ann saw Rome .")
    run(model, "a.jsonl", "b.txt", "-o", "out", *options, exit_code=3)
    local = read_rows(here / "out")
    assert rows[-1].pop("id") == "s3://in/b.txt:1" and local[-1].pop("id") == "b.txt:1"
    assert rows == local
    # A glob names the same files.
    run(model, "s3://in/*.[jt]*", "-o", "s3://out/run", *options, exit_code=3)
    same = run(model, "s3://in/", "-o", "s3://out/run", *options, exit_code=3)
    assert "22 documents read, 21 written" in same.output


def test_files_of_all_formats_are_read(pipeline, store, here):
    put(store / "in/a/b.csv", "id,text\n1,Ann saw Rome .\n")
    (store / "in/a/c.txt.gz").write_bytes(gzip.compress(b"Bob saw Oslo .\nAnn saw Kiel .\n"))
    shutil.copy(pipeline / "dev.spacy", store / "in/d.spacy")
    run(pipeline / "model", "s3://in/a/b.csv", "s3://in/a", "-o", "out", exit_code=1)
    assert not (here / "out").exists()
    result = run(pipeline / "model", "s3://in/**/*.*", "-o", "out")
    n = len(DocBin().from_disk(pipeline / "dev.spacy"))
    assert f"{n + 3} documents read, {n + 3} written" in result.output
    # No copies stay.
    assert not [path for path in cache(store).rglob("*") if path.is_file()]


def cache(store):
    return make_path("s3://in").client._local_cache_dir


def test_a_run_in_a_store_goes_on_and_checks_what_is_there(pipeline, store, here):
    put(store / "in/a.jsonl", make_lines(20))
    options = (pipeline / "model", "s3://in/a.jsonl", "-o", "s3://out/run")
    run(*options, "--shard", 4, exit_code=3)
    # As if killed after the first two shards, by a run that another one repeated.
    folder = store / "out/run"
    (log,) = (folder / "progress").iterdir()
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:2]))
    put(folder / "progress/other.jsonl", lines[0])
    (folder / "errors.jsonl").unlink()
    shards = folder / "shards"
    first = (shards / "000000.jsonl").stat().st_mtime_ns
    run(*options, "--shard", 4, exit_code=3)
    check_once(read_folder(folder), 20)
    assert (shards / "000000.jsonl").stat().st_mtime_ns == first
    result = run(*options, "--shard", 5, exit_code=1)
    assert "s3://out/run: was started differently: options shard was 4, is 5" in result.output
    (shards / "000001.jsonl").unlink()
    result = run(*options, "--shard", 4, exit_code=1)
    assert "s3://out/run/shards/000001.jsonl: is missing" in result.output
    put(shards / "000002.jsonl", "{}")
    result = run(*options, "--shard", 4, exit_code=1)
    assert "and 1 more; redo" in result.output
    run(*options, "--shard", 4, "--redo", exit_code=3)
    check_once(read_folder(folder), 20)


def test_an_input_that_changed_is_refused(pipeline, store, here):
    put(store / "in/a.txt", "Ann saw Rome .")
    options = (pipeline / "model", "s3://in", "-o", "out")
    run(*options)
    put(store / "in/a.txt", "Ann saw Oslo .")
    result = run(*options, exit_code=1)
    assert "out: was started differently: inputs s3://in/a.txt" in result.output
    assert "etag was" in result.output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["s3://in/b.jsonl", "-o", "out"], "in/b.jsonl: there is no such file or folder"),
        (["s3://in/x/*.txt", "-o", "out"], "in/x/*.txt: there is no such file or folder"),
        (["s3://in", "-o", "s3://in"], "is in the folder of the output, s3://in"),
        (["s3://in", "-o", "s3://other"], "has mine.txt, but no manifest.json"),
        (["s3://in", "s3://in/a.jsonl", "-o", "out"], "s3://in/a.jsonl: is given twice"),
        (["nosuch://in", "-o", "out"], "nosuch://in"),
    ],
)
def test_wrong_urls(pipeline, store, here, arguments, message):
    put(store / "in/a.jsonl", make_lines(1))
    put(store / "other/mine.txt", "")
    result = run(pipeline / "model", *arguments, exit_code=1)
    assert message in result.output
    files = {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}
    assert files == {"in/a.jsonl", "other/mine.txt"}


def test_a_missing_client_is_named(pipeline, here, monkeypatch):
    monkeypatch.setattr(implementation_registry["s3"], "dependencies_loaded", False)
    result = run(pipeline / "model", "s3://in", "-o", "out", exit_code=1)
    assert "s3://in" in result.output and "pip install cloudpathlib[s3]" in result.output


def test_an_input_that_cannot_be_read_stops_the_run(pipeline, store, here, monkeypatch):
    put(store / "in/a.txt", "Ann saw Rome .\n" * 6)
    put(store / "in/b.txt", "Ann saw Rome .")
    options = (pipeline / "model", "s3://in", "-o", "s3://out", "--shard", 2)
    download = LocalS3Client._download_file

    with monkeypatch.context() as patch:

        def fail(self, cloud_path, local_path):
            if cloud_path.name == "b.txt":
                raise PermissionError(13, "Access denied")
            return download(self, cloud_path, local_path)

        patch.setattr(LocalS3Client, "_download_file", fail)
        result = run(*options, exit_code=1)
    assert "s3://in/b.txt: cannot be read: Access denied" in result.output
    assert len(list((store / "out/shards").iterdir())) == 3
    assert "7 documents read, 7 written" in run(*options).output


def test_a_reader_sees_the_old_object_or_the_new_one(store):
    path = make_path("s3://out/a.txt")
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as part:
        part.write_text("half")
        assert path.read_text() == "old"
        raise RuntimeError
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"


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
def test_a_run_in_s3_takes_few_requests(pipeline, bucket, here):
    for i in range(300):
        bucket.put_object(Bucket="texts", Key=f"few/{i:03d}.txt", Body=b"Ann saw Rome .")
    counted = Counter()
    send = botocore_endpoint().Endpoint._send_request

    def count(self, request, model):
        counted[model.name] += 1
        return send(self, request, model)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore_endpoint().Endpoint, "_send_request", count)
        files = find_below(make_path("s3://texts/few"))
        assert len(files) == 300 and counted == {"ListObjectsV2": 1}
        counted.clear()
        assert set(find_sizes(make_path("s3://texts/few")).values()) == {14}
        assert counted == {"ListObjectsV2": 1, "HeadObject": 300}
        counted.clear()
        write_text(make_path("s3://texts/one/a.txt"), "x")
        assert counted["PutObject"] == 1 and counted.total() <= 4


def botocore_endpoint():
    return pytest.importorskip("botocore.endpoint")


@pytest.mark.slow
def test_errors_of_s3_name_the_path(pipeline, bucket, here, monkeypatch):
    bucket.put_object(Bucket="texts", Key="one/a.txt", Body=b"Ann saw Rome .")
    found = make_path("s3://texts/one/a.txt")
    assert [line.text for line in read_lines(found)] == ["Ann saw Rome ."]
    with pytest.raises(UnreadableError, match=r"^s3://texts/one/b.txt: cannot be read: .*exist"):
        next(read_lines(make_path("s3://texts/one/b.txt")))
    with pytest.raises(ValueError, match=r"s3://nosuch/\*.txt: cannot be read: .*NoSuchBucket"):
        find_inputs(["s3://nosuch/*.txt"])


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_named(pipeline, bucket, here, monkeypatch):
    (here / "a.txt").write_text("Ann saw Rome .")
    run_s3 = ["spacy", "bcrf", "annotate", pipeline / "model", "a.txt", "-o"]
    process = start_module([*run_s3, "s3://nosuch/out"], here, here / "log")
    process.join()
    log = (here / "log").read_text()
    assert process.exitcode == 1 and "bucket does not exist" in log and "Traceback" not in log
