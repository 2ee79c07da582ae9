"""Loading of a trained pipeline and one of its components, and storing what a command fits."""

from pathlib import Path
from typing import Any

import srsly
import typer
from spacy.cli._util import setup_gpu
from spacy.language import Language
from spacy.tokens import Doc

from bcrf.io.atomic import check_new_folder, replacing, replacing_folder
from bcrf.io.text import CorpusError
from spacy_bcrf.analysis.loading import find_labeler, load_pipeline
from spacy_bcrf.corpora.doc_files import read_docs
from spacy_bcrf.corpora.time_limit import watch_tokenizer
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

from .paths import check_corpus


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


def read_gold(nlp: Language, dev: Path) -> list[Doc]:
    """Read gold documents. CorpusError names the file, also if it has none."""
    docs = [doc for doc in read_docs(dev, nlp.vocab) if len(doc)]
    if not docs:
        raise CorpusError(f"{dev}: has no documents")
    return docs


def store(nlp: Language, output: Path | None, model: str = "", name: str = "") -> Path:
    """Store a pipeline in `output`, or a component's settings in `model`. Return the folder."""
    if output is not None:
        with replacing_folder(output) as part:
            nlp.to_disk(part)
    else:
        # The component has all settings that code changes. In a config, spaCy would double each "$"
        # of a label at every save.
        pipe: Any = nlp.get_pipe(name)
        with replacing(Path(model) / name / "cfg") as part:
            srsly.write_json(part, pipe.cfg)
    target = Path(model) if output is None else output
    typer.echo(f"stored in {target}")
    return target
