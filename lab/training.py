"""Training runs that can be interrupted and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from bcrf.io.atomic import write_text
from lab.processes import use_one_thread

Scores = dict[str, float]


class Run(NamedTuple):
    """One training and its evaluation.

    folder: receives the log, the models and `result.json`.
    config: a training config. `train` fills in the defaults.
    evaluate: returns the scores of the pipeline in a folder; must be picklable.
    gpu: GPU number, or -1 for the CPU.
    """

    folder: Path
    config: dict[str, Any]
    evaluate: Callable[[Path], Scores]
    gpu: int = -1

    def load(self) -> Scores | None:
        """Return the stored scores, or None if there are none for this config."""
        path = self.folder / "result.json"
        result = json.loads(path.read_text()) if path.exists() else {}
        # JSON turns tuples into lists.
        if result.get("config") != json.loads(json.dumps(self.config)):
            return None
        scores: Scores = result["scores"]
        return scores


def perform(runs: Sequence[Run], jobs: int) -> list[Scores]:
    """Perform the runs without stored scores, `jobs` at a time. Return the scores of all.

    Each run has its own process with one thread. After an error no further run starts. Raises
    SystemExit naming the run that failed and its log.
    """
    left = [run for run in runs if run.load() is None]
    use_one_thread()
    # The server imports spaCy once for all runs; its fork for each run starts at once.
    context = get_context("forkserver")
    context.set_forkserver_preload(["lab.preload"])
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        # The last runs have the deepest encoders and take longest. They start first.
        futures = {pool.submit(train_and_score, run): run for run in reversed(left)}
        done = tqdm(as_completed(futures), "runs", total=len(runs), initial=len(runs) - len(left))
        for future in done:
            error = future.exception()
            if error is not None:
                pool.shutdown(cancel_futures=True)
                folder = futures[future].folder
                raise SystemExit(f"{folder.name}: {error}; see {folder / 'train.log'}")
    return [run.load() or {} for run in runs]


def train_and_score(run: Run) -> None:
    """Train the pipeline of a run, evaluate its best step and store the scores."""
    from spacy.cli.train import train
    from spacy.util import load_model_from_config
    from thinc.api import Config

    run.folder.mkdir(parents=True, exist_ok=True)
    with (run.folder / "train.log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        filled = load_model_from_config(Config(run.config), auto_fill=True).config
        filled.to_disk(run.folder / "train.cfg")
        train(run.folder / "train.cfg", run.folder, use_gpu=run.gpu)
    scores = run.evaluate(run.folder / "model-best")
    write_text(run.folder / "result.json", json.dumps({"config": run.config, "scores": scores}))
