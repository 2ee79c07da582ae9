"""Templates over documents: their attributes, and the named sets."""

import pytest

from bcrf.linear.templates import TemplateError
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.template_sets import SETS, get_templates
from spacy_bcrf.sparse.word_tables import WordTables


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("nothing[0]", 1, "unknown attribute nothing"),
        ("w[0]|sufix(3)[1]", 9, "unknown attribute sufix"),
        ("digits(3)[0]", 1, "digits takes no argument"),
        ("lower(3)[0]", 1, "lower takes no argument"),
        ("substring[0]", 1, "unknown attribute substring"),
        ("LOWER[0]", 1, "unknown attribute LOWER"),
    ],
)
def test_unknown_attributes_are_named_with_the_position(text, position, what):
    with pytest.raises(TemplateError, match=what) as error:
        Features(["w[0]" if "w[0]" not in text else "w[1]", text])
    assert f"position {position}:" in str(error.value)


@pytest.mark.parametrize("name", SETS)
def test_template_sets_compile(name):
    tables = WordTables({"brown": {"a": "01"}})
    assert Features(get_templates(name), tables=tables).templates


def test_an_unknown_set_is_named():
    with pytest.raises(ValueError, match=r"'chunks'; expected one of .*chunking"):
        get_templates("chunks")
