"""`python -m spacy bcrf annotate --ray` on a cluster of two nodes."""

import json
import os
import threading
import time

import pytest
from annotate_outputs import check_once, read_lines, read_rows
from commands import command

from spacy_bcrf.bulk.ray_engine import run_ray
from spacy_bcrf.bulk.shards import Shard
from spacy_bcrf.bulk.worker import RunSettings
from spacy_bcrf.corpora.texts import TextRecord

pytestmark = pytest.mark.slow
run = command("annotate")
N_DOCS = 1500


@pytest.fixture(scope="module")
def cluster():
    """Two nodes on this machine, with one CPU each. The driver joins the first."""
    # Ray gives a node 30 seconds to start, and 10 to answer: too few on a busy machine.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_raylet_start_wait_time_s", "300")
        patch.setenv("RAY_health_check_timeout_ms", "120000")
        yield from start_cluster()


def start_cluster():
    ray = pytest.importorskip("ray")
    Cluster = pytest.importorskip("ray.cluster_utils").Cluster
    memory = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**memory, "include_dashboard": False})
    second = cluster.add_node(**memory)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def texts(here):
    lines = [json.dumps({"id": i, "text": f"Ann saw Rome{i} . " * 40}) for i in range(N_DOCS)]
    lines.append("{")
    (here / "a.jsonl").write_text("\n".join(lines))
    return here / "a.jsonl"


def wait_until(condition, seconds=500):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def actor_processes():
    """The processes of actors that this test has started."""
    psutil = pytest.importorskip("psutil")
    found = psutil.Process().children(recursive=True)
    return [process for process in found if "ray::_Actor" in "".join(process.cmdline())]


def test_a_worker_and_then_a_node_die(pipeline, cluster, texts, here):
    """Every document is written once, as by one process."""
    nodes, second = cluster
    shards = here / "out" / "shards"
    killed = []

    def n_shards():
        return len(list(shards.glob("0*")))

    def attack():
        wait_until(lambda: n_shards() > 2)
        actor_processes()[0].kill()
        killed.append(n_shards())
        wait_until(lambda: n_shards() > killed[0] + 5)
        nodes.remove_node(second, allow_graceful=False)
        killed.append(n_shards())

    attacker = threading.Thread(target=attack)
    attacker.start()
    ray_options = ("--ray", "local", "--n-process", 2)
    options = (pipeline / "model", "a.jsonl", "--shard", 20, "-o")
    run(*options, "out", *ray_options, exit_code=3)
    attacker.join()
    assert len(killed) == 2 and killed[1] < N_DOCS // 20
    check_once(here / "out", list(range(N_DOCS)))
    (error,) = read_lines(here / "out" / "errors.jsonl")
    assert error["id"] == f"a.jsonl:{N_DOCS + 1}"
    run(*options, "here", exit_code=3)
    assert read_rows(here / "out") == read_rows(here / "here")
    # A finished run is the same for every engine.
    again = run(*options, "here", *ray_options, exit_code=3)
    assert "1,501 documents read, 1,500 written" in again.output


def test_documents_that_end_actors_are_set_aside(pipeline, cluster, here):
    class Deadly(TextRecord):
        def make_doc(self, nlp):
            os._exit(9)

    class Large(TextRecord):
        def make_doc(self, nlp):
            raise MemoryError

    kinds = [TextRecord, Deadly, Large, TextRecord]
    items = [kind(f"{i}", f"a.txt:{i}", "Ann saw Rome .") for i, kind in enumerate(kinds)]
    settings = RunSettings(str(pipeline / "model"), (), "jsonl", here)
    (found,) = run_ray(settings, 1, None, [Shard(0, items, 0)])
    assert (found.n_read, found.n_written) == (4, 2)
    assert [failure.id for failure in found.failures] == ["1", "2"]
    assert found.failures[0].reason.startswith("set aside: 4 workers died, the last one with this")
    assert found.failures[1].reason == "MemoryError"
    assert [row["id"] for row in read_lines(here / "000000.jsonl")] == ["0", "3"]
    assert not list(here.glob("*at-*"))
