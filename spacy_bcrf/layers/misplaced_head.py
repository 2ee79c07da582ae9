"""The names of heads among the architectures, where a config has them by mistake."""

from typing import Any


def misplaced_head(**options: Any) -> None:
    """Raise ValueError that says where a head belongs."""
    raise ValueError(
        "a head is a layer, not an architecture. Set @architectures = "
        '"spacy-bcrf.SequenceLabeler.v1" in the block [components.NAME.model], and @layers = '
        '"spacy-bcrf.CRF.v1", or the name of another head, in the block '
        "[components.NAME.model.head]"
    )
