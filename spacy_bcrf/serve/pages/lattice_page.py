"""HTML pages of a document: a heat map of marginals, and the decisive features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from bcrf.chain import CRF
from spacy_bcrf.bulk.predictor import Predictor
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.layers.potential_sum import sparse_weight
from spacy_bcrf.loading import annotate_before, find_labeler
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.sparse.named_weights import Choice, explain_choice, name_known

from . import render, show_probability

N_ALTERNATIVES = 5
MAX_WORDS = 300
"""Largest number of words of a typed text whose marginals are shown."""


def lattice_page(pipe: SequenceLabeler, doc: Doc, n_reasons: int = 8) -> str:
    """Return the page of a document that all earlier components have annotated, see `lattice`."""
    return render("lattice.html", title=pipe.name, text=doc.text, **lattice(pipe, doc, n_reasons))


def typed_text_page(nlp: Language, names: Sequence[str], text: str) -> str:
    """Return the page of `serve` for a text, "" for the form alone.

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


def lattice(pipe: SequenceLabeler, doc: Doc, n_reasons: int = 8) -> dict[str, Any]:
    """Return words, marginals of each tag, and n decisive features a token of a sparse chain."""
    ops = pipe.model.ops
    potentials = pipe.find_potentials([doc])
    marginals = ops.to_numpy(CRF().marginals(pipe.posterior(potentials)).unary).clip(0, 1)
    best = pipe.decode(potentials)
    sparse, weight = sparse_chain(pipe.model), sparse_weight(pipe.model)
    n_chains, n_tags = pipe.codec.n_chains, pipe.codec.n_tags
    known = name_known(sparse, doc) if sparse is not None and n_tags > 1 else []
    reasons, lattice = [], []
    for chain in range(n_chains):
        first, rows = chain * n_tags, slice(chain * len(doc), (chain + 1) * len(doc))
        tags, p, labeling = pipe.tags[first : first + n_tags], marginals[rows], best[rows]
        lattice += [
            (tag, list(zip(p[:, t].tolist(), (labeling == t).tolist(), strict=True)))
            for t, tag in enumerate(tags)
        ]
        if sparse is None or n_tags < 2:
            continue
        of_chain = potentials.take([chain])
        for i, token in enumerate(doc):
            # Most of several chains are O with certainty.
            if n_chains == 1 or labeling[i]:
                choice = explain_choice(
                    sparse, doc, of_chain, tags, labeling, p, i, weight, known, first
                )
                reasons.append(_row(token.text, tags, choice, p[i], n_reasons))
    return {"words": [token.text for token in doc], "lattice": lattice, "reasons": reasons}


def _row(word: str, tags: list[str], choice: Choice, p: np.ndarray, n: int) -> dict[str, Any]:
    tag, rival = (f"{tags[t]} {show_probability(p[t])}" for t in (choice.tag, choice.rival))
    features = [
        (name, "for" if value > 0 else "against", f"{value:+.2f}")
        for name, value in choice.reasons[:n]
        if value and np.isfinite(value)
    ]
    # The constraints forbid the rival between the neighbours' tags.
    forbidden = [name for name, value in choice.reasons if np.isinf(value)]
    return {"word": word, "tag": tag, "rival": rival, "features": features, "forbidden": forbidden}
