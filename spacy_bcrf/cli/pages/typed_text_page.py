"""HTML page of `serve`: a form for a text, and all that the components know of it."""

from collections.abc import Sequence

from spacy.language import Language

from spacy_bcrf.analysis.loading import annotate_before, find_labeler
from spacy_bcrf.bulk.predictor import Predictor

from . import render
from .lattice_page import lattice

N_ALTERNATIVES = 5
MAX_WORDS = 300
"""Largest number of words of a text whose marginals are shown."""


def typed_text_page(nlp: Language, names: Sequence[str], text: str) -> str:
    """Return the page for a text, "" for the form alone.

    For each component: its spans with probabilities, the most probable labelings, the marginals.
    """
    parts = []
    for name in names if text.strip() else ():
        labeler = find_labeler(nlp, name)[1]
        doc = next(annotate_before(nlp, name, [nlp.make_doc(text)]))
        tables = lattice(labeler, doc[:MAX_WORDS].as_doc())
        n = 0 if labeler.codec.unit == "word" else N_ALTERNATIVES
        (found,) = Predictor(nlp, [name], n, False).predict([nlp.make_doc(text)])
        parts.append((name, found.spans, found.alternatives, tables))
    return render("typed_text.html", title=", ".join(names), text=text, parts=parts)
