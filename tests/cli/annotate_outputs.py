"""Output folders of `python -m spacy bcrf annotate`."""

import json


def read_lines(path):
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def read_rows(output):
    """The rows of all shards of JSON lines."""
    return [row for path in sorted((output / "shards").glob("*")) for row in read_lines(path)]


def check_once(output, ids):
    """Check that each document is written once, and that the counts of all shards add up."""
    rows = read_rows(output)
    assert [row["id"] for row in rows] == ids
    *shards, last = read_lines(output / "progress.jsonl")
    assert last == {"complete": len(shards), "crc": last["crc"]}
    assert sorted(shard["number"] for shard in shards) == list(range(len(shards)))
    for shard in shards:
        assert shard["n_read"] == shard["n_written"] + len(shard["failures"])
    assert sum(shard["n_written"] for shard in shards) == len(ids)
    files = [path.name for path in output.rglob("*")]
    assert not any("unfinished" in name for name in files)
