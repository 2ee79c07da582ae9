"""Speed of an exported pipeline in Node beside Python's `pipe`, on texts that neither has seen.

    python -m benchmarks.browser MODEL TEXTS.jsonl [--parts N] [--chromium METHOD]

Both annotate the first of 2 N parts of the texts, to warm up, then the others in turn, with
probabilities. The table has medians, of words per second of processor time. With --chromium,
headless Chromium takes the place of Node and Python. METHOD is annotate or redact, which replaces
candidates from 0.2 on.
"""

import argparse
import base64
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import IO, Any

import spacy
from spacy.language import Language

from lab import ROOT
from lab.browser import start_chromium
from lab.machine import describe_machine
from lab.tables import print_table
from spacy_bcrf.browser.export import export

SCRIPT = """
const { readFileSync } = await import("node:fs"), { load } = await import(process.argv[1]);
const pipeline = await load(readFileSync(process.argv[2]));
process.stdin.on("data", (line) => {
  const texts = JSON.parse(readFileSync(JSON.parse(line), "utf8")), began = process.cpuUsage();
  for (const text of texts) pipeline.annotate(text);
  const { user, system } = process.cpuUsage(began);
  console.log((user + system) / 1e6);
});
"""

PAGE = """<script>
BUNDLE
const model = bcrf.load(Uint8Array.from(atob("MODEL"), (x) => x.charCodeAt(0)));
</script>"""
IN_PAGE = """
const [method, texts, done] = arguments, options = method === "redact" ? { threshold: 0.2 } : {};
model.then((pipeline) => {
  for (const text of texts) pipeline[method](text, options);
  done("");
}).catch((error) => done(String(error)));
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of the pipeline")
    parser.add_argument("texts", type=Path, help="JSON lines with texts")
    parser.add_argument("--parts", type=int, default=5, help="N")
    parser.add_argument("--chromium", choices=["annotate", "redact"], metavar="METHOD")
    args = parser.parse_args()
    nlp = spacy.load(args.model)
    pipes: Any = dict(nlp.pipeline).values()
    for pipe in pipes:
        pipe.annotate = ["confidence"]
    texts = [json.loads(line)["text"] for line in args.texts.read_text("utf8").splitlines()]
    parts = [texts[k :: 2 * args.parts] for k in range(2 * args.parts)]
    if args.chromium:
        found = measure_chromium(nlp, parts, args.chromium)
        row = {"model": args.model, "method": args.chromium, "Chromium": f"{median(found):,.0f}"}
        print_table("words per second", [row], describe_machine(["spacy"]))
        return
    speeds = measure(nlp, parts)
    pairs = zip(speeds["JavaScript"], speeds["Python"], strict=True)
    ratio = median(one / other for one, other in pairs)
    row = {"model": args.model, **{name: f"{median(found):,.0f}" for name, found in speeds.items()}}
    print_table("words per second", [{**row, "ratio": f"{ratio:.2f}"}], describe_machine(["spacy"]))


def measure(nlp: Language, parts: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    """Return the words per second of each part but the first."""
    speeds: dict[str, list[float]] = {"JavaScript": [], "Python": []}
    with tempfile.TemporaryDirectory() as folder:
        model, file = Path(folder, "model.bcrf"), Path(folder, "texts.json")
        export(nlp, model)
        command = [shutil.which("node") or "node", "--input-type=module", "--eval", SCRIPT]
        with subprocess.Popen(
            [*command, ROOT / "js/src/index.js", model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as node:
            for k, texts in enumerate(parts):
                file.write_text(json.dumps(texts), "utf8")
                began = process_time()
                n_words = sum(map(len, nlp.pipe(texts)))
                seconds = process_time() - began
                other = ask(node.stdin, node.stdout, file)
                if k:
                    speeds["Python"].append(n_words / seconds)
                    speeds["JavaScript"].append(n_words / other)
    return speeds


def measure_chromium(nlp: Language, parts: Sequence[Sequence[str]], method: str) -> list[float]:
    """Return the words per second of each part but the first."""
    sys.path.insert(0, str(ROOT / "docs/theme"))
    from demo import bundle  # type: ignore[import-not-found]

    counts, speeds = [sum(len(nlp.make_doc(text)) for text in texts) for texts in parts], []
    with tempfile.TemporaryDirectory() as folder:
        model, page = Path(folder, "model.bcrf"), Path(folder, "page.html")
        export(nlp, model)
        data = base64.b64encode(model.read_bytes()).decode()
        script = PAGE.replace("BUNDLE", bundle().replace("</", "<\\/")).replace("MODEL", data)
        page.write_text(script, "utf8")
        with start_chromium() as chromium:
            chromium.set_script_timeout(300)
            chromium.get(page.as_uri())
            chromium.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            for texts, n_words in zip(parts, counts, strict=True):
                began = read_seconds(chromium)
                error = chromium.execute_async_script(IN_PAGE, method, texts)
                assert not error, error
                speeds.append(n_words / (read_seconds(chromium) - began))
    return speeds[1:]


def read_seconds(chromium: Any) -> float:
    """Return the processor time of the page."""
    metrics = chromium.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def ask(stdin: IO[str] | None, stdout: IO[str] | None, file: Path) -> float:
    """Return the seconds that Node takes for the texts of a file."""
    assert stdin and stdout
    stdin.write(json.dumps(str(file)) + "\n")
    stdin.flush()
    return float(stdout.readline())


if __name__ == "__main__":
    main()
