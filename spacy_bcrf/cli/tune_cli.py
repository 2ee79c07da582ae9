"""`python -m spacy bcrf tune`"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Opt, import_code, parse_config_overrides

from bcrf.io.atomic import replacing
from spacy_bcrf.pipeline.config_errors import naming

from .errors import spacy_command
from .options import Code, Force, TrainingConfig
from .paths import check_output_file, keep_unless

print_error = partial(typer.echo, err=True)


def tune_cli(
    ctx: typer.Context,
    config: TrainingConfig,
    output: Annotated[Path, Opt("--output", "-o", help="Config to write")],
    minutes: Annotated[float, Opt(help="No training starts after these minutes", min=0)] = 20,
    n_candidates: Annotated[
        int, Opt("--candidates", "-n", help="Number of settings in the first round", min=2)
    ] = 18,
    network: Annotated[
        str | None, Opt(help="Trained pipeline to sum with the best chain; dev fits the weights")
    ] = None,
    code: Code = None,
    force: Force = False,
) -> str:
    """
    Search the settings of a sparse linear chain on the dev corpus of a training config: templates,
    clusters of the config, l2, passes, order, objective, feature_dropout and two_pass. Prints all
    trials with 95% intervals, and writes the config with the best settings. Overrides as in
    `spacy train`.

    A killed command goes on from the folder OUTPUT.trials.
    """
    from spacy.util import load_config

    from spacy_bcrf.training.tune import apply_settings, tune

    trials = output.with_name(f"{output.name}.trials")
    check_output_file(output, ".cfg", config, existing=keep_unless(force or trials.exists()))
    overrides = parse_config_overrides(ctx.args)
    import_code(code)
    with naming(config):
        loaded = load_config(config, overrides=overrides, interpolate=False)
        found = tune(
            loaded.interpolate(), trials, minutes, n_candidates, after=print_error, network=network
        )
    best = found.best
    if best is None:
        raise ValueError("no training ended in time; expected more minutes")
    typer.echo("\n".join(found.lines()))
    with replacing(output) as part:
        apply_settings(loaded, best.settings).to_disk(part)
    if not found.is_done:
        typer.echo(f"the time is over: the same command goes on from {trials}")
    typer.echo(f"{output}: {found!r}")
    if "network" in best.settings:
        dev = loaded.get("paths", {}).get("dev") or "DEV.spacy"
        parts = "combine", "out/model-last", network, "--dev", dev, "--output", "sum"
        typer.echo(f"the sum is best. After the training: {spacy_command('bcrf', *parts)}")
    return spacy_command("train", output, "--output", "out", *ctx.args, code=code)
