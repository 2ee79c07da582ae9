"""`python -m spacy bcrf calibrate`"""

from typing import Annotated, Literal

import typer
from spacy.cli._util import Opt

from bcrf.chain.potentials import counted
from spacy_bcrf.pipeline.config_errors import naming

from .errors import spacy_command
from .options import GoldCorpus, GpuId, Inplace, Model, PipeName, Plot, TargetFolder
from .paths import check_plot, draw, print_notes

Grouping = Literal["label", "length"]

FEW = 100
"""With fewer predictions, a note says that they are few."""


def calibrate_cli(
    model: Model,
    dev: GoldCorpus,
    output: TargetFolder = None,
    inplace: Inplace = False,
    pipe: PipeName = None,
    by: Annotated[
        Grouping | None, Opt(help="Fit a map for each label or length, after the temperature")
    ] = None,
    plot: Plot = None,
    gpu_id: GpuId = -1,
) -> str:
    """
    Fit the temperature that calibrates a component's confidences, and store it with the pipeline,
    in --output or --inplace. --by adds Platt scaling of the reported confidences by group.
    Prints the expected calibration error before and after. --plot draws reliability diagrams.
    The best labeling does not change; a `threshold` applies to the new probabilities. From then on,
    the component annotates confidences.
    """
    from spacy_bcrf.judging.report import describe_labels
    from spacy_bcrf.loading import read_gold_docs
    from spacy_bcrf.promises.calibrate import calibrate
    from spacy_bcrf.promises.seen import note_left_out, note_trained

    from .labeler import check_destination, load_labeler, store

    check_plot(plot, dev)
    check_destination(model, dev, output, inplace)
    nlp, name, _ = load_labeler(model, pipe, gpu_id, inplace)
    gold = read_gold_docs(nlp, dev)
    print_notes(note_trained(nlp, gold, str(dev)))
    with naming(dev):
        found = calibrate(nlp, gold, name, by=by)
    typer.echo(f"{name}: {counted(found.n, 'prediction')}, {100 * found.accuracy:.2f}% right")
    factor = found.temperature / found.before
    notes = [*found.notes, *describe_labels(f"{name} of {model}", set(found.unknown))]
    if found.n < FEW:
        notes.append(
            f"{found.n:,} predictions are few to fit a temperature, which may be far off; expected "
            f"gold documents with {FEW} or more"
        )
    notes.append(f"the new temperature is {factor:.2f} times that of the pipeline")
    print_notes([*notes, *note_left_out(found.n_left_out, name)])
    typer.echo(found)
    before, *_, after = found.tables.values()
    rose = (
        "the error rose. The temperature has the best likelihood; with few documents, the error "
        "can rise all the same"
    )
    print_notes([rose] * (after.error > before.error))
    target = store(nlp, output, model, name)
    draw(found, plot)
    step = spacy_command("bcrf", "control", target, "NEW.spacy", pipe=pipe)
    return f"{step}, documents that are not in {dev}"
