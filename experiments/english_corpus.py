"""Join UD English EWT and UNER English EWT to the corpus of the quickstart, assets/english.

    python -m experiments.english_corpus CORPORA assets/english

CORPORA has the folders ud-english-ewt and uner-english-ewt. The train part of UNER is not among
them. So every tenth sentence of its dev part is our dev part, and the others are in our train part.
"""

import argparse
import lzma
from collections.abc import Iterator
from pathlib import Path

from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.text import find_file, read_lines

Sentence = tuple[list[str], list[list[str]]]
"""Comments and rows of columns."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    tags, entities = (
        {part: list(read(find_file(args.corpora / pattern.format(part)))) for part in parts}
        for pattern, parts in (
            ("ud-english-ewt/en_ewt-ud-{}.conllu", ("train", "dev", "test")),
            ("uner-english-ewt/en_ewt-ud-{}.iob2", ("dev", "test")),
        )
    )
    train = [join(sentence, None) for sentence in tags["train"]]
    both = {
        part: [join(tagged, by_id.get(sentence_id(tagged))) for tagged in tags[part]]
        for part in ("dev", "test")
        for by_id in [{sentence_id(sentence): sentence for sentence in entities[part]}]
    }
    train += [block for i, block in enumerate(both["dev"]) if i % 10]
    for part, blocks in (("train", train), ("dev", both["dev"][::10]), ("test", both["test"])):
        text = "".join(blocks)
        with replacing(args.output / f"{part}.conllu.xz") as path:
            path.write_bytes(lzma.compress(text.encode("utf8"), preset=9))
        n_annotated = sum("NER=" in block for block in blocks)
        n_entities = text.count("NER=B-")
        n_tokens = sum(line[:1].isdigit() for line in text.split("\n"))
        print(
            f"{part}: {len(blocks):,} sentences, {n_tokens:,} tokens; {n_annotated:,} sentences "
            f"with entity annotation, {n_entities:,} entities"
        )


def read(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file in CoNLL-U or IOB2."""
    comments: list[str] = []
    rows: list[list[str]] = []
    for _, _, line in read_lines(path):
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
