"""A source folder without a build: spaCy's commands work, and ours end with one line."""

from pathlib import Path

import pytest
from bare_sources import copy_sources, run

COMMANDS = {
    "spacy_commands": ["-m", "spacy", "info"],
    "blank": ["-c", "import spacy; spacy.blank('en').add_pipe('bcrf_ner')"],
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return copy_sources(tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_spacy_works_in_a_bare_clone(bare, arguments):
    done = run(bare, *arguments)
    assert done.returncode == 0, done.stderr


def test_a_command_ends_with_one_line(bare):
    text = Path(bare / "texts.txt")
    text.write_text("Ann saw Rome\n")
    code = (
        "import spacy; nlp = spacy.blank('en'); nlp.add_pipe('bcrf_ner').add_label('PER'); "
        "nlp.initialize()"
    )
    done = run(bare, "-c", code)
    assert "Run `pip install .` in it" in done.stderr.splitlines()[-1]
