"""Numbers of sentences, tokens and entities in published corpora, against their documentation.

The corpora are in the folder BCRF_CORPORA. Without this variable, the tests are skipped. One part
of each corpus is enough: the others have the same form and readers.
"""

import os
from pathlib import Path

import pytest

from spacy_bcrf.corpora.convert import convert

FOLDER = os.environ.get("BCRF_CORPORA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="BCRF_CORPORA names no folder of published corpora"
)

UD = [
    ("ud-english-ewt/en_ewt-ud-dev.conllu.xz", 2001, 25149),
    ("ud-dutch-lassysmall/nl_lassysmall-ud-test.conllu.xz", 1761, 28995),
    ("ud-dutch-lassysmall/v1.4/nl_lassysmall-ud-dev.conllu", 350, 4616),
    ("ud-french-gsd/fr_gsd-ud-test.conllu", 416, 10018),
    ("ud-french-sequoia/fr_sequoia-ud-dev.conllu", 412, 9999),
    ("ud-german-gsd/de_gsd-ud-dev.conllu", 799, 12480),
    ("ud-german-pud/de_pud-ud-test.conllu.xz", 1000, 21332),
    ("ud-chinese-gsd/zh_gsd-ud-dev.conllu.xz", 500, 12663),
    ("ud-chinese-gsd/v1.4/zh-ud-dev.conllu", 500, 12663),
    ("ud-japanese-gsd/r2.9/ja_gsd-ud-dev.conllu.xz", 507, 12287),
    ("ud-japanese-gsd/ja_gsd-ud-dev.conllu.xz", 507, 12287),
]
FIRST_AND_LAST = {"word_column": 1, "ent_columns": [-1]}
SECOND_AND_THIRD = {"word_column": 2, "ent_columns": [3]}
# Sentences, tokens and B- tags; -DOCSTART- lines are neither tokens nor sentences.
COLUMNS = [
    ("conll2000/test.txt", FIRST_AND_LAST, 2012, 47377, 23852),
    ("jnlpba/devel.tsv", FIRST_AND_LAST, 1739, 47461, 4551),
    ("wnut17/emerging.dev.conll", FIRST_AND_LAST, 1009, 15733, 836),
    ("wnut17/emerging.test.annotated", FIRST_AND_LAST, 1287, 23394, 1079),
    ("uner-english-ewt/en_ewt-ud-dev.iob2", SECOND_AND_THIRD, 2001, 25149, 966),
]


@pytest.mark.parametrize("file, sentences, tokens", UD)
def test_universal_dependencies(tmp_path, file, sentences, tokens):
    counts = convert([Path(FOLDER, file)], tmp_path / "out.spacy")
    assert (counts.used, counts.tokens) == (sentences, tokens)
    assert counts.tags == counts.pos == tokens


def test_entities_of_japanese_gsd(tmp_path):
    """MISC has no tag for words outside of entities."""
    path = Path(FOLDER, "ud-japanese-gsd/r2.9/ja_gsd-ud-train.conllu.xz")
    counts = convert([path], tmp_path / "out.spacy", ent_key="NE", ent_complete=True)
    assert (counts.entities, counts.repaired, counts.unknown_spaces) == (10923, 0, 0)


@pytest.mark.parametrize("file, options, sentences, tokens, entities", COLUMNS)
def test_columns(tmp_path, file, options, sentences, tokens, entities):
    counts = convert([Path(FOLDER, file)], tmp_path / "out.spacy", **options)
    assert (counts.used, counts.tokens, counts.entities) == (sentences, tokens, entities)
    assert (counts.scheme, counts.repaired, counts.missing) == ("bio", 0, 0)
