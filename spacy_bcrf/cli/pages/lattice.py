"""HTML page of one document: a heat map of marginals, and the decisive features."""

from typing import Any

import numpy as np
from spacy.tokens import Doc

from spacy_bcrf.chain import CRF
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.layers.potential_sum import sparse_weight
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.sparse.explain import Choice, explain_choice, name_known

from . import render


def lattice_page(pipe: SequenceLabeler, doc: Doc, n_reasons: int = 8) -> str:
    """Return the page of a document that all earlier components have annotated, see `lattice`."""
    return render("lattice.html", title=pipe.name, text=doc.text, **lattice(pipe, doc, n_reasons))


def lattice(pipe: SequenceLabeler, doc: Doc, n_reasons: int = 8) -> dict[str, Any]:
    """Return the words of a document, the marginals of each tag, and the decisive features.

    n_reasons: number of features shown for each token. Only a sparse linear chain with at least two
    tags has them: the features of a network have no names.
    """
    ops = pipe.model.ops
    potentials = pipe.find_potentials([doc])
    marginals = ops.to_numpy(CRF().marginals(pipe.posterior(potentials)).unary).clip(0, 1)
    best = pipe.decode(potentials)
    tags, sparse, weight = pipe.tags, sparse_chain(pipe.model), sparse_weight(pipe.model)
    reasons = []
    if sparse is not None and len(tags) > 1:
        known = name_known(sparse, doc)
        choices = (
            explain_choice(sparse, doc, potentials, tags, best, marginals, i, weight, known)
            for i in range(len(doc))
        )
        reasons = [
            _row(doc[i].text, tags, choice, marginals[i], n_reasons)
            for i, choice in enumerate(choices)
        ]
    rows = [
        (tag, list(zip(marginals[:, t].tolist(), (best == t).tolist(), strict=True)))
        for t, tag in enumerate(tags)
    ]
    return {"words": [token.text for token in doc], "lattice": rows, "reasons": reasons}


def _row(word: str, tags: list[str], choice: Choice, p: np.ndarray, n: int) -> dict[str, Any]:
    tag, rival = (f"{tags[t]} {p[t]:.3f}" for t in (choice.tag, choice.rival))
    features = [
        (
            name,
            "for" if value > 0 else "against",
            f"{value:+.2f}" if np.isfinite(value) else "(forbidden)",
        )
        for name, value in choice.reasons[:n]
        if value
    ]
    return {"word": word, "tag": tag, "rival": rival, "features": features}
