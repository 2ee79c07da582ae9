"""Print the test scores of the quickstart beside spaCy's, and what the pipeline predicts for texts.

python -m experiments.quickstart MODEL METRICS TEXT...
"""

import argparse
import json
from pathlib import Path
from typing import Any

import spacy

SPACY = Path(__file__).resolve().parent.parent / "assets/english/spacy.json"
"""Scores of spaCy's components, see assets/english/README.md."""

SCORES = {"tag_acc": "tags, accuracy", "ents_f": "entities, F"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of a pipeline")
    parser.add_argument("metrics", type=Path, help="file that `spacy evaluate` wrote")
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    args = parser.parse_args()
    ours, other = (json.loads(path.read_text("utf8")) for path in (args.metrics, SPACY))
    print(f"\n{'test':<18}{'ours':>10}{'spaCy':>10}")
    for key, name in SCORES.items():
        print(f"{name:<18}{100 * ours[key]:>10.2f}{100 * other[key]:>10.2f}")
    print(f"spaCy's figures were measured before: {other['measured']}")
    nlp = spacy.load(args.model)
    pipe: Any = nlp.get_pipe("ner")
    pipe.annotate = ["confidence"]
    for doc in nlp.pipe(args.texts):
        print(f"\n{doc.text}")
        print("  " + " ".join(f"{token.text}/{token.tag_}" for token in doc))
        for ent in doc.ents:
            print(f"  {ent.label_:<8}{ent.text:<20}{ent._.confidence:.2f}")
        if not doc.ents:
            print("  no entities")


if __name__ == "__main__":
    main()
