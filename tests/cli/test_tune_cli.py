"""The command `python -m spacy bcrf tune`."""

import json
import shutil

import pytest
import spacy
from commands import command
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.training import tune

run = command("tune")
NAMES = [f"{a}{b}" for a in ("Ka", "Lo", "Mi") for b in ("ra", "no", "si", "te")]


@pytest.fixture
def folder(here):
    """A folder with a config and its two corpora."""
    nlp = spacy.blank("xx")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"]}
    clusters = {"names": dict.fromkeys(NAMES, "0101")}
    nlp.add_pipe("bcrf_ner", "ner", config={"model": {**model, "clusters": clusters}})
    nlp.config.to_disk("config.cfg")
    for part, names in (("train", NAMES[:6]), ("dev", NAMES[6:])):
        docs = []
        for name in names:
            # Half of the names come first, so that their place says nothing.
            at = 1 if len(docs) % 2 else 3
            words = ["then", name.lower(), "left", name.lower()]
            words[at] = name
            doc = Doc(nlp.vocab, words=words)
            doc.ents = [Span(doc, at, at + 1, label="PER")]
            docs.append(doc)
        DocBin(docs=docs).to_disk(f"{part}.spacy")
    return here


PATHS = ("--paths.train", "train.spacy", "--paths.dev", "dev.spacy")
COMMAND = ("config.cfg", "-o", "best.cfg", "-n", 6, *PATHS)


def test_the_best_settings_are_written_and_train(folder):
    result = run(*COMMAND)
    lines = result.stdout.splitlines()
    assert lines[1].startswith(" 100% 100.00  100.00-100.00")
    # Words alone cannot tell the names of dev from the other words.
    assert lines[2].startswith(" 100%") and lines[2].endswith("  config")
    assert float(lines[2].split()[1]) < 90
    f = lines[2].split()[1]
    assert lines[-1].startswith(f"best.cfg: F {f} before, 100.00 with templates=")
    best = spacy.util.load_config("best.cfg")
    assert best["paths"]["train"] == "train.spacy"
    model = best["components"]["ner"]["model"]
    assert model["templates"] != ["w[0]"] and best["training"]["max_epochs"] in (5, 10, 20)
    nlp = spacy.util.load_model_from_config(best, auto_fill=True)
    assert nlp.pipe_names == ["ner"]
    # Rounds: 6 on a ninth, 1 + 2 on a third, 1 + 1 on all.
    files = [*(folder / "best.cfg.trials").glob("*[!h].json")]
    trials = [json.loads(file.read_text()) for file in files]
    assert sorted(t["share"] for t in trials) == [1 / 9] * 6 + [1 / 3] * 3 + [1.0] * 2
    assert all(trial["low"] <= trial["f"] <= trial["high"] for trial in trials)


def test_an_interrupted_search_goes_on(folder, monkeypatch):
    whole = run(*COMMAND).stdout
    state, best = folder / "best.cfg.trials", (folder / "best.cfg").read_text()
    shutil.rmtree(state)
    (folder / "best.cfg").unlink()
    fit, n = tune.fit_sparse_chain, 0

    def counted(*args):
        nonlocal n
        n += 1
        if n == 5:
            raise KeyboardInterrupt
        return fit(*args)

    monkeypatch.setattr(tune, "fit_sparse_chain", counted)
    result = run(*COMMAND, exit_code=130)
    assert "The same command goes on" in result.output
    assert len([*state.glob("*")]) == 1 + 4  # with search.json
    assert not (folder / "best.cfg").exists()
    again = run(*COMMAND)
    assert n == 5 + 7
    assert (folder / "best.cfg").read_text() == best
    assert [line.split()[:3] for line in again.stdout.splitlines()] == [
        line.split()[:3] for line in whole.splitlines()
    ]


def test_the_time_ends_the_search(folder):
    result = run(*COMMAND, "--minutes", 0, exit_code=1)
    assert "no training ended in time" in result.output
    assert not (folder / "best.cfg").exists()


def test_a_setting_that_fails_is_shown(folder, monkeypatch):
    def fail(nlp, examples, passes):
        raise ValueError("the weights are not finite")

    monkeypatch.setattr(tune, "fit_sparse_chain", fail)
    result = run(*COMMAND)
    assert "the weights are not finite" in result.output and "higher F than yours" in result.stdout


@pytest.fixture
def network(folder):
    """A trained pipeline that tells names by their shape."""
    nlp = spacy.blank("xx")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["shape[0]"]}
    nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    docs = DocBin().from_disk("train.spacy").get_docs(nlp.vocab)
    fit_sparse_chain(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], 8)
    nlp.to_disk("network")
    return "network"


