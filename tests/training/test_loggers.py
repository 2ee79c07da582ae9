"""The loggers of docs/loggers.md, without network: trainings end in the files of the tracker.

They need the extra `loggers`: `make test EXTRAS=dev,loggers`.
"""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from spacy.util import load_config
from spacy_commands import train
from thinc.api import Config

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/loggers.md").read_text(encoding="utf8")


def find_logger(name):
    """Return the block [training.logger] of the page for a tracker."""
    (block,) = [text for text in re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL) if name in text]
    return Config().from_str(f"[training]\n\n{block}")["training"]["logger"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Train two passes with the logger of a tracker in an empty folder."""
    from spacy_bcrf.corpora.convert import convert

    monkeypatch.chdir(tmp_path)
    # No request leaves this machine.
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for part in ("train", "dev"):
        source = ROOT / f"assets/sample/{part}.conllu"
        convert([source], tmp_path / f"{part}.spacy", lang="en")

    def train_with(name):
        config = load_config(ROOT / "configs/ner_sparse.cfg")
        config["training"]["logger"] = find_logger(name)
        config.to_disk(tmp_path / "config.cfg")
        paths = {f"paths.{part}": f"{part}.spacy" for part in ("train", "dev")}
        overrides = paths | {"training.max_epochs": 2, "training.eval_frequency": 5}
        train(tmp_path / "config.cfg", tmp_path / "out", overrides, StringIO())
        scores = json.loads((tmp_path / "out/model-best/meta.json").read_text())["performance"]
        return scores["ents_f"]

    return train_with


def test_mlflow(run, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("pandas")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "mlruns")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    best = run("MLflow")
    client = mlflow.MlflowClient("mlruns")
    (found,) = client.search_runs(
        [experiment.experiment_id for experiment in client.search_experiments()]
    )
    assert found.info.run_name == "sparse chain"
    scores = [metric.value for metric in client.get_metric_history(found.info.run_id, "ents_f")]
    assert len(scores) >= 2 and max(scores) == pytest.approx(best)
    assert {"paths.train", "paths.dev"}.isdisjoint(found.data.params)
    assert found.data.params["nlp.lang"] == "en"


def test_weights_and_biases(run, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged = []
    log = wandb.Run.log

    def record(self, values, *args, **kwargs):
        logged.append(values)
        log(self, values, *args, **kwargs)

    monkeypatch.setattr(wandb.Run, "log", record)
    best = run("Wandb")
    wandb.finish()
    (folder,) = Path("wandb").glob("offline-run-*")
    assert list(folder.glob("run-*.wandb"))
    scores = [values["ents_f"] for values in logged if "ents_f" in values]
    assert len(scores) >= 2 and max(scores) == pytest.approx(best)
