"""`spacy-bcrf.SequenceLabeler.v1`: model of an encoder and a head."""

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Floats2d

from bcrf.chain import Potentials

from .compiled import embedded_columns
from .head import resize_head
from .protocol import Hooks, attach


def LabelingNetwork(
    tok2vec: Model[list[Doc], list[Floats2d]], head: Model[list[Floats2d], Potentials]
) -> Model[list[Doc], Potentials]:
    """Model from documents to potentials: an encoder to token vectors, and a head with nO tags."""
    model: Model[list[Doc], Potentials] = chain(tok2vec, head)
    model.set_ref("tok2vec", tok2vec)
    return attach(model, head, Hooks(_is_ready, resize_output, embedded_columns))


def _is_ready(model: Model[list[Doc], Potentials]) -> bool:
    return model.get_ref("output_layer").has_param("W") is True


def resize_output(
    model: Model[list[Doc], Potentials], nO: int, tags_per_label: int = 1, n_chains: int = 1
) -> Model[list[Doc], Potentials]:
    old = model.get_ref("output_layer")
    new = resize_head(old, nO, tags_per_label, n_chains)
    if new is not old:
        model.replace_node(old, new)
    model.set_dim("nO", nO, force=True)
    return model
