"""Bridges without the tool that they need."""

import sys

import pytest

from bcrf.io.extras import find_extra, require


def test_presidio_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    monkeypatch.delitem(sys.modules, "spacy_bcrf.privacy.presidio", raising=False)
    with pytest.raises(ImportError, match="the extra presidio of spacy-bcrf"):
        import spacy_bcrf.privacy.presidio  # noqa: F401


def test_an_extra_belongs_to_the_distribution_of_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"'torch>=2.*' \(the extra torch of spacy-bcrf\)"):
        require("torch", extra="torch")
    # A distribution of the engine alone, which comes first on the path.
    info = tmp_path / "bcrf-9.dist-info"
    info.mkdir()
    (info / "top_level.txt").write_text("bcrf\n")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: bcrf\nVersion: 9\nProvides-Extra: torch\n"
        "Requires-Dist: torch>=9; extra == 'torch'\nRequires-Dist: numpy\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"pip install 'torch>=9' \(the extra torch of bcrf\)"):
        require("torch", extra="torch")
    assert find_extra("presidio")[0] == "spacy-bcrf"
    assert find_extra("none") == ("bcrf", [])
