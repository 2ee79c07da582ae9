"""First weights of a sparse chain, which decodes almost as its foreign taggers do."""

from collections.abc import Sequence

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]

from bcrf.linear.features import TemplateFeatures, Tokens
from bcrf.linear.templates import parse_templates
from bcrf.linear.word_cache import Bags
from spacy_bcrf.scores.foreign_labels import match_tags
from spacy_bcrf.scores.levels import EDGES, find_line

from .features import SCORE, hash_steps
from .model import SparseChain


def start_from_scores(chain: SparseChain, tags: Sequence[str]) -> None:
    """Set the weights of foreign labels after `initialize`, to start near the sources' decoding.

    A log-odds has the weights of its steps, see `levels`, so labels of nearly equal probability
    can change places. tags: of all chains. Several sources add up, so that a silent one changes
    nothing.
    """
    learner = chain.learner
    for tagger in chain.taggers:
        (template,) = parse_templates([f"{SCORE}.{tagger.name}[0]"])
        if template not in chain.features.templates:
            continue
        hashes = hash_steps(tuple(tagger.merge.extended))[:-1]
        features = TemplateFeatures(
            [template], [], {}, [part.attribute for part in template.parts], hash_string
        )
        n = len(hashes)
        values = Bags(np.arange(n + 1), hashes)
        no_words = np.zeros(n, "uint64"), np.zeros((n, 0), "uint64"), np.ones(n, "int32")
        keys, _ = features.extract(Tokens(*no_words, str, [values]))
        rows = chain.dictionary.find(keys, True).reshape(-1, len(EDGES))
        learner.resize(len(chain.dictionary))
        weights = learner.weights.copy()
        tagger.check_outside(tags)
        labels = match_tags(tagger.merge.labels, tags)
        # A chain of one label, or a source without O: log-odds compare a label with O.
        line = find_line(odds=labels[0] < 0)
        for tag in np.flatnonzero(labels >= 0):
            row = rows[tagger.merge.columns[labels[tag]]]
            weights[learner.n_general + row, tag] = np.diff(line)
            weights[learner.n_states, tag] += line[0] * (labels[0] < 0)
        learner.weights = weights
