"""Streams of sparse chains against whole texts: lag, time of a token, and equal results.

    python -m benchmarks.streams --corpora DIR [--tokens N] [--rounds N] [--only CORPUS ..]

A chain learns a part of the training data. Texts of 20 test sentences arrive in random pieces of 1
to 40 characters. The lag is the number of words between a word and the last one that is known when
it becomes final, less the look-ahead of the features. Processor seconds of one process. If a
stream gives probabilities, the whole text gets the probabilities of its entities in its time, too.
"""

import argparse
import random
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from benchmarks import spans
from benchmarks.timing import clock_of, time_rounds
from lab.labeling_tasks import TASKS
from lab.machine import describe_machine
from lab.options import add_options
from lab.tables import print_table
from spacy_bcrf.pipeline.stream import Final

N_TRAIN = 800
PASSES = 2
THRESHOLD = 0.3
"""Of the decoder for F."""
LOOK_AHEAD = 2
"""Words that the template sets read ahead."""
MODES = {
    "uner": ("tags", "probabilities", "best F"),
    "wnut17": ("tags", "probabilities", "best F"),
    "jnlpba": ("tags", "probabilities", "best F"),
    "genia": ("probabilities", "best F"),  # chains side by side always have probabilities
    "zh": ("tags",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--tokens", type=int, default=5000, help="tokens of a corpus")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=MODES, default=list(MODES))
    args = parser.parse_args()
    rows = []
    for corpus in args.only:
        nlp, texts = train(corpus, args.corpora)
        kept, n = [], 0
        for text in texts:
            if n < args.tokens:
                kept.append(text)
                n += len(nlp.make_doc(text))
        rows += [measure(nlp, corpus, mode, kept, n, args.rounds) for mode in MODES[corpus]]
    notes = f"{describe_machine(['spacy'])}\nprocessor seconds, least of {args.rounds} rounds"
    print_table("Streams", rows, notes, args.csv)


def train(corpus: str, corpora: Path) -> tuple[Language, list[str]]:
    """Return a pipeline with the component x, and test texts of 20 sentences."""
    model: dict[str, Any] = {"@architectures": "spacy-bcrf.LinearChain.v1", "objective": "crf"}
    if corpus == "genia":
        nlp = spacy.blank("en")
        nlp.add_pipe("bcrf_spans", config={"model": {**model, "templates": "biomedical"}})
        parts = [spans.read(corpora, "genia", part, nlp.vocab) for part in ("train", "test")]
        examples = [
            Example(bare, gold) for bare, gold in zip(spans.bare(parts[0]), parts[0], strict=True)
        ]
    else:
        task = TASKS[corpus]
        nlp = task.make_nlp({**model, "templates": task.templates})
        with tempfile.TemporaryDirectory() as cache:
            read = partial(task.read, corpora, cache=Path(cache), vocab=nlp.vocab)
            parts = [read("train"), read("test")]
        examples = task.examples(nlp, parts[0][:N_TRAIN])
    examples, rng = examples[:N_TRAIN], random.Random(0)
    nlp.initialize(lambda: examples)
    for _ in range(PASSES):
        rng.shuffle(examples)
        for batch in minibatch(examples, 64):
            nlp.update(batch)
    test, blank = parts[1], "" if corpus == "zh" else " "
    return nlp, [blank.join(doc.text for doc in test[i : i + 20]) for i in range(0, len(test), 20)]


def cut(text: str, seed: int) -> Iterator[str]:
    """Yield a text in pieces of 1 to 40 characters."""
    rng, at = random.Random(seed), 0
    while at < len(text):
        size = rng.randint(1, 40)
        yield text[at : at + size]
        at += size


def measure(
    nlp: Language, corpus: str, mode: str, texts: list[str], n: int, rounds: int
) -> dict[str, object]:
    (name,) = nlp.pipe_names
    pipe: Any = nlp.get_pipe(name)
    pieces = [list(cut(text, seed)) for seed, text in enumerate(texts)]
    options = {"probabilities": mode == "probabilities"}
    pipe.annotate = ("confidence",) if options["probabilities"] and not pipe.codec.layered else ()
    pipe.set_decoder("f" if mode == "best F" else "viterbi")
    pipe.threshold = THRESHOLD if mode == "best F" else 0

    def annotate() -> list[Any]:
        return [pipe.predict([nlp.make_doc(text)])[0] for text in texts]

    def stream() -> list[Final]:
        found = []
        for of_text in pieces:
            each = pipe.stream(nlp.tokenizer, **options)
            finals = [*map(each.feed, of_text), each.close()]
            found.append(Final(*([*chain.from_iterable(x)] for x in zip(*finals, strict=True))))
        return found

    # Other processes disturb the least of the rounds least.
    seconds = time_rounds({"whole": annotate, "stream": stream}, rounds, clock_of(1))
    whole, streamed = (1e6 * min(seconds[key]) / n for key in ("whole", "stream"))
    equal = sum(
        find_annotation(pipe, nlp.make_doc(text)) == of_stream(found)
        for text, found in zip(texts, stream(), strict=True)
    )
    lags = [lag for text in texts for lag in find_lags(pipe, nlp.make_doc(text), options)]
    return {
        "corpus": corpus,
        "with": mode,
        "tokens": f"{n:,}",
        "pieces": f"{sum(map(len, pieces)):,}",
        "equal texts": f"{equal} of {len(texts)}",
        "lag": f"{median(lags):g}",
        "99%": f"{np.percentile(lags, 99):.0f}",
        "most": max(lags),
        "us/token, whole": f"{whole:.1f}",
        "stream": f"{streamed:.1f}",
    }


def of_stream(final: Final) -> list[Any]:
    """Return the tags and spans of a stream; chains side by side have no tags."""
    found = {(s.start, s.end, s.label, s.start_char, s.end_char) for s in final.spans}
    return [*sorted(found), *final.tags]


def find_annotation(pipe: Any, doc: Doc) -> list[Any]:
    """Return the same of a whole document."""
    (prediction,) = pipe.predict([doc])
    if pipe.codec.layered:
        spans, tags = prediction.spans[0], []
    else:
        parts = pipe.codec.predictions(prediction.tags, [len(doc)])
        spans = zip(*(part.tolist() for part in parts), strict=True)
        tags = [pipe.tags[tag] for tag in prediction.tags.tolist()]
    found = {
        (i, k, pipe.labels[label], doc[i].idx, doc[k - 1].idx + len(doc[k - 1]))
        for i, k, label in spans
    }
    return [*sorted(found), *tags]


def find_lags(pipe: Any, doc: Doc, options: dict[str, bool]) -> list[int]:
    """Return the lag of each word, and with probabilities of each span, if words arrive alone."""
    stream, lags, at = pipe.stream(**options), [], 0
    for i in range(len(doc)):
        final = stream.feed(doc[i : i + 1])
        known = i - LOOK_AHEAD
        if options["probabilities"]:
            lags += [known + 1 - span.end for span in final.spans]
        else:
            lags += [known - at - k for k in range(len(final.words))]
            at += len(final.words)
    return lags


if __name__ == "__main__":
    main()
