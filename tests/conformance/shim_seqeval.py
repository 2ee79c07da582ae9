"""Our reading of tags, our pairs and our figures in the place of seqeval's.

The macro and the weighted average are of this file, and warnings and the printed table seqeval's.
"""

from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
from seqeval import metrics, scheme
from seqeval.metrics import sequence_labeling, v1
from shim_calls import pytest_runtest_call  # noqa: F401

from bcrf.io.text import Line
from bcrf.schemes import BIES, BILUO, BIO, read_spans
from spacy_bcrf.corpora.entity_tag_reader import EntityTagReader
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.judging.evaluation import CharSpan, Evaluation, match_spans, score

READERS = {
    scheme.IOB1: read_spans,
    scheme.IOB2: BIO.spans,
    scheme.IOBES: BIES.spans,
    scheme.BILOU: BILUO.spans,
}
DETECTED = {
    "bio": scheme.IOB2,
    "iob1": scheme.IOB1,
    "bies": scheme.IOBES,
    "biluo": scheme.BILOU,
}


def pytest_configure(config):
    """Let the tests find conlleval.pl in the folder in which they run."""
    if not Path("conlleval.pl").exists():
        Path("conlleval.pl").symlink_to(config.rootpath / "tests/conlleval.pl")


def pytest_collection_modifyitems(items):
    """Draw 60 of 10,000 random outputs of each scheme."""
    for module in {item.module for item in items}:
        module.range = lambda n: range(60 if n == 10000 else n)


def name_tag(tag, suffix=False):
    """Return `prefix-label`. seqeval also knows `label-prefix`, and tags without a label: `_`."""
    tag = "-".join(tag.rsplit("-", 1)[::-1]) if suffix else tag
    return tag if "-" in tag or tag == "O" else f"{tag}-_"


def get_entities(seq, suffix=False):
    if any(isinstance(tags, list) for tags in seq):
        seq = [*chain.from_iterable([*tags, "O"] for tags in seq)]
    spans = read_spans([name_tag(tag, suffix) for tag in seq])
    return [(label, start, end - 1) for start, end, label in spans]


class Tokens(scheme.Tokens):
    @property
    def entities(self):
        tags = [
            "O" if token.prefix == scheme.Prefix.O else f"{token.prefix.name}-{token.tag}"
            for token in self.tokens
        ]
        spans = READERS[type(self.outside_token)](tags)
        return [scheme.Entity(self.sent_id, *span) for span in spans]


def auto_detect(sequences, suffix=False, delimiter="-"):
    reader = EntityTagReader()
    for tags in sequences:
        lines = [Line(Path("tags"), i, tag) for i, tag in enumerate(tags, 1)]
        named = [name_tag(tag, suffix) for tag in tags]
        reader.read(Sentence(lines=lines, words=tags, entities=named))
    return DETECTED[reader.scheme]


@lru_cache(1)  # precision, recall and F ask for the same counts
def count(true, pred, scheme_, suffix):
    """Return the counts (L, 4) of each label. true, pred: tuples of a tuple of tags by document."""
    sides = []
    for side in (true, pred):
        if scheme_:
            found = scheme.Entities(side, scheme_, suffix).entities
            spans = [[(one.start, one.end, one.tag) for one in document] for document in found]
        else:
            spans = [read_spans([name_tag(tag, suffix) for tag in tags]) for tags in side]
        sides.append([[CharSpan(*span) for span in document] for document in spans])
    pairs = [match_spans(*documents) for documents in zip(*sides, strict=True)]
    labels = sorted({span.label for span in chain.from_iterable(chain(*sides))})
    return Evaluation(pairs, labels).count("exact").sum(axis=0)[1:]


def find_figures(y_true, y_pred, *, average=None, beta=1.0, scheme=None, suffix=False, **unused):
    if beta != 1:
        raise NotImplementedError("F of another beta")
    counts = count(*(tuple(map(tuple, side)) for side in (y_true, y_pred)), scheme, suffix)
    support = counts[:, 0].astype(int)
    if average == "micro":
        counts = counts.sum(axis=0)[None]
    figures = np.nan_to_num(score(counts))
    if average:
        weights = support if average == "weighted" and support.any() else None
        figures = np.nan_to_num(np.average(figures, axis=0, weights=weights))
        return *figures, sum(support)
    return *figures.T, support


def accuracy_score(y_true, y_pred):
    """A tag is a span of one token."""
    sides = [
        [CharSpan(i, i + 1, tag) for i, tag in enumerate(chain.from_iterable(side))]
        for side in (y_true, y_pred)
    ]
    labels = sorted({span.label for span in chain(*sides)})
    counts = Evaluation([match_spans(*sides)], labels).count("exact")
    return score(counts[0, 0])[0]


scheme.Tokens, scheme.auto_detect = Tokens, auto_detect
v1.auto_detect = auto_detect
sequence_labeling.get_entities = get_entities
sequence_labeling.accuracy_score = metrics.accuracy_score = accuracy_score
for module in (sequence_labeling, v1):
    module._precision_recall_fscore_support = find_figures
