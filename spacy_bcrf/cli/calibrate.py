"""`python -m spacy bcrf calibrate`"""

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

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
    from spacy_bcrf.pipeline.calibration import Calibration, measure_reliability
    from spacy_bcrf.pipeline.settings import check_grouping

    from .labeler import check_destination, load_labeler, read_examples, store_setting
    from .report import describe_labels

    with exit_on(ValueError, ImportError, OSError):
        check_destination(model, dev, output, inplace)
        setup_gpu(gpu_id, silent=True)
        nlp, name, labeler = load_labeler(model, pipe, inplace)
        if not no_plot:
            require("matplotlib", "plot")
        if labeler.control:
            raise ValueError(
                f"{model}: {name} keeps a promise with thresholds for its temperature. Calibrate a "
                "pipeline first, then run `control`"
            )
        if by is not None:
            check_grouping(name, labeler.codec, by.value)
        examples = read_examples(nlp, name, dev)
        calibration = Calibration(labeler, examples, ignore_annotation=False)
        temperature = calibration.fit()
        scaling = None if by is None else calibration.fit_scaling(temperature, by.value)
        fits = [("before", labeler.temperature, labeler.calibration), ("after", temperature, None)]
        if by is not None:
            fits.append((f"by {by.value}", temperature, scaling))
        tables = {
            f"{what}, temperature {t:.2f}": measure_reliability(
                calibration.confidence(t, maps), calibration.correct, n_bins
            )
            for what, t, maps in fits
        }
        settings = {
            "annotate": [*dict.fromkeys([*labeler.annotate, "confidence"])],
            "temperature": temperature,
            "calibration": None if scaling is None else asdict(scaling),
        }
        for setting, value in settings.items():
            labeler.configure(setting, value)
            nlp.get_pipe_config(name)[setting] = value
        target = store_setting(nlp, name, "calibration", settings["calibration"], model, output)
        typer.echo(
            f"{name}: {len(calibration.correct):,} predictions, "
            f"{100 * calibration.correct.mean():.2f}% right"
        )
        for note in describe_labels(f"{name} of {model}", calibration.labels, set(labeler.labels)):
            typer.echo(f"Note: {note}")
        for what, table in tables.items():
            typer.echo(
                f"{what}: expected calibration error {table.error:.4f} on the documents of the fit"
            )
        before, *_, after = tables.values()
        if after.error > before.error:
            typer.echo(
                "Note: the error rose. The temperature has the best likelihood; with few "
                "documents, the error can rise all the same"
            )
        typer.echo(f"stored in {target}")
        if not no_plot:
            typer.echo(f"drawn in {draw(tables, plot or target / f'calibration-{name}.png', name)}")


def draw(tables: dict[str, Any], path: Path, name: str) -> Path:
    """Draw reliability diagrams side by side: accuracy and number of predictions by confidence."""
    matplotlib = require("matplotlib.figure", "plot")
    figure = matplotlib.Figure(figsize=(5 * len(tables), 5), layout="constrained")
    axes = figure.subplots(2, len(tables), height_ratios=(3, 1), sharex=True, squeeze=False)
    for (what, table), (above, below) in zip(tables.items(), axes.T, strict=True):
        n_bins = len(table.counts)
        edges = [(i + 0.5) / n_bins for i in range(n_bins)]
        some = table.counts > 0
        above.plot([0, 1], [0, 1], color="gray", linestyle="--", label="perfect calibration")
        found = table.confidence[some], table.accuracy[some]
        above.plot(*found, marker="o", clip_on=False, label=name)
        above.set_title(f"{what}\nexpected calibration error {table.error:.3f}")
        above.set_ylabel("accuracy")
        above.set_ylim(0, 1)
        above.legend()
        below.bar(edges, table.counts, width=0.9 / n_bins)
        below.set_yscale("log")
        below.set_ylim(bottom=0.8)
        below.tick_params(which="minor", labelleft=False)
        below.set_ylabel("predictions")
        below.set_xlabel("confidence")
        below.set_xlim(0, 1)
    with replacing(path) as part:
        figure.savefig(part, format="png", dpi=120)
    return path
