"""The packaged pipelines in new environments: `make test-models`."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import spacy
import srsly
from hub import run_hub

CARD = """
import contextlib, importlib, io, pathlib, re, sys, time
name = sys.argv[1]
(card,) = pathlib.Path(importlib.import_module(name).__file__).parent.glob("*/README.md")
code = re.search("```python(.*?)```", card.read_text("utf8"), re.DOTALL)[1]
shown = [line[2:] for line in code.splitlines() if line.startswith("# ")]
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    exec(code)
assert shown and printed.getvalue().splitlines() == shown, printed.getvalue()
start = time.process_time()
importlib.import_module(name).load()
print(f"{name} loads in {time.process_time() - start:.2f} s")
"""


MODELS = [Path(file).resolve() for file in os.environ.get("BCRF_MODELS", "").split()]
WHEEL = os.environ.get("BCRF_WHEEL")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (MODELS and WHEEL), reason="needs wheels: run `make models`, then `make test-models`"
    ),
]


def make_environment(folder, *packages):
    """Install packages in a new environment, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def test_the_cards_run_without_a_network(tmp_path):
    folder = tmp_path / "wheels"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", folder]
    subprocess.run([*download, Path(WHEEL).resolve(), *MODELS], check=True)
    names = [wheel.name.split("-")[0] for wheel in MODELS]
    python = make_environment(tmp_path / "env", "--no-index", "--find-links", folder, *names)
    for name in names:
        command = [python, "-c", CARD, name]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        print(run.stdout, file=sys.stderr)


def test_a_push_to_the_hugging_face_hub(tmp_path):
    # spacy-huggingface-hub 0.0.10 excludes the typer that our commands need, and fails after a push
    # with huggingface_hub 1 and 2.
    python = make_environment(tmp_path / "env", "spacy-huggingface-hub", "huggingface_hub<1")
    with run_hub() as (endpoint, files):
        env = os.environ | {"HF_ENDPOINT": endpoint, "HF_TOKEN": "hf_x", "HF_HOME": str(tmp_path)}
        env.pop("PYTHONPATH", None)
        (wheel,) = (path for path in MODELS if path.name.startswith("en_bcrf_web"))
        command = [python, "-m", "spacy_huggingface_hub", wheel]
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "en_bcrf_web-any-py3-none-any.whl" in files

    _, front_matter, card = files["README.md"].decode().split("---\n", 2)
    metadata = srsly.yaml_loads(front_matter)
    assert metadata["tags"] == ["spacy", "token-classification"]
    assert (metadata["language"], metadata["license"]) == (["en"], "cc-by-sa-4.0")
    results = metadata["model-index"][0]["results"]
    assert [result["task"]["name"] for result in results] == ["NER"]
    assert all(0 < metric["value"] < 1 for result in results for metric in result["metrics"])
    assert "## Data and limits" in card

    for name, content in files.items():
        path = tmp_path / "downloaded" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    ents = spacy.load(tmp_path / "downloaded")("Barack Obama was born in Hawaii.").ents
    assert [ent.label_ for ent in ents] == ["PER", "LOC"]
