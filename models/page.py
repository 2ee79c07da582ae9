"""Write the page of pipelines from the cards of those that `python -m models.build` has built.

python -m models.page [--output docs/pipelines.md]
"""

import argparse
import re
from pathlib import Path

import srsly

from bcrf.io.atomic import write_text
from lab import ROOT
from spacy_bcrf.serve.pages.report_page import table

from .build import MODELS, WORK

HEAD = """# Pipelines

Small pipelines for a CPU, with calibrated probabilities and guarantees of precision and recall.
`nlp.meta["promises"]` lists the promises, and `pipe.control` takes one. `redact` needs one with
"covered". `python -m models.page` writes this page from the cards of the pipelines.

In a clone, `make models` builds their wheels into `dist` from public corpora.
`make models MODEL=NAME` builds one, in 2 to 13 minutes of processor time. `CORPORA=DIR` reads
a folder instead of a download. Install a wheel beside spacy-bcrf. A pipeline warns on loading if it
needs other versions than the installed ones. The card in the wheel, its README.md, has the scores
by label, the promises and the sources. F of another processor or build can differ within the
interval. The scores of `es_bcrf_clinical` are from dev. Speeds: one thread of an AMD EPYC
(`en_bcrf_web`: an older machine).
"""
HEADER = ("pipeline", "F on test", "calibration error", "words/s", "MB", "licence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs/pipelines.md")
    args = parser.parse_args()
    names = sorted(path.parent.name for path in MODELS.glob("*/project.yml"))
    built = [WORK / name for name in names if (WORK / name / "package/pipeline").exists()]
    cards = [(path / "package/pipeline/README.md").read_text("utf8") for path in built]
    lines = [HEAD, *table(HEADER, map(describe, built))]
    write_text(args.output, "\n".join([*lines, "", *map(demote, cards)]))


def demote(card: str) -> str:
    """Return the head and the limits of a card, with headings one level lower.

    The tests of pages do not run its code, which may have lines that look like headings.
    """
    head, *sections = re.split(r"^(?=## )", card, flags=re.MULTILINE)
    card = head + "".join(each for each in sections if each.startswith("## Data and limits"))
    parts = card.replace("```python", "```py").split("```")
    parts[::2] = [re.sub(r"^#", "##", part, flags=re.MULTILINE) for part in parts[::2]]
    return "```".join(parts)


def describe(work: Path) -> tuple[str, ...]:
    """Return the row of a pipeline in the table of all."""
    scores = srsly.read_json(work / "report.json")
    meta = srsly.read_json(work / "package/pipeline/meta.json")
    (wheel,) = (work / "package").glob("*/dist/*.whl")
    f = scores["scores"]["exact"][0]["f"]
    return (
        f"[{work.name}](#{work.name})",
        f"{100 * f['value']:.1f} ({100 * f['low']:.1f} to {100 * f['high']:.1f})",
        f"{scores['calibration'][0]['error']:.3f}",
        f"{meta['performance']['speed']:,.0f}",
        f"{wheel.stat().st_size / 1e6:.1f}",
        meta["license"],
    )


def note_differences(work: Path, page: Path = ROOT / "docs/pipelines.md") -> list[str]:
    """Return how the figures of a built pipeline differ from its row in a page."""
    name, *found = describe(work)
    rows = [line.strip("| ").split(" | ") for line in page.read_text("utf8").splitlines()]
    listed = next((row[1:] for row in rows if row[0] == name), [])
    columns = zip(HEADER[1:], found, listed or ["nothing"] * len(found), strict=True)
    return [f"{work.name}: {column} {a}; the page has {b}" for column, a, b in columns if a != b]


if __name__ == "__main__":
    main()
