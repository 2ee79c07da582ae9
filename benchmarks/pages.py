"""Generate docs/benchmarks.md, docs/results.md and their plots from benchmarks/results.

    python -m benchmarks.pages

Each benchmark writes `benchmarks/results/NAME.json`, see `common.write_results`:

    {"name": "heads", "command": "python -m benchmarks.heads", "commit": "abc1234",
     "date": "2026-11-23", "machine": "processor, cores, load; versions",
     "tables": [{"title": "Heads", "notes": "us a token", "columns": [..], "rows": [[..], ..]}]}
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.common import RESULTS, ROOT
from experiments.report import make_figure, markdown_table, save_figure
from spacy_bcrf.io.atomic import write_text

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
    """Return a page."""
    pages = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined)
    return pages.get_template(template).render(table=table) + "\n"


def read_results(name: str) -> dict[str, Any]:
    """Read the figures of a benchmark. ValueError for a file of another form."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf8"))
    if found.keys() != KEYS or any(part.keys() != TABLE_KEYS for part in found["tables"]):
        raise ValueError(f"{path}: expected the fields {', '.join(sorted(KEYS))}")
    for part in found["tables"]:
        if any(len(row) != len(part["columns"]) for row in part["rows"]):
            raise ValueError(f"{path}: {part['title']}: a row has not one cell a column")
    return found


def table(name: str, title: str | None = None) -> str:
    """Return a table in Markdown under its command, machine and commit.

    title: of the table, by default the first one of the benchmark.
    """
    found = read_results(name)
    chosen = next(part for part in found["tables"] if title in (None, part["title"]))
    notes = f" {chosen['notes']}." if chosen["notes"] else ""
    caption = f"*{chosen['title']}.{notes} {found['machine']}; {found['commit']}.*"
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in chosen["rows"]]
    return (
        f"{caption} `{found['command']}`\n\n{markdown_table([chosen['columns'], *rows])}".rstrip()
    )


# Plots


def rows_of(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a benchmark's first table. An empty first cell repeats the one above."""
    (part, *_) = read_results(name)["tables"]
    above = ""
    for row in part["rows"]:
        above = row[0] or above
        yield dict(zip(part["columns"], [above, *row[1:]], strict=True))


def number(cell: str) -> float | None:
    """Return the first number of a cell, None without one."""
    found = re.search(r"-?[\d,]*\.?\d+", cell.replace("*", ""))
    return float(found.group().replace(",", "")) if found else None


def draw_speed_and_score(axes: Any) -> None:
    """Draw words a second of prediction against the score on test, by system and corpus."""
    points: dict[str, list[tuple[float, float, str]]] = {}
    for row in rows_of("accuracy"):
        corpus, *systems = row
        for system in systems:
            cells = row[system].replace("*", "").split(";")
            score = number(cells[0])
            if len(cells) == 3 and score is not None:
                words = 1e6 / float(number(cells[1]) or 1)
                points.setdefault(system, []).append((words, score, row[corpus]))
    for (system, found), marker in zip(points.items(), "osD^v", strict=False):
        axes.scatter(
            *zip(*[p[:2] for p in found], strict=True), marker=marker, label=system.replace("`", "")
        )
    axes.set_xscale("log")
    axes.set_xlabel("words a second, one thread")
    axes.set_ylabel("F or accuracy on test")
    axes.legend(fontsize="small")


def draw_partial(axes: Any) -> None:
    """Draw F of partial annotation by head, and of missing annotation read as O."""
    found = list(rows_of("partial_ner"))
    first, *heads = found[0]
    names = [row[first].split(" (")[0].replace(" in each document", "") for row in found]
    draw_bars(axes, names, {head: [number(row[head]) or 0 for row in found] for head in heads})
    axes.set_xlabel("F on test")


def draw_calibration(axes: Any) -> None:
    """Draw the expected calibration error before and after."""
    found = list(rows_of("calibration"))
    draw_bars(
        axes,
        [f"{row['corpus']}, {row['measured on']}" for row in found],
        {name: [number(row[name]) or 0 for row in found] for name in list(found[0])[3:]},
    )
    axes.set_xlabel("expected calibration error")


def draw_promises(axes: Any) -> None:
    """Draw promised values, and what the other half of the documents had."""
    found = [row for row in rows_of("control") if number(row["on the other half"]) is not None]
    names = [f"{row['corpus'].split(',')[0]}, {row['promise'].split()[0]}" for row in found]
    places = range(len(found))
    promised = [number(row["promise"]) for row in found]
    measured = [number(row["on the other half"]) for row in found]
    axes.scatter(promised, places, marker="|", s=300, color="black", label="promised")
    axes.scatter(measured, places, label="on the other half")
    axes.set_yticks(places, names)
    axes.legend()


def draw_bars(axes: Any, names: Sequence[str], values: dict[str, list[float]]) -> None:
    """Draw groups of horizontal bars."""
    height = 0.8 / len(values)
    for k, (name, of_name) in enumerate(values.items()):
        axes.barh([i + k * height for i in range(len(names))], of_name, height, label=name)
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(names))], names)
    axes.invert_yaxis()
    axes.legend()


PLOTS = {
    "speed_and_score": draw_speed_and_score,
    "partial": draw_partial,
    "calibration": draw_calibration,
    "promises": draw_promises,
}

if __name__ == "__main__":
    main()
