"""Bridges without the tool that they need."""

import sys

import pytest


def test_presidio_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    monkeypatch.delitem(sys.modules, "spacy_bcrf.integrations.presidio", raising=False)
    with pytest.raises(ImportError, match="the extra presidio of spacy-bcrf"):
        import spacy_bcrf.integrations.presidio  # noqa: F401
