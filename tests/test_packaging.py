"""A pipeline with the plug-in's components becomes a package that asks for the plug-in."""

import json
import os
import subprocess
import sys

import pytest
import spacy
from spacy.training import Example

TEXT = "Ann saw Oslo ."
LOAD = f"import spacy; print(spacy.load('en_towns')('{TEXT}').ents)"


def run(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_packaged_pipeline_asks_for_the_plug_in_and_loads(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_ner")
    example = Example.from_dict(nlp.make_doc(TEXT), {"entities": [(8, 12, "LOC")]})
    optimizer = nlp.initialize(lambda: [example])
    for _ in range(20):
        nlp.update([example], sgd=optimizer)
    nlp.to_disk(tmp_path / "towns")

    options = ("--name", "towns", "--version", "1.0", "--build", "none")
    run("-m", "spacy", "package", tmp_path / "towns", tmp_path, *options)
    (package,) = tmp_path.glob("en_towns*")
    (meta,) = package.glob("meta.json")
    requirements = json.loads(meta.read_text())["requirements"]
    assert any(requirement.startswith("spacy-bcrf>=") for requirement in requirements)

    # Without isolation, since that would fetch setuptools, which is there already.
    installed = tmp_path / "installed"
    run(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"),
        *("--target", installed, package),
    )
    assert run("-c", LOAD, PYTHONPATH=str(installed)) == "(Oslo,)\n"
