"""`run_pool` with workers that live and die by a script."""

from collections import deque
from itertools import count

import pytest

from spacy_bcrf.bulk.engines import MAX_ATTEMPTS, Died, run_pool
from spacy_bcrf.bulk.shards import Finished, Shard
from spacy_bcrf.bulk.worker import BulkError, RunSettings
from spacy_bcrf.corpora.texts import TextRecord

DEATH = Died("signal 9")


class ScriptedPool:
    """Workers 0, 1, ... die at their start or with a shard if a function of their number says so.

    A retired worker must not have a shard, and must not be named again.
    """

    def __init__(self, dies_at_start=lambda worker: False, dies_with=lambda worker, shard: False):
        self.dies_at_start, self.dies_with = dies_at_start, dies_with
        self.numbers, self.results = count(), deque()
        self.alive, self.given, self.most = set(), [], 0
        self.is_stopped = False

    def start(self):
        worker = next(self.numbers)
        self.alive.add(worker)
        self.most = max(self.most, len(self.alive))
        self.results.append((worker, DEATH if self.dies_at_start(worker) else None))
        return worker

    def give(self, worker, shard):
        assert worker in self.alive
        self.given.append(shard.number)
        n = len(shard.items)
        is_dead = self.dies_with(worker, shard)
        self.results.append((worker, DEATH if is_dead else Finished(shard.number, n, n, n, [])))

    def wait(self):
        worker, result = self.results.popleft()
        assert worker in self.alive
        if result is DEATH:
            self.alive.remove(worker)
        return worker, result

    def retire(self, worker):
        assert worker not in [name for name, _ in self.results]
        self.alive.remove(worker)

    def stop(self):
        self.is_stopped = True


def run(pool, tmp_path, n_shards, n_workers=3):
    items = [TextRecord("1", "a.jsonl:1", "a text")]
    shards = [Shard(i, items, 10 * i) for i in range(n_shards)]
    settings = RunSettings("model", ("ner",), "jsonl", tmp_path)
    return sorted(done.number for done in run_pool(pool, settings, n_workers, shards))


@pytest.mark.parametrize("n_shards", [0, 1, 2, 3, 20])
def test_each_shard_is_annotated_once(tmp_path, n_shards):
    pool = ScriptedPool()
    assert run(pool, tmp_path, n_shards) == [*range(n_shards)]
    assert pool.given == [*range(n_shards)]
    assert pool.is_stopped


def test_the_shard_of_a_dead_worker_goes_to_another(tmp_path):
    pool = ScriptedPool(dies_with=lambda worker, shard: worker % 2 == 0)
    assert run(pool, tmp_path, 20) == [*range(20)]
    assert pool.most <= 3


def test_workers_without_a_shard_are_retired(tmp_path):
    """An idle process that dies would wake `wait`, without a shard to annotate again."""
    pool = ScriptedPool()
    assert run(pool, tmp_path, 4) == [*range(4)]
    assert pool.alive == set()


def test_workers_that_all_die_at_their_start_end_the_run(tmp_path):
    pool = ScriptedPool(dies_at_start=lambda worker: True)
    with pytest.raises(BulkError, match=rf"{MAX_ATTEMPTS} workers ended before their first shard"):
        run(pool, tmp_path, 5)
    assert pool.is_stopped


def test_results_of_one_worker_do_not_excuse_the_others(tmp_path):
    pool = ScriptedPool(dies_at_start=lambda worker: worker > 0)
    with pytest.raises(BulkError, match="before their first shard"):
        run(pool, tmp_path, 1000)
    assert next(pool.numbers) < 10
