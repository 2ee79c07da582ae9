"""The foreign taggers of a model, and what a saved component remembers of them."""

from pathlib import Path
from typing import Any

from thinc.api import Model

from spacy_bcrf.scores.foreign_tagger import ForeignTagger

from .linear_chain import sparse_chains


def find_taggers(model: Model) -> list[ForeignTagger]:
    """Return the foreign taggers of a labeling model, of its chains and of its heads."""
    of_chains = [tagger for chain in sparse_chains(model) for tagger in chain.taggers]
    of_heads = [x for node in model.walk() for x in node.attrs.get("taggers", ())]
    return [*of_chains, *of_heads]


def restore_taggers(model: Model, known: Any, folder: Path | None) -> None:
    """Tell the taggers of a loaded model the labels that it learned with, and where it lies.

    known: saved labels by name of the tagger, see `ForeignTagger.expected`. folder: of the
    pipeline, None for bytes. ValueError if `known` is damaged.
    """
    for tagger in find_taggers(model):
        labels = known.get(tagger.name) if isinstance(known, dict) else known
        if labels is not None and not isinstance(labels, list):
            raise ValueError(f"cfg is damaged: scores of {tagger.name} must be a list of labels")
        tagger.expected = labels
        if folder is not None:
            tagger.seek_in(folder)
