"""`scores`: the scores of foreign taggers, kept in files before training reads them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.util import load_config, minibatch
from tqdm import tqdm

from bcrf.chain.potentials import counted
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.readers.doc_files import check_corpus, read_own_docs
from spacy_bcrf.scores.find_sources import find_sources
from spacy_bcrf.scores.foreign_tagger import make_taggers

BATCH_SIZE = 32
"""Documents that a tagger reads at once. A killed call loses one batch."""


class KeptScores(NamedTuple):
    """Counts of texts and tokens that a foreign tagger scored, and the file that keeps its scores.

    name: the tagger. n_silent: tokens without scores. n_failed: texts for which the tagger
    raised an exception. n_cut: spans that cut tokens.
    """

    name: str
    cache: str
    n_texts: int
    n_tokens: int
    n_silent: int
    n_failed: int
    n_cut: int

    def __str__(self) -> str:
        cut = f", {self.n_cut:,} spans cut tokens" if self.n_cut else ""
        return (
            f"{self.name}: {counted(self.n_texts, 'text')}, {counted(self.n_tokens, 'token')}, "
            f"{self.n_silent:,} without scores, {counted(self.n_failed, 'text')} failed{cut}; "
            f"kept in {self.cache}"
        )


def scores(config: Path, corpora: Sequence[Path]) -> Iterator[KeptScores]:
    """Run the foreign taggers of a config once, and keep their scores. Yield the counts of each.

    config: a training config, or the folder of a pipeline, with a setting `scores`. corpora: .spacy
    files or folders. A killed call resumes. ValueError without a tagger, and for one without a
    cache.
    """
    file = config / "config.cfg" if config.is_dir() else config
    found = list(find_sources(load_config(file, interpolate=True)["components"]))
    if not found:
        raise ValueError(f"{file}: no component has the setting scores")
    if bad := [source.get("name") for source in found if source.get("cache") is None]:
        raise ValueError(f"{file}: scores {bad[0]!r} has no cache. Set it to a file")
    for corpus in corpora:
        check_corpus(corpus)
    nlp = spacy.blank("xx")
    for tagger in make_taggers(found):
        n_texts = n_tokens = n_silent = 0
        # Training asks for texts without the annotation of the corpus.
        docs = (copy_words(doc, nlp.vocab) for corpus in corpora for doc in read_own_docs(corpus))
        with tqdm(desc=tagger.name, unit="docs", disable=None) as bar:
            for batch in minibatch(docs, BATCH_SIZE):
                for scored in tagger.find(batch, store=True, strict=False):
                    n_texts += 1
                    n_tokens += len(scored.values)
                    n_silent += int(scored.silent.sum())
                bar.update(len(batch))
        n_cut = getattr(tagger.source, "n_cut", 0)
        counts = n_texts, n_tokens, n_silent, tagger.n_failed, n_cut
        yield KeptScores(tagger.name, tagger.config["cache"], *counts)
