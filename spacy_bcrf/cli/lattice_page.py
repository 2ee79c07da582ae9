"""HTML page of one document: a heat map of marginals, and the decisive features."""

from html import escape

import numpy as np
from spacy.tokens import Doc

from spacy_bcrf.chain import CRF
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.layers.potential_sum import sparse_weight
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.sparse.explain import Choice, explain_choice, name_known

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; color: #222; overflow-wrap: anywhere }}
table {{ border-collapse: collapse; margin-bottom: 2em }}
.lattice {{ overflow-x: auto }}
.lattice th {{ font-weight: normal; padding: 2px 6px; white-space: nowrap }}
.lattice tr th:first-child {{ text-align: right; position: sticky; left: 0; background: white }}
.lattice td {{ border: 1px solid #ddd; text-align: center; font-size: 11px; min-width: 3em }}
.lattice td.best {{ outline: 2px solid #c40; outline-offset: -2px }}
.reasons td {{ border-top: 1px solid #ddd; padding: 4px 10px 4px 0; vertical-align: top }}
.for {{ color: #06603a }}
.against {{ color: #a02020 }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{text}</p>
<h2>Marginals</h2>
<p>The probability of each tag in a CRF of the model's potentials at the component's temperature.
Darker is more probable. A frame marks the predicted tag.</p>
<div class="lattice"><table>
{lattice}
</table></div>
{reasons}
</body>
</html>
"""
_REASONS = """<h2>Decisive features</h2>
<p>Score of the predicted tag minus the score of its closest rival, by feature. All other tokens
keep their predicted tags.</p>
<table class="reasons">
<tr><th>token</th><th>tag</th><th>rival</th><th>strongest features</th></tr>
{rows}
</table>"""


def lattice_page(pipe: SequenceLabeler, doc: Doc, n_reasons: int = 8) -> str:
    """Return the page of a document that all earlier components have annotated.

    n_reasons: number of features shown for each token. Only a sparse linear chain with at least two
    tags has them: the features of a network have no names.
    """
    ops = pipe.model.ops
    potentials = pipe.find_potentials([doc])
    marginals = ops.to_numpy(CRF().marginals(pipe.posterior(potentials)).unary).clip(0, 1)
    best = pipe.decode(potentials)
    tags, sparse, weight = pipe.tags, sparse_chain(pipe.model), sparse_weight(pipe.model)
    reasons = ""
    if sparse is not None and len(tags) > 1:
        known = name_known(sparse, doc)
        choices = [
            explain_choice(sparse, doc, potentials, tags, best, marginals, i, weight, known)
            for i in range(len(doc))
        ]
        rows = [
            _row(doc[i].text, tags, choice, marginals[i], n_reasons)
            for i, choice in enumerate(choices)
        ]
        reasons = _REASONS.format(rows="\n".join(rows))
    words = "".join(f"<th>{escape(token.text)}</th>" for token in doc)
    lattice = [f"<tr><th></th>{words}</tr>"]
    for t, tag in enumerate(tags):
        cells = "".join(_cell(p, b == t) for p, b in zip(marginals[:, t], best, strict=True))
        lattice.append(f"<tr><th>{escape(tag)}</th>{cells}</tr>")
    return _PAGE.format(
        title=escape(pipe.name), text=escape(doc.text), lattice="\n".join(lattice), reasons=reasons
    )


def _cell(p: float, is_best: bool) -> str:
    number = f"{p:.2f}" if p >= 0.005 else ""
    color = "white" if p > 0.6 else "#222"
    best = ' class="best"' if is_best else ""
    return (
        f'<td{best} title="{p:.6f}" style="background: rgba(20, 60, 140, {p:.3f}); '
        f'color: {color}">{number}</td>'
    )


def _row(word: str, tags: list[str], choice: Choice, marginals: np.ndarray, n: int) -> str:
    reasons = ", ".join(
        f'<span class="{"for" if value > 0 else "against"}">{escape(name)} {_signed(value)}</span>'
        for name, value in choice.reasons[:n]
        if value
    )
    tag, rival = (f"{escape(tags[t])} {marginals[t]:.3f}" for t in (choice.tag, choice.rival))
    cells = (escape(word), tag, rival, reasons)
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _signed(value: float) -> str:
    return f"{value:+.2f}" if np.isfinite(value) else "(forbidden)"
