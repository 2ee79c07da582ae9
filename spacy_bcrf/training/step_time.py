"""The time of a training, estimated from one step."""

from itertools import accumulate, islice
from pathlib import Path
from time import perf_counter

from spacy.training import Example
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_bcrf.readers.doc_files import read_own_docs

DOCS = 1000
"""Documents that give the labels."""
STEPS = 2
"""Steps that are timed. The first one also prepares what later ones use."""


def estimate_minutes(config: Config, corpus: Path) -> float:
    """Return the minutes that all steps of a network's config take on this machine's processor.

    corpus: .spacy file. ValueError if its first documents lack what a component learns.
    """
    nlp = load_model_from_config(config.interpolate(), auto_fill=True)
    docs = list(islice(read_own_docs(corpus), DOCS))
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    optimizer = nlp.initialize(lambda: examples)
    training = config["training"]
    ends = [*accumulate(map(len, docs))]
    n = sum(end < training["batcher"]["size"] for end in ends) + 1
    times = []
    for _ in range(STEPS):
        start = perf_counter()
        nlp.update(examples[:n], sgd=optimizer)
        times.append(perf_counter() - start)
    words = ends[min(n, len(ends)) - 1]
    return min(times) / 60 * training["max_steps"] * training["batcher"]["size"] / words
