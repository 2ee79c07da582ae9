"""`python -m spacy bcrf control`"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from spacy.cli._util import Opt

from spacy_bcrf.pipeline.config_errors import naming
from spacy_bcrf.readers.doc_files import check_corpus

from .errors import spacy_command
from .options import GoldCorpus, GpuId, Inplace, Model, PipeName, Plot, TargetFolder
from .paths import check_plot, draw, print_notes

Unit = Literal["span", "document"]


def control_cli(
    model: Model,
    dev: GoldCorpus,
    output: TargetFolder = None,
    inplace: Inplace = False,
    pipe: PipeName = None,
    recall: Annotated[float | None, Opt(help="Recall of the candidate spans to promise")] = None,
    precision: Annotated[float | None, Opt(help="Precision of the predictions to promise")] = None,
    label: Annotated[list[str] | None, Opt(help="Such as PERSON,ORG=0.99. Repeatable")] = None,
    confidence: Annotated[float, Opt(help="Probability that all promises are kept")] = 0.95,
    unit: Annotated[
        Unit, Opt(help="span: mean over documents. document: share of documents without any error")
    ] = "span",
    max_units: Annotated[
        int, Opt(help="Largest weight of a document, in units. Large: the corpus's mean", min=1)
    ] = 1,
    covered: Annotated[
        bool,
        Opt("--covered", help="Recall: candidates of any label that cover a gold span find it"),
    ] = False,
    plot: Plot = None,
    gpu_id: GpuId = -1,
) -> str:
    """
    Find posterior thresholds that keep a promise on new documents, and store them.
    The promise is the mean over documents of a document's precision or recall, for all labels
    together, or for some labels by --label. It holds for documents from the same source as DEV.
    With --precision the pipeline drops predictions below the threshold.
    With --recall it writes all spans from the threshold on to doc.spans["candidates"].
    With too few documents it says how many are needed, and stores nothing.
    Without both it stores nothing, and prints the promises that hold at once, with their costs.
    """
    from spacy_bcrf.loading import read_gold_docs
    from spacy_bcrf.pipeline.settings import check_promise
    from spacy_bcrf.promises.control import ASSUMPTION, control, list_promises, split_promise
    from spacy_bcrf.promises.evidence import Loss
    from spacy_bcrf.promises.seen import note_trained

    from .labeler import check_destination, load_labeler, store

    of_labels = read_label_promises(label or [])
    is_table = recall is None and precision is None and not (output or inplace or of_labels)
    check_plot(plot, dev)
    if is_table:
        check_corpus(dev)
    elif (recall is None) == (precision is None):
        raise ValueError("expected either --recall or --precision, such as --precision 0.95")
    else:
        check_destination(model, dev, output, inplace)
    kind, value = ("recall", recall) if precision is None else ("precision", precision)
    check = None if is_table else lambda name, pipe: check_promise(name, pipe.codec, kind)
    nlp, name, labeler = load_labeler(model, pipe, gpu_id, inplace, check)
    # Before the corpus is read, so that the errors of options do not name it.
    split_promise(labeler.labels, value, of_labels, confidence)
    loss = Loss(unit, max_units, covered)
    loss.check(kind, of_labels)
    gold = read_gold_docs(nlp, dev)
    print_notes(note_trained(nlp, gold, str(dev)))
    options: Any = {"confidence": confidence, "loss": loss}
    if is_table:
        table = list_promises(nlp, gold, name, **options)
        typer.echo(table)
        print_notes(table.notes)
        each = f"{table.confidence_each:.6g}"
        typer.echo(
            f"All hold at once with confidence {confidence:g}, each with {each}. {ASSUMPTION}"
        )
        draw(table, plot)
        return f"the same command with a promise of the table, --confidence {each}, --output FOLDER"
    with naming(dev):
        found = control(
            nlp, gold, name, recall=recall, precision=precision, of_labels=of_labels, **options
        )
    typer.echo(found)
    if found.kind == "recall":
        typer.echo(f"{found.n_candidates / max(1, found.n_docs):.2f} candidates a document")
    print_notes([*found.notes, ASSUMPTION])
    target = store(nlp, output, model, name)
    draw(found, plot)
    return spacy_command("bcrf", "report", target, "TEST.spacy", output="report.html", pipe=pipe)


def read_label_promises(options: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Read options such as `PERSON=0.99` or `PERSON,ORG=0.99`. ValueError names a wrong one."""
    found: dict[tuple[str, ...], float] = {}
    for option in options:
        labels, _, number = option.rpartition("=")
        group = tuple(filter(None, labels.split(",")))
        try:
            if not group or group in found:
                raise ValueError
            found[group] = float(number)
        except ValueError:
            problem = "expected LABELS=NUMBER, each label once"
            raise ValueError(f"--label {option}: {problem}") from None
    return found
