"""`python -m spacy bcrf audit`"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from spacy_bcrf import __version__
from spacy_bcrf.io.atomic import write_text
from spacy_bcrf.io.shards import find_files, read_docs

from .errors import RESUMES, exit_on
from .options import PipeName
from .paths import check_corpus, check_output_file

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from spacy_bcrf.pipeline.label_errors import Suspect
    from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler


class Trainer(NamedTuple):
    """How to train a pipeline for a fold.

    name: of the component. train: returns the pipeline that it trained on documents. settings:
    identifies the training in the files of the folds.
    """

    name: str
    train: Callable[[Sequence[Doc]], Language]
    settings: str


def audit_cli(
    corpus: Annotated[Path, Arg(help="Annotated documents, .spacy", metavar="CORPUS")],
    output: Annotated[Path, Opt("--output", "-o", help="JSON lines to write")],
    source: Annotated[
        str | None,
        Arg(
            help="Training config (.cfg) to train for each fold, or a pipeline that was not "
            "trained on the corpus (default: train a sparse linear chain for entities)",
            metavar="CONFIG|MODEL",
        ),
    ] = None,
    page: Annotated[Path | None, Opt(help="HTML page to write")] = None,
    folds: Annotated[int, Opt(help="Number of parts of the corpus", min=2)] = 5,
    work: Annotated[
        Path | None,
        Opt(
            help="Folder that keeps the results of the folds (default: beside the output until the "
            "end)"
        ),
    ] = None,
    lang: Annotated[str, Opt("--lang", "-l", help="Language of the sparse chain")] = "xx",
    min_score: Annotated[
        float, Opt("--min-score", help="Least log-odds of an error to write")
    ] = 0.0,
    pipe: PipeName = None,
) -> None:
    """
    Find label errors: gold annotation that is less likely than another one. Trains on all parts of
    the corpus but one, judges that part, and does so for each part. Writes the most suspicious
    annotation first. Run the same command again to resume after an interruption.
    """
    from spacy.vocab import Vocab

    from spacy_bcrf.annotation.extensions import set_extensions

    from .audit_page import audit_page

    with exit_on(ValueError, TypeError, OSError, stopped=RESUMES):
        for path in (output, page):
            if path is not None:
                check_output_file(path, corpus, None if source is None else Path(source))
        check_corpus(corpus)
        set_extensions()
        docs = list(read_docs(corpus, Vocab()))
        folder = work or output.with_name(f".{output.name}.folds")
        is_trained = source is not None and not source.endswith(".cfg")
        if not is_trained:
            trainer = find_trainer(corpus, docs, source, pipe, lang)
            suspects = cross_fit(docs, folds, trainer, folder, corpus)
        else:
            suspects = judge_by_model(corpus, docs, str(source), pipe)
        records = [
            to_record(i, docs[i], suspect)
            for i, of_doc in enumerate(suspects)
            for suspect in of_doc
            if suspect.score >= min_score
        ]
        records.sort(key=lambda record: -record["score"])
        if page is not None:
            write_text(page, audit_page(corpus.name, records))
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        write_text(output, "".join(lines))
        if work is None and not is_trained:
            shutil.rmtree(folder)
    n_spans = sum(s.gold is not None for of_doc in suspects for s in of_doc)
    kinds = [record["kind"] for record in records]
    counts = ", ".join(f"{kinds.count(kind):,} {kind}" for kind in sorted(set(kinds)))
    typer.echo(
        f"{output}: {len(records):,} suspects in {len(docs):,} documents with {n_spans:,} "
        f"annotations{': ' if counts else ''}{counts}"
    )


def check_labels(corpus: Path, docs: Sequence[Doc], pipe: SequenceLabeler, name: str) -> set[str]:
    """Return the labels of the corpus. ValueError without any annotation."""
    labels = set().union(*(pipe.codec.find_labels(doc) for doc in docs))
    if not labels:
        raise ValueError(
            f"{corpus}: none of the {len(docs):,} documents has {pipe.codec.what}, which [{name}] "
            "predicts"
        )
    return labels


def judge_by_model(
    corpus: Path, docs: Sequence[Doc], model: str, name: str | None
) -> list[list[Suspect]]:
    """Return the suspects of each document under a trained pipeline."""
    from .labeler import load_labeler

    nlp, name, pipe = load_labeler(model, name)
    labels = check_labels(corpus, docs, pipe, name)
    if unknown := sorted(labels - set(pipe.labels)):
        raise ValueError(
            f"{corpus}: the documents have the labels {', '.join(unknown)}, but [{name}] of "
            f"{model} has {', '.join(pipe.labels)}; use a config in place of the pipeline"
        )
    typer.echo(
        f"Warning: {model} must not be trained on {corpus}: a pipeline repeats the errors that it "
        "learned",
        err=True,
    )
    return judge(nlp, name, docs)


def judge(nlp: Language, name: str, docs: Sequence[Doc]) -> list[list[Suspect]]:
    """Return the suspects of each document. The pipeline gets the words of the documents."""
    from spacy.training import Example

    from spacy_bcrf.pipeline.cross_fitting import copy_words
    from spacy_bcrf.pipeline.label_errors import find_suspects

    from .labeler import annotate_before

    pipe: Any = nlp.get_pipe(name)
    copies = (copy_words(doc, nlp) for doc in docs)
    shown = tqdm(annotate_before(nlp, name, copies), "judging", len(docs), delay=1, unit="docs")
    examples = [Example(copy, doc) for copy, doc in zip(shown, docs, strict=True)]
    return find_suspects(pipe, examples)


def find_trainer(
    corpus: Path, docs: Sequence[Doc], config: str | None, name: str | None, lang: str
) -> Trainer:
    """Return the training of a config, or of the default sparse chain."""
    import spacy
    from spacy.util import load_config, load_model_from_config

    from spacy_bcrf.pipeline.cross_fitting import train_config, train_sparse_chain
    from spacy_bcrf.pipeline.factories import NER_MODEL
    from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

    pipe: Any
    if config is None:
        pipe = spacy.blank(lang).add_pipe("bcrf_ner")
        labels = sorted(check_labels(corpus, docs, pipe, "ner"))
        return Trainer(
            "ner",
            lambda part: train_sparse_chain(part, labels, lang),
            json.dumps([lang, NER_MODEL]),
        )
    path = Path(config)
    if not path.is_file():
        raise ValueError(f"{config}: there is no such training config")
    nlp = load_model_from_config(load_config(path), auto_fill=True)
    ours = {key: pipe for key, pipe in nlp.pipeline if isinstance(pipe, SequenceLabeler)}
    if name is None and len(ours) == 1:
        name = next(iter(ours))
    if name is None or name not in ours:
        raise ValueError(
            f"{config}: expected --pipe to be one of the components of spacy-bcrf, "
            f"{', '.join(ours) or 'which it has none of'}"
        )
    component = name
    pipe = ours[component]
    labels = sorted(check_labels(corpus, docs, pipe, component))
    return Trainer(
        component,
        lambda part: train_config(path, part, labels, component),
        path.read_text("utf8"),
    )


def cross_fit(
    docs: Sequence[Doc], n_folds: int, trainer: Trainer, work: Path, corpus: Path
) -> list[list[Suspect]]:
    """Return the suspects of each document, judged by training on the other folds.

    work: a folder with one file for each finished fold. A file with another corpus, training or
    number of folds is replaced.
    """
    from spacy_bcrf.pipeline.cross_fitting import assign_folds
    from spacy_bcrf.pipeline.label_errors import Suspect

    if len(docs) < n_folds:
        raise ValueError(
            f"{corpus}: {len(docs):,} documents are too few for {n_folds} folds; each fold needs "
            "one"
        )
    fold_of = assign_folds(len(docs), n_folds).tolist()
    digest = hashlib.sha256(f"{__version__} {n_folds} {trainer.settings}".encode())
    for file in find_files(corpus):
        digest.update(file.read_bytes())
    found: list[list[Suspect]] = [[] for _ in docs]
    for fold in tqdm(range(n_folds), "folds", unit="folds"):
        held_out = [i for i, k in enumerate(fold_of) if k == fold]
        path = work / f"fold-{fold}.json"
        suspects = read_fold(path, digest.hexdigest())
        if suspects is None:
            nlp = trainer.train([docs[i] for i, k in enumerate(fold_of) if k != fold])
            suspects = judge(nlp, trainer.name, [docs[i] for i in held_out])
            content = {"key": digest.hexdigest(), "suspects": suspects}
            write_text(path, json.dumps(content))
        for i, of_doc in zip(held_out, suspects, strict=True):
            found[i] = [Suspect(*suspect) for suspect in of_doc]
    return found


def read_fold(path: Path, key: str) -> list[Any] | None:
    """Return the stored suspects of a fold, None without a file or with another key."""
    try:
        content = json.loads(path.read_text("utf8"))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("key") != key:
        return None
    suspects: list[Any] = content["suspects"]
    return suspects


def to_record(i: int, doc: Doc, suspect: Suspect) -> dict[str, Any]:
    """Return a suspect as JSON values. start, end: characters of the text."""

    def place(bounds: Sequence[Any]) -> dict[str, Any]:
        start, end, label = bounds
        return {
            "start": doc[start].idx,
            "end": doc[end - 1].idx + len(doc[end - 1]),
            "label": label,
        }

    some = suspect.suggestion if suspect.gold is None else suspect.gold
    assert some is not None
    gold = place(some)
    if suspect.gold is None:
        gold["label"] = None
    return {
        "doc": i,
        "text": doc.text,
        **gold,
        "kind": suspect.kind,
        "suggestion": None if suspect.suggestion is None else place(suspect.suggestion),
        "p_gold": suspect.p_gold,
        "p_suggestion": suspect.p_suggestion,
        "score": round(suspect.score, 4),
    }
