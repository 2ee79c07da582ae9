"""Loading of a trained pipeline and of one of its components."""

from collections.abc import Iterable, Iterator

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler


def load_labeler(model: str, name: str | None) -> tuple[Language, str, SequenceLabeler]:
    """Load a pipeline. Return it with the name of a component of spacy-bcrf, and the component.

    name: None for the only component. ValueError lists the components if none fits.
    """
    try:
        nlp = spacy.load(model)
    except OSError as error:
        raise ValueError(f"{model}: the pipeline cannot be loaded: {error}") from None
    ours = {key: pipe for key, pipe in nlp.components if isinstance(pipe, SequenceLabeler)}
    if name is None and len(ours) == 1:
        name = next(iter(ours))
    if name is None or name not in ours:
        problem = f"no component {name!r} of spacy-bcrf" if name else "--pipe is missing"
        expected = f"expected --pipe to be one of {', '.join(ours)}" if ours else "it has none"
        raise ValueError(f"{model}: {problem}; {expected}")
    if name in nlp.disabled:
        raise ValueError(
            f"{model}: {name} is disabled; remove it from disabled in [nlp] of config.cfg"
        )
    return nlp, name, ours[name]


def annotate_before(nlp: Language, name: str, docs: Iterable[Doc]) -> Iterator[Doc]:
    """Yield the documents, annotated by all components before `name`."""
    pipes = [pipe for pipe, _ in nlp.pipeline]
    with nlp.select_pipes(enable=pipes[: pipes.index(name)]):
        yield from nlp.pipe(docs)
