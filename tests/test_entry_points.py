"""The entry points of setup.cfg resolve, and factories import quickly."""

import subprocess
import sys
from importlib.metadata import distribution

import pytest
from spacy import registry

ENTRY_POINTS = list(distribution("spacy-bcrf").entry_points)
REGISTRIES = {
    "thinc_layers": "layers",
    "thinc_optimizers": "optimizers",
    "spacy_architectures": "architectures",
    "spacy_tokenizers": "tokenizers",
    "spacy_factories": "_entry_point_factories",
    "spacy_readers": "readers",
    "spacy_callbacks": "callbacks",
    "spacy_scorers": "scorers",
    "spacy_misc": "misc",
    "spacy_cli": "cli",
}


@pytest.mark.parametrize("entry", ENTRY_POINTS, ids=lambda entry: entry.name)
def test_the_registry_finds_each_entry_point(entry):
    registered = getattr(registry, REGISTRIES[entry.group]).get(entry.name)
    assert registered is entry.load()


def test_there_are_entry_points():
    groups = {entry.group for entry in ENTRY_POINTS}
    assert groups >= {"thinc_layers", "spacy_architectures", "spacy_factories"}


def test_factories_import_nothing_heavy():
    """Every `Language()` imports the factories."""
    code = (
        "import spacy.pipeline.ner, sys; before = set(sys.modules); "
        "import spacy_bcrf.pipeline.factories; "
        "print(*set(sys.modules) - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    ours = {name for name in loaded if name.startswith("spacy_bcrf")}
    light = ("factories", "platt_scaling", "settings")
    assert ours == {"spacy_bcrf", "spacy_bcrf.pipeline"} | {
        f"spacy_bcrf.pipeline.{m}" for m in light
    }
    assert not loaded & {"torch", "cupy", "matplotlib", "scipy"}
