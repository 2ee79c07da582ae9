"""What a component asks of its Thinc model."""

from __future__ import annotations

from thinc.api import Model

from spacy_bcrf.sparse.model import SparseChain


def sparse_chain(model: Model) -> SparseChain | None:
    """Return the linear chain over boolean features, if a labeling model is one."""
    return model.get_ref("output_layer").attrs.get("chain")
