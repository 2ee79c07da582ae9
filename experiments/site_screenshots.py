"""Draw the pictures of pages in the documentation: docs/review.png and docs/report.png.

    python -m experiments.site_screenshots training/english/model-best corpus/english/dev.spacy

`make quickstart` trains the model. Needs the extra `browser` and Debian's packages chromium and
chromium-driver.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from lab import ROOT
from lab.browser import start_chromium

KEYS = {"review": "jarjjj", "report": ""}
"""Keys that are pressed before the picture."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of a pipeline with a bcrf_ner named ner")
    parser.add_argument("gold", type=Path, help="gold documents")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", metavar="FOLDER")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        start_chromium("--window-size=1120,960") as driver,
    ):
        for name, keys in KEYS.items():
            page = Path(folder, f"{name}.html")
            command = [sys.executable, "-m", "spacy", "bcrf", name, args.model, args.gold]
            subprocess.run([*command, "--pipe", "ner", "--output", page], check=True)
            driver.get(page.as_uri())
            for key in keys:
                driver.find_element("tag name", "body").send_keys(key)
            driver.save_screenshot(str(args.output / f"{name}.png"))


if __name__ == "__main__":
    main()
