"""Generate docs/benchmarks.md, gpu.md, results.md and their plots from benchmarks/results.

    python -m benchmarks.pages

Each benchmark writes `benchmarks/results/NAME.json`, see `lab.tables.write_results`:

    {"name": "heads", "command": "python -m benchmarks.heads", "commit": "abc1234",
     "date": "2026-11-23", "machine": "processor, cores, load; versions",
     "tables": [{"title": "Heads", "notes": "us per token", "columns": [..], "rows": [[..], ..]}]}
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bcrf.io.atomic import write_text
from lab import ROOT
from lab.figures import make_figure, save_figure
from lab.tables import RESULTS, markdown_table

KEYS = {"name", "command", "commit", "date", "machine", "tables"}
TABLE_KEYS = {"title", "notes", "columns", "rows"}
TEMPLATES = Path(__file__).parent / "pages"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs", metavar="FOLDER")
    args = parser.parse_args()
    for template in sorted(TEMPLATES.glob("*.md")):
        write_text(args.output / template.name, render(template.name))
    figures = args.output / "figures"
    figures.mkdir(exist_ok=True)
    for name, draw in PLOTS.items():
        figure = make_figure(7, 4)
        draw(figure.subplots())
        save_figure(figure, figures / f"{name}.svg")


def render(template: str) -> str:
    """Return a page. It says the origin of several tables of one benchmark at the first."""
    pages = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined)
    page = pages.get_template(template).render(table=table, caption=caption) + "\n"
    for path in RESULTS.glob("*.json"):
        origin = find_origin(read_results(path.stem))
        start, first, rest = page.partition(origin)
        page = start + first + rest.replace(origin, "Machine and command as above.*")
    return page


def read_results(name: str) -> dict[str, Any]:
    """Read the figures of a benchmark. ValueError for a file of another form."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf8"))
    if found.keys() != KEYS or any(part.keys() != TABLE_KEYS for part in found["tables"]):
        raise ValueError(f"{path}: expected the fields {', '.join(sorted(KEYS))}")
    for part in found["tables"]:
        if any(len(row) != len(part["columns"]) for row in part["rows"]):
            raise ValueError(f"{path}: {part['title']}: a row has not one cell a column")
        if len({*part["columns"]}) < len(part["columns"]):
            raise ValueError(f"{path}: {part['title']}: two columns have the same name")
    return found


def find_table(found: dict[str, Any], title: str | None) -> dict[str, Any]:
    """Return a table of a benchmark, by default the first one."""
    return next(part for part in found["tables"] if title in (None, part["title"]))


def table(name: str, title: str | None = None, **only: str) -> str:
    """Return a table in Markdown under its command, machine and commit.

    title: of the table, by default the first one of the benchmark. only: the value of a column in
        all rows, for instance `batch="64"`. The caption has it in place of the column.
    """
    chosen = find_table(read_results(name), title)
    columns = [column for column in chosen["columns"] if column not in only]
    rows = [[row[column] for column in columns] for row in rows_of(name, title, **only)]
    if not rows:
        raise ValueError(f"{name}: {chosen['title']}: no row has {only}")
    for above, row in reversed([*pairwise(rows)]):
        if above[0] == row[0]:
            row[0] = ""
    is_whole = len(rows) == len(chosen["rows"])
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (columns, *rows)]
    origin = caption(name, title, is_whole, *(" ".join(choice) for choice in only.items()))
    return f"{origin}\n\n{markdown_table(cells)}".rstrip()


def caption(name: str, title: str | None = None, is_whole: bool = False, *more: str) -> str:
    """Return what a table or picture measures, on which machine and commit, by which command.

    is_whole: whether all rows are below it. Otherwise the caption says where they are.
    """
    found = read_results(name)
    chosen = find_table(found, title)
    notes = [chosen["notes"], *more]
    notes += [f"rows: `benchmarks/results/{name}.json`"] * (not is_whole)
    said = "; ".join(filter(None, notes))
    return f"*{chosen['title']}.{f' {said}.' if said else ''} {find_origin(found)}"


def find_origin(found: dict[str, Any]) -> str:
    """Return the machine, commit and command of a benchmark."""
    return f"{found['machine']}; {found['commit']}.* `{found['command']}`"


# Plots

ROLES = ("corpus", "system")
MARKERS = "osD^vP*X"
CORPORA = {"wnut17": "WNUT 2017", "uner": "UNER EWT", "ewt-pos": "EWT tags", "jnlpba": "JNLPBA"}
SYSTEMS = {
    "spacy": "spaCy",
    "crfsuite": "CRFsuite",
    "sparse": "sparse chain",
    "clusters": "chain with clusters",
    "neural": "CNN",
}


