"""`bcrf.sklearn` against sklearn-crfsuite, with the features and settings of its tutorial.

    python -m benchmarks.crfsuite_interface --corpora DIR [--rounds N] [--sequences N]

Chunks of CoNLL-2000 and entities of JNLPBA. Processor seconds of one process: both libraries use
one thread. JNLPBA has no parts of speech, so that the word's length stands in their place.
"""

import argparse
from pathlib import Path
from time import process_time
from typing import Any

from bcrf.io.text import find_file, read_lines
from bcrf.schemes import read_spans
from bcrf.sklearn import CRF
from benchmarks.timing import interleave
from lab.machine import describe_machine
from lab.options import add_options, need
from lab.tables import Row, print_table

Sentence = list[list[str]]
CORPORA = {
    "CoNLL-2000": ("conll2000/train.txt", "conll2000/test.txt"),
    "JNLPBA": ("jnlpba/train.tsv", "jnlpba/test.tsv"),
}
SETTINGS: dict[str, Any] = {
    "algorithm": "lbfgs",
    "c1": 0.1,
    "c2": 0.1,
    "max_iterations": 100,
    "all_possible_transitions": True,
}


def read(path: Path) -> list[Sentence]:
    """Read sentences of columns: the word, its part of speech, its tag."""
    sentences: list[Sentence] = [[]]
    for line in read_lines(find_file(path)):
        fields = line.text.split()
        if not fields or fields[0].startswith(("###", "-DOCSTART-")):
            sentences.append([])
        else:
            pos = fields[1] if len(fields) == 3 else str(min(len(fields[0]), 9))
            sentences[-1].append([fields[0], pos, fields[-1]])
    return [sentence for sentence in sentences if sentence]


def describe(sentence: Sentence, i: int) -> dict[str, Any]:
    """Return the features of sklearn-crfsuite's tutorial (CoNLL-2002)."""
    word, pos, _ = sentence[i]
    features: dict[str, Any] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": pos,
        "postag[:2]": pos[:2],
    }
    for offset, edge in (-1, "BOS"), (1, "EOS"):
        if not 0 <= i + offset < len(sentence):
            features[edge] = True
            continue
        word, pos, _ = sentence[i + offset]
        features |= {
            f"{offset:+}:word.lower()": word.lower(),
            f"{offset:+}:word.istitle()": word.istitle(),
            f"{offset:+}:word.isupper()": word.isupper(),
            f"{offset:+}:postag": pos,
            f"{offset:+}:postag[:2]": pos[:2],
        }
    return features


def find_f(gold: list[list[str]], found: list[list[str]]) -> float:
    """Return the F of spans as conlleval does, in percent."""
    right = n_gold = n_found = 0
    for a, b in zip(gold, found, strict=True):
        spans, others = set(read_spans(a)), set(read_spans(b))
        right += len(spans & others)
        n_gold, n_found = n_gold + len(spans), n_found + len(others)
    return 200 * right / max(n_gold + n_found, 1)


def compare(name: str, folder: Path, sequences: int, rounds: int) -> list[Row]:
    """Train each library once, then predict in turn."""
    sklearn_crfsuite = need("sklearn_crfsuite")
    parts = []
    for i, path in enumerate(CORPORA[name]):
        sentences = read(folder / path)[: sequences if i == 0 and sequences else None]
        X = [[describe(sentence, i) for i in range(len(sentence))] for sentence in sentences]
        parts.append((X, [[tag for _, _, tag in sentence] for sentence in sentences]))
    (X, y), (X_test, gold) = parts
    n_tokens = sum(map(len, X_test))
    crfs = {
        "ours, L-BFGS": CRF(**SETTINGS),
        "ours, defaults": CRF(),
        "sklearn-crfsuite": sklearn_crfsuite.CRF(**SETTINGS),
    }
    training = {}
    for library, crf in crfs.items():
        start = process_time()
        crf.fit(X, y)
        training[library] = process_time() - start
    contenders = {library: lambda crf=crf: crf.predict(X_test) for library, crf in crfs.items()}
    predicting = interleave(contenders, rounds, process_time)
    return [
        {
            "corpus": name,
            "sentences": len(X),
            "library": library,
            "F": f"{find_f(gold, [list(tags) for tags in crf.predict(X_test)]):.2f}",
            "training, s": f"{training[library]:.1f}",
            "times as fast": f"{training['sklearn-crfsuite'] / training[library]:.1f}",
            "prediction, us/word": f"{predicting[library] / n_tokens * 1e6:.2f}",
            "as fast": f"{predicting['sklearn-crfsuite'] / predicting[library]:.1f}",
        }
        for library, crf in crfs.items()
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--rounds", type=int, default=5, help="predictions of the test part")
    parser.add_argument("--sequences", type=int, default=0, help="of the training part; 0 for all")
    args = parser.parse_args()
    rows = []
    for name in CORPORA:
        rows += compare(name, args.corpora, args.sequences, args.rounds)
    print_table(
        "scikit-learn's interface: tutorial features",
        rows,
        f"{describe_machine(['sklearn-crfsuite', 'python-crfsuite'])}\n"
        f"Processor seconds; predictions: median of {args.rounds} rounds",
        args.csv,
    )


if __name__ == "__main__":
    main()
