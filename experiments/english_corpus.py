"""Join UD English EWT and UNER English EWT to one corpus of tags and entities, in CoNLL-U.

    python -m experiments.english_corpus CORPORA OUTPUT

CORPORA has the folders ud-english-ewt and uner-english-ewt of `python -m spacy project assets`.
Each part of UD gets the entities of UNER. Without UNER's train part, nine tenths of the sentences
of the dev part go to the train part, and every tenth one stays. So was assets/english made.
"""

import argparse
import lzma
from collections.abc import Iterator
from pathlib import Path

from bcrf.io.atomic import replacing
from bcrf.io.text import find_file, read_lines

EWT, UNER = "ud-english-ewt/en_ewt-ud-{}.conllu", "uner-english-ewt/en_ewt-ud-{}.iob2"

Sentence = tuple[list[str], list[list[str]]]
"""Comments and rows of columns."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    blocks = {part: list(join_part(args.corpora, part)) for part in ("train", "dev", "test")}
    if not find_file(args.corpora / UNER.format("train")).exists():
        blocks["train"] += [block for i, block in enumerate(blocks["dev"]) if i % 10]
        blocks["dev"] = blocks["dev"][::10]
    for part, of_part in blocks.items():
        text = "".join(of_part)
        with replacing(args.output / f"{part}.conllu.xz") as path:
            path.write_bytes(lzma.compress(text.encode("utf8"), preset=9))
        n_annotated = sum("NER=" in block for block in of_part)
        n_entities = text.count("NER=B-")
        n_tokens = sum(line.split("\t")[0].isdigit() for line in text.split("\n"))
        print(
            f"{part}: {len(of_part):,} sentences, {n_tokens:,} tokens; {n_annotated:,} sentences "
            f"with entity annotation, {n_entities:,} entities"
        )


def join_part(corpora: Path, part: str) -> Iterator[str]:
    """Yield the sentences of a part as CoNLL-U, with entities where UNER has them."""
    path = find_file(corpora / UNER.format(part))
    recognized = {sentence_id(found): found for found in (read(path) if path.exists() else ())}
    for tagged in read(find_file(corpora / EWT.format(part))):
        yield join(tagged, recognized.get(sentence_id(tagged)))


def read(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file in CoNLL-U or IOB2."""
    comments: list[str] = []
    rows: list[list[str]] = []
    for _, _, line, *_ in read_lines(path):
        if not line and rows:
            yield comments, rows
            comments, rows = [], []
        elif line.startswith("# "):
            comments.append(line)
        elif line:
            rows.append(line.split("\t"))
    if rows:
        yield comments, rows


def sentence_id(sentence: Sentence) -> str:
    """Return the comment that names a sentence. UNER has the documents in another order."""
    return next(comment for comment in sentence[0] if comment.startswith("# sent_id"))


def join(tagged: Sentence, recognized: Sentence | None) -> str:
    """Return a sentence as CoNLL-U with its words, tags and spaces, and with its entities if known.

    A sentence whose words differ in UNER keeps its tags and gets no entity annotation.
    """
    comments, rows = tagged
    tags: Iterator[str] | None = None
    if recognized is not None:
        words = [row[1] for row in rows if row[0].isdigit()]
        if words == [row[1] for row in recognized[1]]:
            tags = iter([row[2] for row in recognized[1]])
    lines = [line for line in comments if line.startswith(("# sent_id", "# text ="))]
    for row in rows:
        if "." in row[0]:
            continue  # an empty node
        misc = [item for item in row[9].split("|") if item == "SpaceAfter=No"]
        if tags is not None and row[0].isdigit():
            misc.append(f"NER={next(tags)}")
        columns = [row[0], row[1], "_", row[3], "_", "_", "_", "_", "_", "|".join(misc) or "_"]
        lines.append("\t".join(columns))
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    main()
