"""Kinds of documents: are texts like those of a promise that a pipeline ships?

`nlp.meta["watches"]` has a watch of `monitor` for each component and promise of a kind.
"""

from collections.abc import Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from .monitor import Watch, monitor


def watch_kind(nlp: Language, name: str, control: Any, docs: Sequence[Doc]) -> dict[str, Any]:
    """Return the JSON values of a watch on documents like those of a promise.

    control: the promise, as its file has it.
    """
    labeler: Any = nlp.get_pipe(name)
    own, labeler.control = labeler.control, control
    try:
        return monitor(nlp, (), map(nlp.make_doc, (doc.text for doc in docs)), name).watch.to_json()
    finally:
        labeler.control = own


def note_kinds(nlp: Language, name: str, promise: str | None, texts: Sequence[str]) -> list[str]:
    """Return a note if `monitor` finds that texts are of no kind that a promise is about.

    promise: the name of the only promise that counts, None for each one that has a watch.
    """
    labeler: Any = nlp.get_pipe(name)
    watches: dict[str, Any] = nlp.meta.get("watches", {}).get(name, {})
    kinds = [promise] if promise in watches else [*watches]
    own = labeler.control
    try:
        for kind in kinds:
            labeler.control = nlp.meta["promises"][name][kind]
            docs = map(nlp.make_doc, texts)
            if not monitor(nlp, docs, Watch.from_json(watches[kind]), name).alarm:
                return []
    except ValueError:  # another temperature or threshold: the shipped promises hold no longer
        return []
    finally:
        labeler.control = own
    unlike = f"the texts are unlike the documents of the promise {' or '.join(kinds)}"
    return [f"{unlike}: it may not hold. Measure with --report"] if kinds else []
