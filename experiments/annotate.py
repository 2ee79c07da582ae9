"""Show what a pipeline says of some sentences: python -m experiments.annotate MODEL TEXT..."""

import sys

import spacy


def main(model: str, texts: list[str]) -> None:
    nlp = spacy.load(model)
    for doc in nlp.pipe(texts):
        print(f"\n{doc.text}")
        print("  " + " ".join(f"{token.text}/{token.tag_}" for token in doc))
        for ent in doc.ents:
            print(f"  {ent.label_:8}{ent.text}")
        if not doc.ents:
            print("  no entities")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
