"""README.md of this folder, from the reports of all suites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.conformance.suites import RESULTS, ROOT, Report

PAGE = ROOT / "tests/conformance/README.md"

HEAD = """# Conformance: the tests of other libraries

`make conformance PEERS=DIR` runs the tests of other libraries with our code in the place of theirs,
and writes this page. The tests come unmodified from installed packages, or from checkouts or source
distributions in the folder `DIR`. The command skips a suite without a source, names it, and keeps
its last results here. The lists below count the cases that do not apply, by reason;
`tests/conformance/results` names them. Of seqeval's 20,000 random
outputs, which it compares with conlleval, 500 are drawn. Of spaCy's cases that pass, 78 call our
code; the others show that nothing else changes.

"""


def read_reports(folder: Path = RESULTS) -> list[Report]:
    """Read the last report of each suite, by name."""
    return [Report.read(path) for path in sorted(folder.glob("*.json"), key=lambda path: path.stem)]


def make_page(reports: Sequence[Report]) -> str:
    """Return the page as Markdown."""
    rows = ["| suite | version | in its place | passed | not applicable | failed |"]
    rows += ["|---|---|---|---:|---:|---:|"]
    for report in reports:
        numbers = f"{report.passed} | {report.apart} | {len(report.failed)}"
        rows.append(f"| {report.name} | {report.version} | `{report.subject}` | {numbers} |")
    sections = [_section(report) for report in reports if report.not_applicable or report.failed]
    return HEAD + "\n".join(rows) + "\n" + "".join(sections)


def _section(report: Report) -> str:
    lines = [f"\n## {report.name}\n"]
    for reason, cases in report.not_applicable.items():
        lines.append(f"- {reason} ({len(cases)})")
    for case, error in report.failed.items():
        lines.append(f"- Failed: `{case.rpartition('.')[2]}`: `{error}`")
    return "\n".join(lines) + "\n"
