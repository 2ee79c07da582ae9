"""Tests of the template language."""

import pytest

from bcrf.linear.templates import TemplateError, parse_template, parse_templates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("w[0]", ["orth[0]"]),
        (" w[-1] | p[+1] ", ["orth[-1]|tag[1]"]),
        ("lower[-1..1]", ["lower[-1]", "lower[0]", "lower[1]"]),
        ("w[-1..0]|w[0..1]", ["orth[-1]|orth[0]", "orth[0]|orth[1]"]),
        ("w[-1..0]|p[0]", ["orth[-1]|tag[0]", "orth[0]|tag[0]"]),
        ("suffix(3)[0]", ["suffix(3)[0]"]),
        ("prefix(1..4)[0]|_.kind[1]", ["prefix(1..4)[0]|_.kind[1]"]),
        ("prefix(2..2)[0]", ["prefix(2)[0]"]),
        ("prefix(1,4)[0]", ["prefix(1,4)[0]"]),
        ("cluster.brown(4,6,10)[-1..0]", [f"cluster.brown(4,6,10)[{i}]" for i in (-1, 0)]),
    ],
)
def test_parses(text, expected):
    templates = parse_template(text)
    assert [str(template) for template in templates] == expected
    # The text of a template parses to the same template.
    assert [t for text in expected for t in parse_template(text)] == templates


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 1),
        ("w", 1),
        ("w[0]|", 6),
        ("w[0]w[1]", 5),
        ("w[0]|[1]", 6),
        ("w[x]", 1),
        ("w[2..1]", 3),
        ("suffix(0)[0]", 8),
        ("prefix(4..1)[0]", 8),
        ("prefix(4,4)[0]", 8),
        ("prefix(0,4)[0]", 8),
        ("prefix(1..2,4)[0]", 1),
        ("w[0..1]|w[0..2]", 1),
    ],
)
def test_malformed_templates_are_named_with_the_position(text, position):
    with pytest.raises(TemplateError) as error:
        parse_template(text)
    assert repr(text) in str(error.value)
    assert f"position {position}:" in str(error.value)


def test_a_duplicate_template_is_named():
    with pytest.raises(TemplateError, match=r"'w\[0\.\.1\]': duplicate of orth\[0\]"):
        parse_templates(["w[0]", "w[0..1]"])
    with pytest.raises(TemplateError, match=r"'prefix\(1,2\)\[0\]': duplicate of prefix\(1\.\.2\)"):
        parse_templates(["prefix(1..2)[0]", "prefix(1,2)[0]"])
