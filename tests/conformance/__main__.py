"""Run the tests of other libraries on our code, and write README.md of this folder.

    python -m tests.conformance [--sources DIR] [SUITE ...]

Exits with status 1 if a case fails, or no longer applies that passed in the results before. Those
of this suite then stay.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.page import PAGE, make_page, read_reports
from tests.conformance.suites import RESULTS, MissingError, find_suites, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    suites = find_suites()
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="one of " + ", ".join(suites))
    parser.add_argument("--sources", type=Path, metavar="DIR", help="the folder of checkouts")
    args = parser.parse_args()
    if unknown := set(args.suites) - set(suites):
        parser.error(f"unknown suite {min(unknown)}; the suites are {', '.join(suites)}")
    status = 0
    pool = ThreadPoolExecutor(os.cpu_count())
    runs = {n: pool.submit(run, suites[n], args.sources) for n in args.suites or suites}
    for name, done in runs.items():
        try:
            report = done.result()
        except MissingError as error:
            print(f"{name}: skipped, {error}", flush=True)
            continue
        except RuntimeError as error:  # the other suites go on
            print(error, flush=True)
            status = 1
            continue
        before = [known for known in read_reports() if known.name == name]
        if lost := max((report.lost(known) for known in before), default=0):
            print(f"{name}: {lost} cases no longer apply, which passed before")
            status = 1
        else:
            report.write(RESULTS)
        apart = sum(map(len, report.not_applicable.values()))
        print(
            f"{name}: {report.passed} passed, {apart} not applicable, {len(report.failed)} failed",
            flush=True,
        )
        for case, error in report.failed.items():
            print(f"  {case}: {error}")
            status = 1
    PAGE.write_text(make_page(read_reports()), encoding="utf8")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
