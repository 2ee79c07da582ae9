"""A source folder without a build: spaCy's commands work, and ours end with one line."""

import pytest
from bare_sources import copy_sources, run


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return copy_sources(tmp_path_factory.mktemp("bare"))


def test_spacy_works_in_a_bare_clone(bare):
    done = run(bare, "-m", "spacy", "info")
    assert done.returncode == 0, done.stderr


def test_a_command_ends_with_one_line(bare):
    """A component can be added, as spaCy does when it reads a config."""
    code = (
        "import spacy; nlp = spacy.blank('en'); pipe = nlp.add_pipe('bcrf_ner'); print('added'); "
        "pipe.add_label('PER'); nlp.initialize()"
    )
    done = run(bare, "-c", code)
    assert done.stdout == "added\n"
    assert "Run `pip install .` in it" in done.stderr.splitlines()[-1]
