"""The pages that benchmarks.pages generates from the figures of the benchmarks."""

import json
import re
import sys

import pytest

from benchmarks import pages
from lab import ROOT, machine, tables


def test_the_pages_are_generated_from_the_results():
    for template in pages.TEMPLATES.glob("*.md"):
        page = (ROOT / "docs" / template.name).read_text("utf8")
        assert pages.render(template.name) == page, "run python -m benchmarks.pages"


NAMES = sorted(path.stem for path in tables.RESULTS.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_every_result_names_its_commit_and_a_version_from_0_2_on(name):
    found = pages.read_results(name)
    assert found["name"] == name
    assert re.fullmatch(r"[0-9a-f]{7}", found["commit"])
    version = re.search(r"spacy-bcrf (\d+)\.(\d+)", found["machine"])
    assert version and (int(version[1]), int(version[2])) >= (0, 2)


def test_a_benchmark_writes_machine_commit_and_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    monkeypatch.setattr(tables, "_tables", [])
    rows = [{"head": "CRF", "us": "0.1"}, {"head": "a|b", "us": "2"}]
    tables.print_table("Heads", rows, "a note")
    assert list(tmp_path.iterdir()) == []
    script = str(ROOT / "benchmarks/heads.py")
    monkeypatch.setattr(sys, "argv", [script, "--corpora", "/home/me/corpora", "--tags", "9"])
    tables.print_table("Heads", rows, f"{machine.describe_machine([])}\nus a token")
    tables.print_table("More", rows[:1], "")
    found = pages.read_results("heads")
    assert found["command"] == "python -m benchmarks.heads --corpora DIR --tags 9"
    assert found["commit"] and "cores" in found["machine"]
    assert [table["notes"] for table in found["tables"]] == ["us a token", ""]
    assert "| a\\|b | 2 |" in pages.table("heads")
    assert "More" in pages.table("heads", "More")
    (tmp_path / "heads.json").write_text(json.dumps({**found, "tables": [{}]}))
    with pytest.raises(ValueError, match=r"heads\.json: expected the fields command, commit"):
        pages.read_results("heads")


@pytest.mark.parametrize(
    "cell, value", [("**27.29 ± 0.78**", 27.29), ("1,562,000", 1562000), ("", None), ("x", None)]
)
def test_the_first_number_of_a_cell(cell, value):
    assert pages.number(cell) == value


def test_a_table_can_have_the_rows_of_one_value(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    part = {"title": "T", "notes": "us", "columns": ["head", "batch", "us"]}
    part["rows"] = [["CRF", "1", "9"], ["", "8", "7"], ["BCRF", "1", "6"], ["", "8", "5"]]
    fields = dict.fromkeys(("name", "command", "commit", "date", "machine"), "x")
    (tmp_path / "t.json").write_text(json.dumps({**fields, "tables": [part]}))
    found = pages.table("t", batch="8")
    assert found.endswith("| head | us |\n| --- | --- |\n| CRF | 7 |\n| BCRF | 5 |")
    assert "us; batch 8; rows: `benchmarks/results/t.json`" in found
    assert pages.table("t").endswith("| BCRF | 1 | 6 |\n|  | 8 | 5 |")
    with pytest.raises(ValueError, match="no row has"):
        pages.table("t", batch="9")
