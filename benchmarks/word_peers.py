"""Words of Chinese and Japanese: a sparse segmenter against jieba and fugashi, in one run.

    python -m benchmarks.word_peers --corpora DIR

The peers have dictionaries and conventions of their own, and do not learn from the corpus. So their
F says how far they agree with Universal Dependencies.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from benchmarks.accuracy import linear_chain
from benchmarks.timing import interleave
from lab.labeling_tasks import TASKS
from lab.machine import describe_machine
from lab.options import add_options, need
from lab.tables import print_table
from spacy_bcrf.analysis.cross_fitting import fit_sparse_chain

PASSAGE = 20
"""Sentences of a passage: a longer text, where the cost of each call and each Doc matters less."""

Words = list[list[str]]
Segment = Callable[[list[str]], Words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--langs", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--passes", type=int, default=10, help="of the sparse chain")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of timing")
    parser.add_argument("--cache", type=Path, default=Path("training/labeling-tasks"))
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    for lang in args.langs:
        peer, load = PEERS[lang]
        # A missing package shows before the training.
        segment_by_peer = load()
        nlp, gold = train(lang, args)
        texts = ["".join(words) for words in gold]
        passages = ["".join(texts[i : i + PASSAGE]) for i in range(0, len(texts), PASSAGE)]
        # A pipeline makes a Doc, a peer a list of strings.
        run: dict[str, Callable[[list[str]], Any]] = {
            "sparse chain": partial(make_docs, nlp),
            "sparse chain, cut": partial(cut, nlp),
            peer: segment_by_peer,
        }
        seconds = interleave(
            {
                f"{name} {unit}": partial(segment, of_unit)
                for unit, of_unit in (("sentences", texts), ("passages", passages))
                for name, segment in run.items()
            },
            args.rounds,
            time.process_time,
        )
        n_characters = sum(map(len, texts))
        words = {
            "sparse chain, cut": cut(nlp, texts),
            "sparse chain": [[word.text for word in doc] for doc in nlp.pipe(texts)],
            peer: segment_by_peer(texts),
        }
        rows += [
            {
                "corpus": lang,
                "segmenter": name,
                "words F": f"{100 * f_of_words(gold, words[name]):.2f}",
                "chars/s": f"{n_characters / seconds[f'{name} sentences']:,.0f}",
                "in passages": f"{n_characters / seconds[f'{name} passages']:,.0f}",
            }
            for name in run
        ]
    notes = (
        f"{describe_machine(['spacy'])}\n"
        f"test part; chars/s: processor time of one thread, median of {args.rounds} interleaved "
        f"rounds, from a text to its Doc or strings; in passages: of {PASSAGE} sentences"
    )
    print_table("words of Chinese and Japanese", rows, notes, args.csv)


def train(lang: str, args: argparse.Namespace) -> tuple[Language, Words]:
    """Train a sparse segmenter. Return its pipeline, and the words of the test part."""
    task = TASKS[lang]
    nlp = task.make_nlp(linear_chain(task))
    train, test = (
        task.read(args.corpora, part, args.cache, nlp.vocab) for part in ("train", "test")
    )
    fit_sparse_chain(nlp, task.examples(nlp, train), args.passes)
    return nlp, [[word.text for word in doc] for doc in test]


def make_docs(nlp: Language, texts: list[str]) -> list[Doc]:
    return list(nlp.pipe(texts))


def cut(nlp: Language, texts: list[str]) -> Words:
    segmenter: Any = nlp.get_pipe("bcrf_segmenter")
    return list(segmenter.cut(texts))


def load_jieba() -> Segment:
    """Return the segmenter of jieba with its default dictionary."""
    jieba: Any = need("jieba")
    jieba.initialize()
    return lambda texts: [jieba.lcut(text) for text in texts]


def load_fugashi() -> Segment:
    """Return MeCab by fugashi, with the dictionary unidic-lite."""
    fugashi: Any = need("fugashi")
    tagger = fugashi.Tagger()
    return lambda texts: [[word.surface for word in tagger(text)] for text in texts]


PEERS: dict[str, tuple[str, Callable[[], Segment]]] = {
    "zh": ("jieba", load_jieba),
    "ja": ("fugashi, unidic-lite", load_fugashi),
}


def f_of_words(gold: Iterable[list[str]], found: Iterable[list[str]]) -> float:
    """Return F of the words' character offsets, over all texts together."""
    n_gold = n_found = n_right = 0
    for ours, theirs in zip(gold, found, strict=True):
        offsets, other = (
            set(pairwise(accumulate(map(len, words), initial=0))) for words in (ours, theirs)
        )
        n_gold, n_found = n_gold + len(offsets), n_found + len(other)
        n_right += len(offsets & other)
    return 2 * n_right / max(n_gold + n_found, 1)


if __name__ == "__main__":
    main()
