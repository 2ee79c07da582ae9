"""What the commands on a trained pipeline share: the component they are about."""

from collections.abc import Iterable, Iterator

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler


def load_labeler(model: str, name: str | None) -> tuple[Language, str, SequenceLabeler]:
    """A pipeline, and its component of that name; by default the only one of ours that it has.

    ValueError saying what there is if there is no such pipeline or component.
    """
    try:
        nlp = spacy.load(model)
    except OSError as error:
        raise ValueError(f"{model}: no pipeline that can be loaded: {error}") from None
    ours = {key: pipe for key, pipe in nlp.components if isinstance(pipe, SequenceLabeler)}
    if name is None and len(ours) == 1:
        name = next(iter(ours))
    if name is None or name not in ours:
        there = f"{', '.join(ours)}: choose one by --pipe" if ours else "none of spacy-bcrf"
        asked = f"no component {name!r} of spacy-bcrf" if name else "not one component"
        raise ValueError(f"{model}: {asked}; it has {there}")
    if name in nlp.disabled:
        raise ValueError(f"{model}: {name} is disabled there: take it out of disabled, in [nlp]")
    return nlp, name, ours[name]


def annotate_before(nlp: Language, name: str, docs: Iterable[Doc]) -> Iterator[Doc]:
    """The documents as they reach the component `name`."""
    pipes = [pipe for pipe, _ in nlp.pipeline]
    with nlp.select_pipes(enable=pipes[: pipes.index(name)]):
        yield from nlp.pipe(docs)
