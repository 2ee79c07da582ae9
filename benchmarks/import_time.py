"""Time that the plug-in adds to `spacy.blank("en")` in a fresh process.

python -m benchmarks.import_time
"""

import argparse
import subprocess
import sys
from statistics import median

from lab.machine import describe_machine
from lab.tables import print_table

# Times `spacy.blank`, with or without the entry points of this package.
CHILD = """
import importlib.metadata as metadata, sys, time
if "{contender}" == "without":
    points = metadata.Distribution.entry_points
    metadata.Distribution.entry_points = property(
        lambda self: metadata.EntryPoints() if self.name == "spacy-bcrf" else points.fget(self)
    )
import spacy
start = time.perf_counter()
spacy.blank("en")
print(time.perf_counter() - start)
assert ("spacy_bcrf.pipeline" in sys.modules) == ("{contender}" == "with"), sorted(sys.modules)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(rounds):
        for contender, times in seconds.items():
            code = CHILD.format(contender=contender)
            run = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            times.append(float(run.stdout))
    ms = {contender: 1000 * median(times) for contender, times in seconds.items()}
    rows = [{"plug-in": contender, "ms": f"{time:.0f}"} for contender, time in ms.items()]
    rows.append({"plug-in": "difference", "ms": f"{ms['with'] - ms['without']:.1f}"})
    notes = f"{describe_machine(['spacy'])}\nmedian of {rounds} interleaved fresh processes"
    print_table('spacy.blank("en")', rows, notes)


if __name__ == "__main__":
    main()
