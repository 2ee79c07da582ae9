"""Train, evaluate and use a pipeline by spaCy's commands, in processes that no test has changed.

    python -m tests.unpatched

`make test` runs it. The other tests replace parts of spaCy and NumPy (conftest.py, light_spacy.py).
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import spacy

ROOT = Path(__file__).resolve().parent.parent
STEPS = 60


def run(*arguments: object) -> None:
    """Run `python -m spacy`. CalledProcessError if it fails."""
    subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)], check=True)


def main() -> None:
    """Train on a few sentences. AssertionError if the pipeline has not learned them."""
    with TemporaryDirectory() as folder:
        data, output, metrics = (Path(folder) / name for name in ("dev.spacy", "out", "f.json"))
        run("bcrf", "convert", ROOT / "assets/sample/dev.conllu", data, "--lang", "en")
        paths = ["--paths.train", data, "--paths.dev", data]
        steps = ["--training.max_steps", STEPS, "--training.eval_frequency", STEPS]
        run("train", ROOT / "configs/ner.cfg", "--output", output, *paths, *steps)
        run("evaluate", output / "model-last", data, "--output", metrics)
        nlp = spacy.load(output / "model-last")
        found = nlp.evaluate(list(spacy.training.Corpus(data)(nlp)))
        assert found["ents_f"] > 0.5, found
        nlp.get_pipe("ner").annotate = ["confidence"]
        doc = nlp("The council will meet again on Thursday to vote on the new library.")
        for ent in doc.ents:
            print(ent.text, ent.label_, round(ent._.confidence, 2))
        assert doc.ents


if __name__ == "__main__":
    main()
