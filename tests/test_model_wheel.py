"""The packaged English pipeline in new environments: `make test-model`."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import spacy
import srsly
from hub import run_hub

CODE = """
import spacy
doc = spacy.load("en_bcrf_sm")("Barack Obama was born in Hawaii.")
for ent in doc.ents:
    print(ent.text, ent.label_, f"{ent._.confidence:.2f}")
print(*(token.pos_ for token in doc))
"""


MODELS = [Path(file).resolve() for file in os.environ.get("BCRF_MODEL_WHEELS", "").split()]
WHEEL = os.environ.get("BCRF_WHEEL")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (MODELS and WHEEL), reason="needs wheels: run `make model`, then `make test-model`"
    ),
]


def make_environment(folder, *packages):
    """Install packages in a new environment, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def test_three_commands_print_entities_with_probabilities(tmp_path):
    python = make_environment(tmp_path / "env", Path(WHEEL).resolve(), *MODELS)
    run = subprocess.run(
        [python, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    *ents, tags = run.stdout.splitlines()
    assert {"Barack Obama PER", "Hawaii LOC"} <= {ent.rpartition(" ")[0] for ent in ents}
    assert all(0 <= float(ent.rpartition(" ")[2]) <= 1 for ent in ents)
    assert tags.split()[3] == "VERB"
    print(run.stdout, file=sys.stderr)


def test_a_push_to_the_hugging_face_hub(tmp_path):
    # spacy-huggingface-hub 0.0.10 excludes the typer that our commands need, and fails after a push
    # with huggingface_hub 1 and 2.
    python = make_environment(tmp_path / "env", "spacy-huggingface-hub", "huggingface_hub<1")
    with run_hub() as (endpoint, files):
        env = os.environ | {"HF_ENDPOINT": endpoint, "HF_TOKEN": "hf_x", "HF_HOME": str(tmp_path)}
        env.pop("PYTHONPATH", None)
        (wheel,) = MODELS
        command = [python, "-m", "spacy_huggingface_hub", wheel]
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "en_bcrf_sm-any-py3-none-any.whl" in files

    _, front_matter, card = files["README.md"].decode().split("---\n", 2)
    metadata = srsly.yaml_loads(front_matter)
    assert metadata["tags"] == ["spacy", "token-classification"]
    assert (metadata["language"], metadata["license"]) == (["en"], "cc-by-sa-4.0")
    results = metadata["model-index"][0]["results"]
    assert [result["task"]["name"] for result in results] == ["NER", "POS"]
    assert all(0 < metric["value"] < 1 for result in results for metric in result["metrics"])
    assert "## Data and limits" in card

    for name, content in files.items():
        path = tmp_path / "downloaded" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    ents = spacy.load(tmp_path / "downloaded")("Barack Obama was born in Hawaii.").ents
    assert [ent.label_ for ent in ents] == ["PER", "LOC"]