def test_the_sum_with_a_network_is_tried_last(folder, network, monkeypatch):
    """The best chain, which differs from the config, is in the sum and in the written config."""
    candidates = [{}, {"templates": ["w[-1]"], "passes": 20}]
    monkeypatch.setattr(tune, "_candidates", lambda *args: candidates)
    alone = run(*COMMAND)
    assert "combine" not in alone.output and "passes=20" in alone.stdout.splitlines()[1]
    known = tune._try
    tried = []

    def counted(*args):
        tried.append(args[3])
        return known(*args)

    monkeypatch.setattr(tune, "_try", counted)
    # One more trial: the state of the search has the others.
    result = run(*COMMAND, "--network", network)
    assert tried == [{**candidates[1], "network": "network"}]
    combine = "python -m spacy bcrf combine out/model-last network --dev dev.spacy --output sum\n"
    assert f"the sum is best. After the training: {combine}" in result.stdout
    best, chain = result.stdout.splitlines()[1:3]
    assert best.startswith(" 100% 100.00") and best.endswith("network=network")
    assert chain.split()[:3] == alone.stdout.splitlines()[1].split()[:3]
    model = spacy.util.load_config("best.cfg")["components"]["ner"]["model"]
    assert model["templates"] == ["w[-1]"] and "network" not in model
    assert run(*COMMAND, "--network", network).stdout == result.stdout and len(tried) == 1
    # Another network at the same path.
    nlp = spacy.load(network)
    nlp.meta["version"] = "1.0.1"
    nlp.to_disk(network)
    run(*COMMAND, "--network", network)
    assert len(tried) == 2


def test_a_network_that_cannot_be_summed_is_named_before_the_search(folder, network):
    def message_of(name):
        result = run(*COMMAND, "--network", name, exit_code=1)
        assert not (folder / "best.cfg.trials").exists()
        return result.output

    nlp = spacy.load(network)
    nlp.rename_pipe("ner", "names")
    nlp.to_disk("renamed")
    expected = (
        "the pipelines have no enabled component 'ner' of spacy-bcrf in common: the config has"
    )
    assert message_of("renamed") == f"{expected} ner; renamed has names\n"
    nlp = spacy.blank("xx")
    nlp.add_pipe("ner").add_label("PER")
    nlp.initialize()
    nlp.to_disk("spacys")
    assert message_of("spacys") == f"{expected} ner; spacys has none\n"
    nlp = spacy.load(network)
    nlp.get_pipe("ner").add_label("LOC")
    nlp.to_disk("other")
    message = message_of("other")
    assert message.startswith("ner has other labels: ") and ", LOC in other" in message
    assert message_of("missing").startswith("missing: the pipeline cannot be")


def test_errors(folder):
    run(*COMMAND)
    result = run(*COMMAND, "--candidates", 5, exit_code=1)
    message = "best.cfg.trials: was started differently: candidates was "
    assert result.output.startswith(message)
    # All trials are like the first.
    for file in sorted((folder / "best.cfg.trials").iterdir(), reverse=True)[:2]:
        known = file.read_text()
        for damaged in ("", "[]", "[" * 100_000):
            file.write_text(damaged)
            result = run(*COMMAND, exit_code=1)
            assert result.output.startswith("best.cfg.trials")
            assert "delete" in result.output or "expected another folder" in result.output
        file.write_text(known)
    shutil.copy("train.spacy", "dev.spacy")
    shutil.rmtree(folder / "best.cfg.trials")
    run(*COMMAND, "--force")
    # Other documents, as many.
    docs = DocBin().from_disk("dev.spacy").get_docs(spacy.blank("xx").vocab)
    DocBin(
        docs=[
            Doc(doc.vocab, [*(t.text for t in doc)], ents=["B-PER", "O", "O", "O"]) for doc in docs
        ]
    ).to_disk("dev.spacy")
    result = run(*COMMAND, exit_code=1)
    message = "best.cfg.trials: was started differently: corpora was "
    assert result.output.startswith(message)
    nothing = Doc(spacy.blank("xx").vocab, ["then"], ents=["O"])
    DocBin(docs=[nothing]).to_disk("nothing.spacy")
    result = run("config.cfg", "-o", "new.cfg", *PATHS[:3], "nothing.spacy", exit_code=1)
    message = "config.cfg: the dev corpus: none of the 1 documents has entities"
    assert message in result.output
    (folder / "damaged.spacy").write_bytes(b"hello")
    result = run("config.cfg", "-o", "new.cfg", *PATHS[:3], "damaged.spacy", exit_code=1)
    message = "damaged.spacy: cannot be read as a .spacy file: "
    assert result.output.startswith(message)
    (folder / "empty.spacy").touch()
    result = run("config.cfg", "-o", "new.cfg", *PATHS[:3], "empty.spacy", exit_code=1)
    message = "empty.spacy: cannot be read as a .spacy file: it is empty\n"
    assert result.output == message
    result = run("config.cfg", "-o", "config.cfg", *PATHS, exit_code=1)
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner")
    nlp.add_pipe("bcrf_tagger")
    nlp.config.to_disk("two.cfg")
    result = run("two.cfg", "-o", "other.cfg", *PATHS, exit_code=1)
    assert "expected a pipeline with one component" in result.output
