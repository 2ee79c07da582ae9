"""`python -m spacy bcrf control`"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from .errors import exit_on
from .options import GpuId, Inplace, PipeName, TargetFolder


def control_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    dev: Annotated[Path, Arg(help="Annotated documents outside of the training data, .spacy")],
    output: TargetFolder = None,
    inplace: Inplace = False,
    pipe: PipeName = None,
    recall: Annotated[
        float | None, Opt("--recall", help="Recall of the candidate spans to promise")
    ] = None,
    precision: Annotated[
        float | None, Opt("--precision", help="Precision of the predictions to promise")
    ] = None,
    label: Annotated[
        list[str] | None,
        Opt("--label", help="Promise of one label by itself, such as PERSON=0.99. Repeatable"),
    ] = None,
    confidence: Annotated[
        float, Opt("--confidence", help="Probability that all promises are kept")
    ] = 0.95,
    max_units: Annotated[
        int,
        Opt(
            "--max-units",
            help="A document weighs as many predictions or gold spans as it has, at most this "
            "number. 1: the promise is the mean over documents. Large: that of the corpus",
            min=1,
        ),
    ] = 1,
    gpu_id: GpuId = -1,
) -> None:
    """
    Find posterior thresholds that keep a promise on new documents, and store them.
    The promise is the mean over documents of a document's precision or recall, for all labels
    together, or for one label by --label.
    With --precision the pipeline drops predictions below the threshold.
    With --recall it writes all spans from the threshold on to doc.spans["candidates"].
    With too few documents it says how many are needed, and stores nothing.
    """
    from spacy_bcrf.analysis.promises import control

    from .labeler import check_destination, load_labeler, read_gold, store_setting

    with exit_on(ValueError, ImportError, OSError):
        if (recall is None) == (precision is None):
            raise ValueError("expected either --recall or --precision, such as --precision 0.95")
        check_destination(model, dev, output, inplace)
        of_labels = read_label_promises(label or [])
        setup_gpu(gpu_id, silent=True)
        nlp, name, _ = load_labeler(model, pipe, inplace)
        found = control(
            nlp,
            read_gold(nlp, dev),
            name,
            recall=recall,
            precision=precision,
            of_labels=of_labels,
            confidence=confidence,
            max_units=max_units,
        )
        target = store_setting(nlp, model, output)
        for one in found.kept:
            units = "predictions" if found.kind == "precision" else "gold spans"
            typer.echo(
                f"{', '.join(one.promise.labels)}: {found.kind} {one.promise.value:g} at threshold "
                f"{one.threshold:.4g}; on these {one.n_docs:,} documents {one.measured:.4f}, with "
                f"{100 * one.share:.1f}% of the {units}"
            )
        if found.kind == "recall":
            typer.echo(f"{found.n_candidates / max(1, found.n_docs):.2f} candidates a document")
        typer.echo(f"stored in {target}")


def read_label_promises(options: Sequence[str]) -> dict[str, float]:
    """Read options such as `PERSON=0.99`. ValueError names a wrong one."""
    found: dict[str, float] = {}
    for option in options:
        label, _, number = option.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not label or label in found or math.isnan(value):
            raise ValueError(f"--label {option}: expected LABEL=NUMBER, each label once")
        found[label] = value
    return found
