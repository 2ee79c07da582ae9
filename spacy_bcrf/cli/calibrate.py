"""`python -m spacy bcrf calibrate`"""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.extras import require

from .errors import exit_on
from .options import GpuId, Inplace, PipeName, TargetFolder


class Grouping(str, Enum):
    """Groups of --by."""

    label = "label"
    length = "length"


def calibrate_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    dev: Annotated[Path, Arg(help="Annotated documents outside of the training data, .spacy")],
    output: TargetFolder = None,
    inplace: Inplace = False,
    pipe: PipeName = None,
    by: Annotated[
        Grouping | None,
        Opt(
            "--by",
            help="Fit a map of confidences for each label, or for each length of spans, after the "
            "temperature",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        Opt(help="File of the reliability diagram (default: calibration-PIPE.png in the folder)"),
    ] = None,
    no_plot: Annotated[bool, Opt("--no-plot", help="Draw no diagram")] = False,
    n_bins: Annotated[int, Opt("--n-bins", help="Number of confidence bins", min=1)] = 10,
    gpu_id: GpuId = -1,
) -> None:
    """
    Fit the temperature that calibrates a component's confidences, and store it with the pipeline,
    in --output or --inplace. --by adds Platt scaling of the reported confidences by group.
    Prints the expected calibration error before and after, and draws a reliability diagram of each.
    Decoding does not change; a `threshold` applies to the new probabilities. From then on, the
    component annotates confidences.
    """
    from spacy_bcrf.analysis.calibration import calibrate
    from spacy_bcrf.analysis.reporting import describe_labels

    from .labeler import check_destination, load_labeler, read_gold, store_setting

    with exit_on(ValueError, ImportError, OSError):
        check_destination(model, dev, output, inplace)
        setup_gpu(gpu_id, silent=True)
        nlp, name, _ = load_labeler(model, pipe, inplace)
        if not no_plot:
            require("matplotlib", "plot")
        groups = None if by is None else by.value
        found = calibrate(nlp, read_gold(nlp, dev), name, by=groups, n_bins=n_bins)
        target = store_setting(nlp, model, output)
        typer.echo(f"{name}: {found.n:,} predictions, {100 * found.accuracy:.2f}% right")
        for note in describe_labels(f"{name} of {model}", set(found.unknown), set()):
            typer.echo(f"Note: {note}")
        for what, table in found.tables.items():
            typer.echo(
                f"{what}: expected calibration error {table.error:.4f} on the documents of the fit"
            )
        before, *_, after = found.tables.values()
        if after.error > before.error:
            typer.echo(
                "Note: the error rose. The temperature has the best likelihood; with few "
                "documents, the error can rise all the same"
            )
        typer.echo(f"stored in {target}")
        if not no_plot:
            path = plot or target / f"calibration-{name}.png"
            with replacing(path) as part:
                found.plot().savefig(part, format="png", dpi=120)
            typer.echo(f"drawn in {path}")
