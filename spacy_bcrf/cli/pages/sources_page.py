"""HTML page of the sources of `aggregate`."""

from typing import Any

from spacy_bcrf.analysis.aggregate import Aggregated

from . import render


def sources_page(name: str, found: Aggregated) -> str:
    """Return the page of figures, agreement, near-copies, conflicts. name: of the texts."""
    names = list(found.figures)
    agreement: list[tuple[str, Any]] = list(zip(names, found.agreement.tolist(), strict=True))
    return render(
        "sources.html",
        title=f"Sources of {name}",
        found=found,
        names=names,
        agreement=agreement,
        has_gold=any(one.precision.true is not None for f in found.figures.values() for one in f),
    )
