"""`python -m spacy bcrf tune`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.cli._util import Opt, import_code, parse_config_overrides

from bcrf.io.atomic import replacing
from spacy_bcrf.pipeline.config_errors import naming

from .errors import spacy_command
from .options import Code, Force, Seed, TrainingConfig
from .paths import check_output_file

if TYPE_CHECKING:
    from spacy_bcrf.analysis.tune import Trial


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
    seed: Seed = 0,
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

    from spacy_bcrf.analysis.tune import apply_settings, tune

    trials = output.with_name(f"{output.name}.trials")
    check_output_file(output, ".cfg", config, keep=not (force or trials.exists()))
    overrides = parse_config_overrides(ctx.args)
    import_code(code)
    with naming(config):
        loaded = load_config(config, overrides=overrides, interpolate=False)
        found = tune(loaded.interpolate(), trials, minutes, n_candidates, seed, _print, network)
    best = found.best
    if best is None:
        raise ValueError("no training ended in time; expected more minutes")
    typer.echo(f"{'share':>5} {'F':>6}  {'95% interval':<14} {'s':>5}  settings")
    for trial in sorted(found.trials, key=lambda trial: (-trial.share, -trial.f)):
        _print(trial, err=False)
    with replacing(output) as part:
        apply_settings(loaded, best.settings).to_disk(part)
    if not found.is_done:
        typer.echo(f"the time is over: the same command goes on from {trials}")
    before = max(t.f for t in found.trials if t.share == best.share and not t.settings)
    if best.settings:
        shares = f", with {best.share:.0%} of the documents" * (best.share < 1)
        change = f"F {100 * before:.2f} before, {100 * best.f:.2f} with {_name(best)}{shares}"
    else:
        change = f"no settings have a higher F than yours, {100 * before:.2f}"
    typer.echo(f"{output}: {change}")
    if "network" in best.settings:
        dev = loaded.get("paths", {}).get("dev") or "DEV.spacy"
        parts = "combine", "out/model-last", network, "--dev", dev, "--output", "sum"
        typer.echo(f"the sum is best. After the training: {spacy_command('bcrf', *parts)}")
    return spacy_command("train", output, "--output", "out", *ctx.args, code=code)


def _print(trial: Trial, err: bool = True) -> None:
    interval = f"{100 * trial.low:.2f}-{100 * trial.high:.2f}"
    start = f"{trial.share:5.0%} {100 * trial.f:6.2f}  {interval:<14} {trial.seconds:5.1f}"
    problem = f" ({trial.problem})" if trial.problem else ""
    typer.echo(f"{start}  {_name(trial)}{problem}", err=err)


def _name(trial: Trial) -> str:
    values = {
        key: f"{len(value)} lines" if isinstance(value, list) else value
        for key, value in trial.settings.items()
    }
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "config"
