"""Loading of a trained pipeline and one of its components, and storing what a command fits."""

from pathlib import Path
from typing import Any

import typer
from spacy.cli._util import setup_gpu
from spacy.language import Language

from bcrf.io.atomic import check_new_folder
from spacy_bcrf.corpora.time_limit import watch_tokenizer
from spacy_bcrf.loading import find_labeler, load_pipeline, save_pipeline, save_settings
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.readers.doc_files import check_corpus


def load_labeler(
    model: str, name: str | None, gpu_id: int = -1, inplace: bool = False, check: Any = None
) -> tuple[Language, str, SequenceLabeler]:
    """Load a pipeline. Return it, name and component of spacy-bcrf. check: as of `find_labeler`."""
    setup_gpu(gpu_id, silent=True)
    nlp = load_pipeline(model)
    watch_tokenizer(nlp)
    name, labeler = find_labeler(nlp, name, model, check)
    if inplace and not Path(model).is_dir():
        raise ValueError(f"{model} is a package; expected --output, a folder to save it to")
    return nlp, name, labeler


def check_destination(model: str, dev: Path, output: Path | None, inplace: bool) -> None:
    """Raise ValueError without one place to store a setting, or if dev has other files."""
    if (output is None) == (not inplace):
        raise ValueError(
            "expected either --output, a folder to save the pipeline to, or --inplace, to "
            f"change {model}"
        )
    check_corpus(dev)
    if output is not None:
        check_new_folder(output)


def store(nlp: Language, output: Path | None, model: str = "", name: str = "") -> Path:
    """Store a pipeline in `output`, or a component's settings in `model`. Return the folder."""
    if output is not None:
        save_pipeline(nlp, output)
    else:
        save_settings(nlp, name, Path(model))
    target = Path(model) if output is None else output
    typer.echo(f"stored in {target}")
    return target
