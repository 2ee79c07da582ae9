"""Random texts and streams of `redact`, undone by `restore`, and streams that may not wait.

python -m tests.attack.redact_undo [--texts N] [--streams N] [--numbers N]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.privacy.occurrences import Region
from spacy_bcrf.privacy.recall_promise import find_promise
from spacy_bcrf.privacy.redact import find_private_spans, replace_spans
from spacy_bcrf.privacy.redact_stream import RedactionStream
from spacy_bcrf.privacy.replacer import Replacer
from spacy_bcrf.privacy.restore import Restorer, TextChange, restore
from spacy_bcrf.privacy.vault import Vault

NLP = spacy.blank("xx")
ODD = ["[", "]", "[PERSON_1]", "PERSON_1", "person_2", "[PERSON_", "1]", "_1", "[TEXT_1]", "\\"]
ODD += ["[PERSON_1.2]", "[person 1]", "**", "PERSON\\_1", "_", ".", "1", "[[", "loc_1", "\0number"]
ODD += ["\0", "\uff11", "%5B", "\u200b", "PERSON_1.", "[PER_1]", "per_2", "[LOC_"]
WORDS = ["Ann", "Ann Lee", "ANN", "A. Lee", "Lee's", "0171 55", "saw", "\n", "e\u0301", "東京"]
NAMES = ("Ann Lee", "Bob Ray", "Eve May", "Ida Fox")
PLACES = ("Rome", "Oslo", "Kiel", "Bonn")
OF_STREAM = [*NAMES, "Ann", "Lee", "May", "and", "Kiel", "see", "Lee-Fox", "."]
LAGS = (1, 2, 3, 4, 8, 12)
MOST_TEXTS = 500
"""Most texts with one vault."""


@cache
def pipeline() -> Language:
    """Return a chain that knows some names and places."""
    vocab, docs = spacy.blank("en").vocab, []
    for name in NAMES:
        for place in PLACES:
            words = [*name.split(), "saw", place, "and", "will", "see", "it", "."]
            ents = ["B-PER", "I-PER", "O", "B-LOC", *["O"] * 5]
            docs.append(Doc(vocab, words=words, ents=ents))
    docs.append(Doc(vocab, words=["May", "it", "see", "in", "May"], ents=["O"] * 5))
    return train_sparse_chain(docs, ["LOC", "PER"], lang="en")


def join(rng: random.Random, words: Sequence[str], n: int) -> str:
    return "".join(word + rng.choice(["", " "]) for word in rng.choices(words, k=n))


def cut(rng: random.Random, text: str) -> Iterator[str]:
    """Yield the pieces of a text."""
    while text:
        n = rng.randint(1, 9)
        yield text[:n]
        text = text[n:]


def change(stream: TextChange, rng: random.Random, text: str) -> str:
    return "".join(map(stream.feed, cut(rng, text))) + stream.close()[0]


def check_texts(n: int, seed: int = 0) -> None:
    """AssertionError for a text that is not the same after `restore`, whole or in pieces."""
    rng = random.Random(seed)
    for i in range(n):
        if i % MOST_TEXTS == 0:
            vault = Vault(["PERSON", "LOC"])
            replacer = Replacer("numbered", vault=vault)
        text = join(rng, WORDS + ODD, rng.randint(1, 12))
        doc, spans = NLP.make_doc(text), []
        for _ in range(rng.randrange(4)):
            first = rng.randrange(len(doc))
            last = doc[min(len(doc) - 1, first + rng.randrange(3))]
            bounds = doc[first].idx, last.idx + len(last)
            spans.append(Region(*bounds, rng.choice(["PERSON", "A b"]), rng.random()))
        one = replace_spans(doc, spans, np.full(len(doc), 0.5), replacer)
        assert restore(one.text, vault) == (text, len(one.regions), 0)
        answer = one.text + rng.choice(["", " person_1's **[PERSON_1]** [A_B_99] x_PERSON_1"])
        restorer = Restorer(vault)
        new = change(restorer, rng, answer)
        assert (new, restorer.n_restored, restorer.n_unknown) == restore(answer, vault)


def check_streams(n: int, seed: int = 0) -> None:
    """AssertionError for a redacted stream whose restored stream is another text."""
    rng = random.Random(seed)
    for i in range(n):
        if i % MOST_TEXTS == 0:
            vault = Vault()
        text = join(rng, OF_STREAM + ODD, rng.randint(1, 25))
        options = {"style": "numbered", "vault": vault, "max_lag": rng.choice([None, 1, 3])}
        new = change(RedactionStream(pipeline(), threshold=0.2, **options), rng, text)
        assert change(Restorer(vault), rng, new) == text, text


def check_max_lag(max_lag: int, n: int) -> None:
    """AssertionError for a stream that releases a part of a candidate above the threshold."""
    nlp, rng = pipeline(), random.Random(max_lag)
    labeler = nlp.get_pipe("ner")
    for _ in range(n):
        threshold = rng.choice([0.1, 0.2, 0.4])
        text = " ".join(rng.choices(OF_STREAM, k=rng.randint(1, 24)))
        stream = RedactionStream(nlp, threshold=threshold, max_lag=max_lag)
        for piece in cut(rng, text):
            stream.feed(piece)
        found = stream.close()[1].redacted.regions
        promise = find_promise("ner", labeler, threshold)
        ((spans, _),) = find_private_spans(labeler, [nlp.make_doc(text)], promise)
        covered = {i for r in found for i in range(r.start, r.end)}
        assert {i for s in spans for i in range(s.start, s.end) if text[i] != " "} <= covered, text


def check_numbers(n: int) -> None:
    """AssertionError if two numbers of 16 digits have one surrogate."""
    replacer = Replacer("surrogate", b"key")
    new = np.fromiter((int(replacer.replace(f"{i:016}", "ID")) for i in range(n)), np.int64, n)
    assert len(np.unique(new)) == n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--numbers", type=int, default=10_000_000)
    args = parser.parse_args()
    check_texts(args.texts)
    print(f"{args.texts:,} texts are undone, whole and in pieces", flush=True)
    check_streams(args.streams)
    print(f"{args.streams:,} streams are undone", flush=True)
    for max_lag in LAGS:
        check_max_lag(max_lag, args.streams)
        print(f"max_lag {max_lag}: {args.streams:,} streams release no candidate", flush=True)
    check_numbers(args.numbers)
    print(f"{args.numbers:,} numbers have different surrogates", flush=True)


if __name__ == "__main__":
    main()
