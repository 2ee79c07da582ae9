"""Print the tags and entities that a pipeline predicts for some texts.

python -m experiments.annotate MODEL TEXT...
"""

import argparse

import spacy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of a pipeline")
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    args = parser.parse_args()
    for doc in spacy.load(args.model).pipe(args.texts):
        print(f"\n{doc.text}")
        print("  " + " ".join(f"{token.text}/{token.tag_}" for token in doc))
        for ent in doc.ents:
            print(f"  {ent.label_:8}{ent.text}")
        if not doc.ents:
            print("  no entities")


if __name__ == "__main__":
    main()