def rows_of(name: str, title: str | None = None, **only: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table, see `table`. An empty first cell repeats the one above."""
    part = find_table(read_results(name), title)
    above = ""
    for row in part["rows"]:
        above = row[0] or above
        fields = dict(zip(part["columns"], [above, *row[1:]], strict=True))
        if all(fields[column] == value for column, value in only.items()):
            yield fields


def number(cell: str) -> float | None:
    """Return the first number of a cell, None without one."""
    found = re.search(r"-?[\d,]*\.?\d+", cell.replace("*", ""))
    return float(found.group().replace(",", "")) if found else None


def draw_speed_and_score(axes: Any) -> None:
    """Draw the words per second of prediction against the score on test, by system and corpus."""
    found = list(rows_of("accuracy"))
    corpora, systems = (list(dict.fromkeys(row[key] for row in found)) for key in ROLES)
    for row in found:
        axes.scatter(
            1e6 / float(row["us/word"]),
            number(row["score"]),
            color=f"C{systems.index(row['system'])}",
            marker=MARKERS[corpora.index(row["corpus"])],
        )
    name_points(axes, [SYSTEMS.get(name, name) for name in systems], corpora)
    axes.set_xscale("log")
    axes.set_xlabel("words per second, one thread")
    axes.set_ylabel("score on test")
    put_legend(axes)


def draw_partial(axes: Any) -> None:
    """Draw F against the share of the labels that is annotated."""
    found = list(rows_of("annotated_share"))
    share, *methods = found[0]
    for method in methods:
        scores = [number(row[method]) for row in found]
        axes.plot([number(row[share]) for row in found], scores, marker="o", label=method)
    axes.set_xlabel("annotated labels of each sentence, %")
    axes.set_ylabel("F on test")
    put_legend(axes)


def draw_calibration(axes: Any) -> None:
    """Draw the share of right predictions by confidence, before and after calibration."""
    axes.plot([0, 1], [0, 1], color="gray", linewidth=1, label="perfect calibration")
    curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows_of("calibration", "Reliability"):
        if row["method"] in ("not calibrated", "temperature"):
            point = float(row["confidence"]), float(row["right"])
            curves.setdefault((row["corpus"], row["method"]), []).append(point)
    corpora = list(dict.fromkeys(corpus for corpus, _ in curves))
    for (corpus, method), points in curves.items():
        before = method == "not calibrated"
        axes.plot(
            *zip(*points, strict=True),
            color=f"C{corpora.index(corpus)}",
            linestyle=":" if before else "-",
            marker="o",
            label=f"{CORPORA.get(corpus, corpus)}, {'before' if before else 'after'}",
        )
    axes.set_xlabel("confidence")
    axes.set_ylabel("share of right predictions")
    put_legend(axes)


def draw_promises(axes: Any) -> None:
    """Draw promised values against what the other half of the documents had."""
    found = [
        row
        for row in rows_of("control")
        if row["max units"] == "1" and number(row["on the other half"]) is not None
    ]
    values = [number(row["promise"]) or 0 for row in found]
    axes.plot([min(values), max(values)], [min(values), max(values)], color="gray", linewidth=1)
    kinds = ("precision", "recall")
    corpora = list(dict.fromkeys(row["corpus"].partition(",")[0] for row in found))
    for row in found:
        axes.scatter(
            number(row["promise"]),
            number(row["on the other half"]),
            color=f"C{kinds.index(row['promise'].split()[0])}",
            marker=MARKERS[corpora.index(row["corpus"].partition(",")[0])],
        )
    name_points(axes, kinds, corpora)
    axes.set_xlabel("promised")
    axes.set_ylabel("mean on the other half; kept above the line")
    put_legend(axes)


def name_points(axes: Any, colors: Sequence[str], corpora: Sequence[str]) -> None:
    """Name the colours in the legend, and the corpora that the markers stand for."""
    for i, name in enumerate(colors):
        axes.scatter([], [], color=f"C{i}", marker="o", label=name)
    for marker, corpus in zip(MARKERS, corpora, strict=False):
        axes.scatter([], [], color="gray", marker=marker, label=CORPORA.get(corpus, corpus))


def put_legend(axes: Any) -> None:
    """Draw the legend below the picture, where it covers nothing."""
    axes.figure.legend(loc="outside lower center", ncols=4, fontsize="small", frameon=False)


PLOTS = {
    "speed_and_score": draw_speed_and_score,
    "partial": draw_partial,
    "calibration": draw_calibration,
    "promises": draw_promises,
}

if __name__ == "__main__":
    main()
