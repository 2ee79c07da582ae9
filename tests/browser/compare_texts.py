"""Compare the output of JavaScript with that of Python, of whole texts and of streams.

    python tests/browser/compare_texts.py N [SEED]

compares N texts of all pipelines of browser_pipelines.py, and N in streams, each fed in pieces.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from browser_golden import make_golden
from browser_pipelines import KINDS, make_texts, train
from spacy.language import Language

from spacy_bcrf.browser.export import export
from spacy_bcrf.pipeline.settings import Control

NODE = shutil.which("node") or ""
FOLDER = Path(__file__).parent
STREAMS = [
    *(("bio", "viterbi", 0.0), ("split", "viterbi", 0.0), ("characters", "viterbi", 0.0)),
    *(("layers", "viterbi", 0.0), ("bio", "viterbi", 0.7), ("bio", "f", 0.0)),
    *(("split", "f", 0.1), ("promise", "f", 0.1), ("layers", "f", 0.2)),
    *(("layers f", "f", 0.05), ("identifiers", "viterbi", 0.0), ("identifiers", "f", 0.1)),
]
"""Pipelines with their decoders and thresholds."""


def run_node(script: str, *arguments: object) -> Any:
    """Return what a script prints."""
    done = subprocess.run(
        [NODE, FOLDER / script, *map(str, arguments)], capture_output=True, text=True, timeout=3000
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(kind: str, texts: Sequence[str], folder: Path) -> dict[str, Any]:
    nlp = train(kind)
    (_, pipe), *_ = reversed(nlp.pipeline)
    if kind in ("bio", "layers", "identifiers"):
        pipe.control = Control("recall", pipe.labels, (0.02,) * len(pipe.labels))
    elif kind == "split":
        pipe.temperature, pipe.threshold = 1.7, {"PER": 0.9}
    return run_node("replay.mjs", *_write(nlp, texts, folder))


def compare_streams(
    kind: str, decoder: str, threshold: float, texts: Sequence[str], folder: Path, seed: int = 3
) -> dict[str, Any]:
    nlp = train("split" if kind == "promise" else kind)
    (_, pipe), *_ = reversed(nlp.pipeline)
    pipe.set_decoder(decoder)
    pipe.threshold = threshold
    if kind == "promise":
        pipe.control = Control("precision", pipe.labels, (0.6,) * len(pipe.labels))
    return run_node("replay_stream.mjs", *_write(nlp, texts, folder), seed)


def _write(nlp: Language, texts: Sequence[str], folder: Path) -> tuple[Path, Path]:
    model, golden = folder / "model.bcrf", folder / "golden.jsonl"
    export(nlp, model)
    golden.write_text("\n".join(make_golden(nlp, texts)))
    return model, golden


def main(n: int, seed: int = 20) -> None:
    """Exit with 1 if any text differs, or a probability too much."""
    n_different = 0
    for k, (kind, *settings) in enumerate([*((kind,) for kind in KINDS), *STREAMS]):
        share = -(-n // len(STREAMS if settings else KINDS))
        texts = make_texts(share, seed=seed + k, identifiers=kind == "identifiers")
        with tempfile.TemporaryDirectory() as folder:
            if settings:
                found = compare_streams(kind, *settings, texts, Path(folder), seed=seed)
            else:
                found = compare(kind, texts, Path(folder))
        print(kind, *settings, found, flush=True)
        limit = 1e-5 if not settings and kind != "two passes" else 1.1e-4
        n_different += found["n"] + (found["p"] >= limit)
    sys.exit(n_different > 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
