"""Tests of the benchmark of accuracy."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import accuracy


@pytest.mark.parametrize("key", ["version", "commit", "config"])
def test_a_run_of_other_code_or_config_is_repeated(key, tmp_path, monkeypatch):
    origin = {"version": "1", "commit": "a", "config": "b"}
    calls = []

    def measure(*arguments):
        calls.append(arguments)
        return {"score": float(len(calls))}

    monkeypatch.setattr(accuracy, "find_origin", lambda *arguments: dict(origin))
    monkeypatch.setattr(accuracy, "in_own_process", measure)
    run = (tmp_path, tmp_path, "conll2000", "sparse", 0, 10)
    assert [accuracy.load_run(*run)["score"] for _ in range(2)] == [1, 1]
    origin[key] = "other"
    assert accuracy.load_run(*run)["score"] == 2
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["origin"] == origin


@pytest.mark.parametrize("system", ["sparse", "crfsuite"])
def test_the_origin_depends_on_the_config(system):
    one, same, other = (accuracy.find_origin("conll2000", system, seed, 10) for seed in (0, 0, 1))
    assert one == same
    assert one["config"] != other["config"]


def test_a_stacked_chain_reads_each_of_its_resources():
    model = accuracy.chain_with_resources("uner", Path("folder"))
    for name in ("brown", *accuracy.VECTORS):
        assert any(template.startswith(f"cluster.{name}") for template in model["templates"])
    assert model["clusters"]["md800"] == str(Path("folder/md800.tsv"))
    assert model["gazetteers"].keys() == {*accuracy.LISTS}
    assert {f"gazetteer.{name}[-1..1]" for name in accuracy.LISTS} <= {*model["templates"]}


def test_unknown_gold_tags_are_refused():
    with pytest.raises(ValueError, match="there are unknown gold tags"):
        accuracy.complete_tags(np.array([0, -1, 2], dtype="int32"))
    tags = np.array([0, 1], dtype="int32")
    assert accuracy.complete_tags(tags) is tags
