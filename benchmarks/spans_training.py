"""A training pass over chains side by side, against the features and one chain of a flat model.

python -m benchmarks.spans_training --corpora DIR
"""

import argparse
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import spacy
from spacy.util import filter_spans, minibatch

from benchmarks.spans import KEY, LANG, bare, count_steps, learn, make_sparse, read
from lab.machine import describe_machine
from lab.options import add_options
from lab.processes import in_own_process
from lab.tables import print_table
from spacy_bcrf.layers.linear_chain import sparse_chains
from spacy_bcrf.sparse.brown_clusters import load_brown_clusters


def measure_pass(folder: Path, corpus: str, passes: int = 3) -> dict[str, object]:
    """Compare a pass of all chains with the parts of a pass of one chain, of the commonest label.

    The first pass reads features, later ones keep their rows, so it is left out.
    """
    docs = read(folder, corpus, "train", spacy.blank(LANG[corpus]).vocab)
    counts = Counter(span.label_ for doc in docs for span in doc.spans[KEY])
    ((label, _),) = counts.most_common(1)
    for doc in docs:
        doc.ents = filter_spans([span for span in doc.spans[KEY] if span.label_ == label])
    n_steps, seconds = count_steps(docs, passes, 128), {}
    for component in ("bcrf_spans", "bcrf_ner"):
        tables = {"brown": load_brown_clusters(LANG[corpus])}
        nlp = make_sparse(corpus, tables, component=component)
        seconds[component] = float(np.median(learn(nlp, docs, n_steps, 128, 0.0)[1:]))
        if component == "bcrf_spans":
            n_chains = nlp.get_pipe(component).codec.n_chains
    features, batches = [], list(minibatch(bare(docs), 128))
    ((_, pipe),) = nlp.pipeline
    (chain,) = sparse_chains(pipe.model)
    for _ in range(passes):
        start = time.process_time()
        for batch in batches:
            chain.drop_features(chain._prepare(batch)[1])
        features.append(time.process_time() - start)
    feature_seconds = float(np.median(features[1:]))
    bound = feature_seconds + n_chains * (seconds["bcrf_ner"] - feature_seconds)
    return {
        "corpus": corpus,
        "chains": n_chains,
        "s, all chains": f"{seconds['bcrf_spans']:.2f}",
        "s, one chain": f"{seconds['bcrf_ner']:.2f}",
        "s, its features": f"{feature_seconds:.2f}",
        "all / (features + chains x one)": f"{seconds['bcrf_spans'] / bound:.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    args = parser.parse_args()
    machine = describe_machine(["numpy", "spacy", "thinc"])
    rows = [in_own_process(partial(measure_pass, args.corpora, corpus)) for corpus in LANG]
    notes = (
        "one thread; sparse chains with clusters, processor seconds of a later pass, median of 2; "
        "one chain: bcrf_ner with the commonest label"
    )
    print_table("A pass over chains side by side", rows, f"{machine}\n{notes}", args.csv)


if __name__ == "__main__":
    main()
