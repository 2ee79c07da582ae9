"""Learning of sparse chains in rounds over processes and Ray actors."""

import errno
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from multiprocessing import active_children, forkserver
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import network

from bcrf.linear.model_bytes import SavedChain, mix, pack, unpack
from spacy_bcrf.bulk import processes
from spacy_bcrf.bulk.learner import Learner, Share
from spacy_bcrf.bulk.mixing import learn_in_rounds, process_learners
from spacy_bcrf.bulk.processes import Child
from spacy_bcrf.bulk.worker import BulkError
from spacy_bcrf.corpora.doc_files import read_docs, write_all
from spacy_bcrf.layers.linear_chain import sparse_chain


def make_docs(vocab):
    docs = []
    for i in range(60):
        words = [["Ann", "Bob", "Eve"][i % 3], "saw", ["Rome", "Oslo"][i % 2], f"w{i}"]
        docs.append(Doc(vocab, words=words, ents=["B-PER", "O", "B-LOC", "O"]))
    return docs


@pytest.fixture
def folder(tmp_path):
    docs = make_docs(spacy.blank("xx").vocab)
    write_all(docs, tmp_path / "corpus", shard=15)
    return tmp_path


def make_nlp(folder=None, **settings):
    nlp = spacy.blank("xx")
    model = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": ["w[-1..1]"],
        "objective": "crf",
        **settings,
    }
    nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    docs = make_docs(nlp.vocab) if folder is None else read_docs(folder / "corpus", nlp.vocab)
    examples = [Example(doc, doc) for doc in docs]
    nlp.initialize(lambda: examples)
    return nlp


def saved_chain(pipeline):
    return unpack(sparse_chain(spacy.load(pipeline).get_pipe("ner").model).to_bytes())


def test_the_mean_is_by_feature():
    def chain(keys, value):
        weights = np.full((len(keys), 2), value, dtype="float32")
        return SavedChain([], {}, {}, 9, np.full((5, 2), value, "f"), np.uint64(keys), weights)

    mixed = mix([chain([7, 3], 4), chain([3, 9], 8)], [0.25, 0.75])
    assert mixed.keys.tolist() == [3, 7, 9]
    assert mixed.features[:, 0].tolist() == [7, 1, 6]
    assert mixed.general[0].tolist() == [7, 7]


@pytest.mark.slow
def test_rounds_learn_and_resume(folder):
    losses = {}
    learn = [folder / "corpus", folder / "out", 2, 2]
    first = learn_in_rounds(make_nlp(folder), "ner", *learn, after=losses.__setitem__)
    assert first == folder / "out" / "round-002"
    assert 0 < losses[2] < losses[1]
    # A round is the mean of one pass of each share.
    files = sorted((folder / "corpus").iterdir())
    started = saved_chain(folder / "out/round-001")
    chain = pack(started._replace(n_sequences=started.n_sequences / 2))
    shares = [Share(folder / "out/round-000", "ner", files[i::2]) for i in range(2)]
    parts = [unpack(Learner(share).learn(chain, 2).chain) for share in shares]
    expected, found = mix(parts, [0.5, 0.5]), saved_chain(first)
    np.testing.assert_allclose(found.general, expected.general, atol=1e-6)
    np.testing.assert_array_equal(found.keys, expected.keys[expected.features.any(axis=1)])
    assert found.n_sequences == saved_chain(folder / "out/round-000").n_sequences == 60
    # As if killed after the first round, with a part of the second.
    for file in sorted(first.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    first.rmdir()
    (folder / "out" / ".unfinished-x").mkdir()
    again = learn_in_rounds(spacy.load(folder / "out/round-001"), "ner", *learn)
    np.testing.assert_array_equal(saved_chain(again).features, found.features)
    nlp = spacy.load(again)
    doc = nlp(Doc(nlp.vocab, words=["Eve", "saw", "Rome", "today"]))
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Eve", "PER"), ("Rome", "LOC")]


@pytest.mark.slow
def test_the_example_of_the_page_runs(folder, monkeypatch, capsys):
    """docs/scale.md, with one round in one process."""
    page = Path(__file__).resolve().parents[2] / "docs/scale.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(folder)
    (folder / "corpus").rename(folder / "train")
    (folder / "corpus").mkdir()
    (folder / "train").rename(folder / "corpus" / "train")
    code = code.replace("rounds=10, n_processes=2", "rounds=1, n_processes=1")
    exec(code, {"__name__": "__main__"})
    assert capsys.readouterr().out == "training/rounds/round-001\n"
    assert (folder / "training/rounds/round-001/config.cfg").exists()


class Poison(Share):
    """A share that ends the process that receives it."""

    def __reduce__(self):
        return os._exit, (9,)


@pytest.mark.slow
def test_a_process_that_ends_early_is_named(folder):
    learn_in_rounds(make_nlp(folder), "ner", folder / "corpus", folder / "out", 0, 1)
    share = Poison(folder / "out/round-000", "ner", [])
    with (
        pytest.raises(BulkError, match=r"round-000: learner 1 of 1 of a later .*, exit code 9\)"),
        process_learners([share]) as make_pass,
    ):
        make_pass(b"", 0)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("index", range(3))
def test_each_learner_that_is_killed_is_named_at_once(folder, index):
    learn = ["ner", folder / "corpus", folder / "out", 2, 3]
    times = []

    def kill(number, loss):
        child = sorted(active_children(), key=lambda child: child.pid)[index]
        os.kill(child.pid, signal.SIGKILL)
        wait_for_end([child.pid])
        times.append(time.monotonic())

    with pytest.raises(BulkError, match=rf"learner {index + 1} of 3 .*\(process \d+, signal 9\)"):
        learn_in_rounds(make_nlp(folder), *learn, after=kill)
    assert time.monotonic() - times[0] < 10
    assert not active_children()
    again = learn_in_rounds(make_nlp(folder), *learn)
    assert again == folder / "out/round-002" and not active_children()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a fork server here")
def test_a_killed_fork_server_leaves_no_learner(folder):
    pids = []

    def kill(number, loss):
        if number == 1:
            pids.extend(child.pid for child in active_children())
            stat = Path(f"/proc/{pids[0]}/stat").read_text()
            os.kill(int(stat.rsplit(")", 1)[1].split()[1]), signal.SIGKILL)

    # The learners do not need the server, so the run goes on.
    learn = [folder / "corpus", folder / "out", 2, 2]
    found = learn_in_rounds(make_nlp(folder), "ner", *learn, after=kill)
    assert found == folder / "out/round-002"
    wait_for_end(pids)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a fork server here")
def test_a_fork_server_that_dies_while_it_starts_a_process_is_replaced(capfd):
    Child(print, "first").stop()
    server = forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGSTOP)  # it gets the request, but starts nothing
    timer = threading.Timer(0.5, os.kill, (server, signal.SIGKILL))
    timer.start()
    child = Child(print, "second")
    timer.join()
    assert re.fullmatch(r"process \d+, exit code 0", child.stop())
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == ["first", "second"]


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


