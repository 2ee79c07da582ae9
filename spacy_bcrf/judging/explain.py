"""`explain`: the weights of a sparse linear chain by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import groupby
from pathlib import Path

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.layers.potential_sum import sparse_weight
from spacy_bcrf.loading import annotate_before, find_labeler, make_input, read_corpus
from spacy_bcrf.readers.doc_files import read_docs
from spacy_bcrf.result import Result
from spacy_bcrf.sparse import named_weights


@dataclass(repr=False)
class Weights(Result):
    """Weights of a component by tag. general: of transitions and of bias, start and end.

    features: of features. n_unnamed: number of these that the corpus does not have; they have keys
    in place of names. problem: why the corpus of the config could not be read, or nothing.
    """

    general: list[named_weights.Weight]
    features: list[named_weights.Weight]
    n_unnamed: int
    problem: str = ""

    def rows(self) -> list[tuple[str, ...]]:
        weights = [*self.general, *self.features]
        tags = list(dict.fromkeys(w.tag for w in weights))
        weights.sort(key=lambda w: tags.index(w.tag))
        rows = [(w.tag, w.feature, f"{w.weight:+.3f}") for w in weights]
        return [("tag", "feature", "weight"), *rows]


def explain(
    nlp: Language, pipe: str | None = None, *, n: int | None = None, corpus: Path | None = None
) -> Weights:
    """Return the weights of a component with a sparse linear chain.

    pipe: name of the component, None for the only one. n: number of features and of transitions of
    each tag, the strongest; None for all. corpus: a `.spacy` file with the features, by default the
    train corpus of the config. ValueError for a component without a chain, or a corpus that cannot
    be read.
    """
    name, labeler = find_labeler(nlp, pipe)
    chain, weight = sparse_chain(labeler.model), sparse_weight(labeler.model)
    if chain is None:
        raise ValueError(
            f"{name}: only the architectures spacy-bcrf.LinearChain.v1, spacy-bcrf.Hybrid.v1 "
            "and spacy-bcrf.Sum.v1 with one of them as a part have features with names; "
            "expected a `text` for others"
        )
    rows = None if n is None else named_weights.strongest(chain, n)
    wanted = np.arange(chain.learner.n_features) if rows is None else rows.ravel()
    names, problem = {}, ""
    try:
        names = named_weights.name_features(chain, _read_corpus(nlp, name, corpus), wanted)
    except (ValueError, OSError) as error:
        if corpus is not None:
            raise
        problem = f"the train corpus of the config cannot be read: {error}"
    general = named_weights.general_weights(chain, labeler.tags, weight)
    if n is not None:
        by_tag = groupby(general, key=lambda w: w.tag)
        general = [w for _, own in by_tag for w in nlargest(n, own, key=lambda w: abs(w.weight))]
    return Weights(
        general,
        named_weights.feature_weights(chain, labeler.tags, names, rows, weight),
        # Pairs of tags have names without a corpus.
        len(np.setdiff1d(wanted, chain.learner.pairs)) - len(names),
        problem,
    )


def _read_corpus(nlp: Language, component: str, path: Path | None) -> Iterator[Doc]:
    """Yield the documents of a corpus as the component sees them."""
    docs = (
        (example.predicted for example in read_corpus(nlp, "train"))
        if path is None
        else (make_input(nlp, doc) for doc in read_docs(path, nlp.vocab))
    )
    reading = tqdm(docs, "reading", delay=2, leave=False)
    yield from annotate_before(nlp, component, reading)
