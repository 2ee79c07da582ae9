"""Seconds until a page of `review` shows its first documents, in headless Chromium.

    python -m benchmarks.review_page

Needs the extra `browser` and Debian's packages chromium and chromium-driver.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from lab.browser import start_chromium
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.tables import print_table
from spacy_bcrf.cli.review.page import fill_page

N_WORDS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--rounds", type=int, default=5)
    add_csv_option(parser)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, start_chromium() as driver:
        for n_docs in args.documents:
            file = Path(folder, "page.html")
            file.write_text(fill_page(page_data(n_docs)), encoding="utf8")
            seconds = []
            for _ in range(args.rounds):
                start = time.perf_counter()
                driver.get(file.as_uri())
                seconds.append(time.perf_counter() - start)
            rows.append(
                {
                    "documents": f"{n_docs:,}",
                    "rendered at first": len(driver.find_elements("tag name", "article")),
                    "page, MB": f"{file.stat().st_size / 1e6:.1f}",
                    "seconds": f"{median(seconds):.2f}",
                }
            )
    machine = describe_machine(["selenium"])
    notes = f"{machine}\n{N_WORDS} words a document; median of {args.rounds} loads"
    print_table("A page of review", rows, notes, args.csv)


def page_data(n_docs: int) -> dict[str, Any]:
    """Return the data of a page of documents with a span at each end."""
    words = ["Ann", *["word"] * (N_WORDS - 2), "Oslo"]
    starts = [sum(len(word) + 1 for word in words[:i]) for i in range(N_WORDS)]
    document = {
        "text": " ".join(words),
        "starts": starts,
        "ends": [start + len(word) for start, word in zip(starts, words, strict=True)],
        "spans": [[0, 1, 0, 0.9, True], [N_WORDS - 1, N_WORDS, 1, 0.8, True]],
        "alternatives": [],
        "errors": 0.3,
        "entropy": 0.1,
    }
    return {
        "key": "benchmark",
        "title": "texts",
        "file": "texts.reviewed.jsonl",
        "labels": ["PER", "LOC"],
        "overlap": False,
        "maxAlternatives": 5,
        "documents": [document] * n_docs,
    }


if __name__ == "__main__":
    main()
