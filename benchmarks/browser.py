"""Speed of an exported pipeline in Node beside Python's `pipe`, on texts that neither has seen.

    python -m benchmarks.browser MODEL TEXTS.jsonl [--parts N]

Both annotate the first of 2 N parts of the texts, to warm up, then the others in turn, with
probabilities. The table has medians, of words per second of processor time.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import IO, Any

import spacy
from spacy.language import Language

from lab import ROOT
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of the pipeline")
    parser.add_argument("texts", type=Path, help="JSON lines with texts")
    parser.add_argument("--parts", type=int, default=5, help="N")
    args = parser.parse_args()
    nlp = spacy.load(args.model)
    pipes: Any = dict(nlp.pipeline).values()
    for pipe in pipes:
        pipe.annotate = ["confidence"]
    texts = [json.loads(line)["text"] for line in args.texts.read_text("utf8").splitlines()]
    parts = [texts[k :: 2 * args.parts] for k in range(2 * args.parts)]
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


def ask(stdin: IO[str] | None, stdout: IO[str] | None, file: Path) -> float:
    """Return the seconds that Node takes for the texts of a file."""
    assert stdin and stdout
    stdin.write(json.dumps(str(file)) + "\n")
    stdin.flush()
    return float(stdout.readline())


if __name__ == "__main__":
    main()
