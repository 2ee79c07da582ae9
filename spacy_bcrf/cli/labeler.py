"""Loading of a trained pipeline and one of its components, and storing what a command fits."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus, Example

from spacy_bcrf.io.atomic import check_new_folder, replacing, replacing_folder
from spacy_bcrf.pipeline.loading import load_pipeline
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

from .paths import check_corpus


def load_labeler(
    model: str, name: str | None, inplace: bool = False
) -> tuple[Language, str, SequenceLabeler]:
    """Load a pipeline. Return it with the name of a component of spacy-bcrf, and the component.

    name: None for the only component. ValueError lists the components if none fits, and refuses a
    package if a command is to change it in place.
    """
    nlp = load_pipeline(model)
    ours = {key: pipe for key, pipe in nlp.components if isinstance(pipe, SequenceLabeler)}
    if name is None and len(ours) == 1:
        name = next(iter(ours))
    if name is None or name not in ours:
        problem = f"no component {name!r} of spacy-bcrf" if name else "--pipe is missing"
        if not ours:
            found = ", ".join(nlp.component_names) or "none"
            raise ValueError(
                f"{model}: no component of spacy-bcrf among {found}; expected a pipeline with "
                "bcrf_tagger, bcrf_ner, bcrf_chunker or bcrf_segmenter"
            )
        raise ValueError(f"{model}: {problem}; expected --pipe to be one of {', '.join(ours)}")
    if name in nlp.disabled:
        raise ValueError(
            f"{model}: {name} is disabled; remove it from disabled in [nlp] of config.cfg"
        )
    if inplace and not Path(model).is_dir():
        raise ValueError(f"{model} is a package; expected --output, a folder to save it to")
    return nlp, name, ours[name]


def annotate_before(nlp: Language, name: str, docs: Iterable[Doc]) -> Iterator[Doc]:
    """Yield the documents, annotated by all components before `name`."""
    pipes = [pipe for pipe, _ in nlp.pipeline]
    with nlp.select_pipes(enable=pipes[: pipes.index(name)]):
        yield from nlp.pipe(docs)


def check_destination(model: str, dev: Path, output: Path | None, inplace: bool) -> None:
    """Raise ValueError if a fitted setting cannot be stored, or if dev has other files than .spacy.

    output: a new folder for the pipeline. inplace: change the config of the folder `model` instead.
    """
    if (output is None) == (not inplace):
        raise ValueError(
            "expected either --output, a folder to save the pipeline to, or --inplace, to "
            f"change {model}"
        )
    check_corpus(dev)
    if output is not None:
        check_new_folder(output)


def read_examples(nlp: Language, name: str, dev: Path) -> list[Example]:
    """Read gold documents. All components before `name` annotate the predicted ones."""
    try:
        references = list(Corpus(dev)(nlp))
    except ValueError as error:
        raise ValueError(f"{dev}: {error}") from None
    if not references:
        raise ValueError(f"{dev}: has no documents")
    docs = annotate_before(nlp, name, [example.predicted for example in references])
    return [Example(doc, eg.reference) for doc, eg in zip(docs, references, strict=True)]


def store_setting(
    nlp: Language, name: str, setting: str, value: Any, model: str, output: Path | None
) -> Path:
    """Store a component's setting in the config, in place without `output`. RETURNS the folder."""
    nlp.get_pipe_config(name)[setting] = value
    if output is not None:
        with replacing_folder(output) as part:
            nlp.to_disk(part)
        return output
    with replacing(Path(model) / "config.cfg") as part:
        nlp.config.to_disk(part)
    return Path(model)
