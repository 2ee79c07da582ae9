"""`spacy package` makes a package that requires the plug-in."""

import importlib
import json
import shutil

import pytest
import spacy
from spacy.training import Example
from spacy_commands import run_spacy
from tiny_training import network, train

TEXT = "Ann saw Oslo ."


@pytest.mark.slow
def test_a_packaged_pipeline_requires_the_plug_in_and_loads(tmp_path, monkeypatch):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", config={"model": network()})
    example = Example.from_dict(nlp.make_doc(TEXT), {"entities": [(8, 12, "LOC")]})
    train(nlp, [example])
    nlp.to_disk(tmp_path / "towns")

    options = ("--name", "towns", "--version", "1.0", "--build", "none")
    run_spacy("package", tmp_path / "towns", tmp_path, *options)
    (package,) = tmp_path.glob("xx_towns*")
    requirements = json.loads((package / "meta.json").read_text())["requirements"]
    assert any(requirement.startswith("spacy-bcrf>=") for requirement in requirements)
    # setup.py copies the meta data. Then the package can be imported from its folder.
    shutil.copy(package / "meta.json", package / "xx_towns")
    monkeypatch.syspath_prepend(package)
    (town,) = importlib.import_module("xx_towns").load()(TEXT).ents
    assert town.text == "Oslo"
