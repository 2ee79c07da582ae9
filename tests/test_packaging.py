"""`spacy package` makes a package that requires the plug-in."""

import json

import pytest
import spacy
from forked_commands import run_module
from spacy.training import Example

TEXT = "Ann saw Oslo ."
LOAD = f"import spacy; print(spacy.load('en_towns')('{TEXT}').ents)"


@pytest.mark.slow
def test_a_packaged_pipeline_requires_the_plug_in_and_loads(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_ner")
    example = Example.from_dict(nlp.make_doc(TEXT), {"entities": [(8, 12, "LOC")]})
    optimizer = nlp.initialize(lambda: [example])
    for _ in range(20):
        nlp.update([example], sgd=optimizer)
    nlp.to_disk(tmp_path / "towns")

    def run(*arguments, folder=tmp_path):
        return run_module(arguments, folder, tmp_path / "log.txt")

    options = ("--name", "towns", "--version", "1.0", "--build", "none")
    run("spacy", "package", tmp_path / "towns", tmp_path, *options)
    (package,) = tmp_path.glob("en_towns*")
    (meta,) = package.glob("meta.json")
    requirements = json.loads(meta.read_text())["requirements"]
    assert any(requirement.startswith("spacy-bcrf>=") for requirement in requirements)

    # Build isolation would download setuptools.
    installed = tmp_path / "installed"
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    run("pip", "install", *options, "--target", installed, package)
    (installed / "load_towns.py").write_text(LOAD)
    assert run("load_towns", folder=installed).splitlines()[-1] == "(Oslo,)"
