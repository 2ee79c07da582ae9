"""The packaged English pipeline in a new environment: `make test-model`."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

CODE = """
import spacy
doc = spacy.load("en_bcrf_sm")("Barack Obama was born in Hawaii.")
for ent in doc.ents:
    print(ent.text, ent.label_, f"{ent._.confidence:.2f}")
print(*(token.pos_ for token in doc))
"""


@pytest.mark.slow
def test_three_commands_print_entities_with_probabilities(tmp_path):
    wheels = [os.environ.get(name) for name in ("BCRF_WHEEL", "BCRF_MODEL_WHEELS")]
    if not all(wheels):
        pytest.skip("needs wheels: run `make model`, then `make test-model`")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    files = [file for names in wheels for file in names.split()]
    paths = [Path(file).resolve() for file in files]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *paths], check=True)
    run = subprocess.run(
        [python, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    *ents, tags = run.stdout.splitlines()
    assert {"Barack Obama PER", "Hawaii LOC"} <= {ent.rpartition(" ")[0] for ent in ents}
    assert all(0 <= float(ent.rpartition(" ")[2]) <= 1 for ent in ents)
    assert tags.split()[3] == "VERB"
    print(run.stdout, file=sys.stderr)