def wait_for_end(pids):
    end = time.monotonic() + 60
    while any(map(is_alive, pids)):
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_an_error_of_a_process_is_raised(folder):
    (folder / "corpus" / "broken.spacy").write_bytes(b"?")
    nlp = make_nlp()
    with pytest.raises(ValueError, match=r"broken.spacy: cannot be read as a .spacy file"):
        learn_in_rounds(nlp, "ner", folder / "corpus", folder / "out", 1, 1)
    assert [path.name for path in (folder / "out").glob("round-*")] == ["round-000"]


@pytest.mark.slow
def test_ray_actors_learn_the_same_and_one_may_die(folder):
    ray = pytest.importorskip("ray")
    psutil = pytest.importorskip("psutil")
    learn = ["ner", folder / "corpus"]
    expected = learn_in_rounds(make_nlp(folder), *learn, folder / "here", 2, 2)
    ray.init(num_cpus=2, object_store_memory=80_000_000, include_dashboard=False)
    killed = []

    def kill_one(number, loss):
        children = psutil.Process().children(recursive=True)
        actors = [each for each in children if "_LearnerActor" in "".join(each.cmdline())]
        if number == 1:
            killed.append(len(actors))
            actors[0].kill()

    try:
        found = learn_in_rounds(
            make_nlp(folder), *learn, folder / "ray", 2, 2, after=kill_one, engine="ray"
        )
    finally:
        ray.shutdown()
    assert killed == [2]
    found, expected = map(saved_chain, (found, expected))
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(found.general, expected.general)


def test_wrong_rounds_are_refused(folder):
    nlp = make_nlp(folder)
    with pytest.raises(ValueError, match="has 4 files for 5 processes; `convert --shard` writes"):
        learn_in_rounds(nlp, "ner", folder / "corpus", folder / "out", 1, 5)
    learn_in_rounds(nlp, "ner", folder / "corpus", folder / "out", 0, 1)
    (folder / "out" / "round-abc").mkdir()
    learn_in_rounds(nlp, "ner", folder / "corpus", folder / "out", 0, 1)
    with pytest.raises(ValueError, match="out: was started differently: seed was 0, is 1"):
        learn_in_rounds(nlp, "ner", folder / "corpus", folder / "out", 0, 1, seed=1)
    with pytest.raises(ValueError, match="corpus: expected a new or empty folder"):
        learn_in_rounds(nlp, "ner", folder / "corpus", folder / "corpus", 0, 1)
    nlp.add_pipe("bcrf_ner", "neural", config={"model": network("CRF")})
    with pytest.raises(ValueError, match="neural has no sparse chain alone"):
        learn_in_rounds(nlp, "neural", folder / "corpus", folder / "out", 0, 1)
