"""Tables of the experiments and benchmarks."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import wasabi

from bcrf.io.atomic import write_text
from lab import ROOT
from lab.machine import describe_machine, find_commit, name_processor

RESULTS = Path(os.environ.get("BCRF_RESULTS") or ROOT / "benchmarks/results")

Row = Mapping[str, object]
"""One row of a table: cells by column name."""


def print_table(title: str, rows: Sequence[Row], notes: str, csv_path: Path | None = None) -> None:
    """Print a table with the columns of the first row, and add it to the results of the benchmark.

    csv_path: of the same table as CSV, None for none.
    """
    columns = list(rows[0])
    cells = [[str(row[column]) for column in columns] for row in rows]
    print(f"{title}\n{notes}")
    aligns: list[Any] = ["l", *["r"] * (len(columns) - 1)]
    print(wasabi.table(cells, header=columns, divider=True, aligns=aligns))
    sys.stdout.flush()
    write_results(title, notes, columns, cells)
    if csv_path:
        write_csv(csv_path, [columns, *cells])


_tables: list[dict[str, Any]] = []


def write_results(
    title: str, notes: str, columns: Sequence[str], cells: Sequence[Sequence[str]]
) -> None:
    """Write all tables of this process to RESULTS, as `benchmarks.pages` reads them.

    Only a benchmark that runs as a module writes: a test that calls its functions does not. The
    notes start with the two lines of `describe_machine`, or have none of them.
    """
    script = Path(sys.argv[0])
    if script.parent.name not in ("benchmarks", "experiments"):
        return
    machine = describe_machine([])
    lines = [
        line for line in notes.splitlines() if not line.startswith((name_processor(), "Python "))
    ]
    _tables.append(
        {"title": title, "notes": "; ".join(lines), "columns": list(columns), "rows": list(cells)}
    )
    arguments = [
        "DIR" if before in ("--corpora", "--against") else word
        for before, word in zip(["", *sys.argv[1:]], sys.argv[1:], strict=False)
    ]
    found = {
        "name": script.stem,
        "command": shlex.join(["python", "-m", f"{script.parent.name}.{script.stem}", *arguments]),
        "commit": find_commit(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine.replace("\n", "; "),
        "tables": _tables,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    write_text(RESULTS / f"{script.stem}.json", f"{text}\n")


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV. The first row holds the column names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(path, text.getvalue())


def markdown_table(rows: Sequence[Sequence[object]]) -> str:
    """Format rows as a Markdown table. The first row holds the column names."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def mean_and_deviation(values: Sequence[float], digits: int = 2) -> str:
    """Format the mean of several seeds and its standard deviation: `93.8 ± 0.1`.

    The deviation is the sample's (n - 1). A single value has none.
    """
    average = f"{mean(values):.{digits}f}"
    return average if len(values) == 1 else f"{average} ± {stdev(values):.{digits}f}"
