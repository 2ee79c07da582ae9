"""`bcrf_segmenter`: words and their parts of speech, from characters."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from spacy.attrs import IS_SPACE, ORTH, SENT_START  # type: ignore[import-not-found]
from spacy.scorer import PRFScore, Scorer
from spacy.training import Example
from spacy.util import minibatch

from spacy_bcrf.annotation.arrays import DocBatch
from spacy_bcrf.annotation.tokenizers import Characters, CharTokenizer
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain

from .queries import SpanQueries
from .sequence_labeler import SequenceLabeler


def score_words(
    examples: Iterable[Example], *, attribute: str = "tag", **settings: Any
) -> dict[str, Any]:
    """Return precision, recall and F of words by characters: spaCy's, and with their tag, without

    gold words that lack `attribute` and documents with unknown spaces.
    """
    examples = list(examples)
    tagged = PRFScore()
    for example in examples:
        if not example.reference.has_unknown_spaces:
            gold, found = (
                {(token.idx, len(token)): getattr(token, f"{attribute}_") for token in doc}
                for doc in (example.reference, example.predicted)
            )
            open_bounds = {bounds for bounds, tag in gold.items() if not tag}
            tagged.score_set(
                {word for word in found.items() if word[1] and word[0] not in open_bounds},
                {word for word in gold.items() if word[1]},
            )
    scores = Scorer.score_tokenization(examples)
    for name in ("precision", "recall", "fscore"):
        scores[f"tagged_token_{name[0]}"] = getattr(tagged, name) if len(tagged) else None
    return scores


def make_word_scorer() -> Callable:
    """Return `score_words`, registered as `spacy-bcrf.segmenter_scorer.v1`."""
    return score_words


class Segmenter(SpanQueries, SequenceLabeler):
    """Merge the characters of a document into words with a part of speech, in a new Doc.

    The tokens of the input are characters. `tag` is the label, and so is a universal `pos`.

    >>> import spacy, spacy_bcrf
    >>> isinstance(spacy.blank("xx").add_pipe("bcrf_segmenter"), spacy_bcrf.Segmenter)
    True
    """

    def cut(self, texts: Iterable[str], batch_size: int = 512) -> Iterator[list[str]]:
        """Yield the words of each text, the same as `[word.text for word in nlp(text)]`.

        The tokens of `nlp` must come from `CharTokenizer`. A sparse chain over characters alone
        makes no documents: three to four times as fast. ValueError for a lone surrogate.
        """
        tokenizer = CharTokenizer(self.vocab)
        for batch in minibatch(texts, batch_size):
            characters = tokenizer.read(batch)
            if not len(characters.hashes):
                yield from ([] for _ in batch)
                continue
            known = self._read_columns(characters)
            docs = list(map(tokenizer, batch)) if known is None else known
            tags = self.decode(self.find_potentials(docs))
            # The tags of a scheme have constraints.
            constraints: Any = self.codec.constraints
            yield from characters.merge(np.flatnonzero(constraints.start[tags]))

    def _read_columns(self, characters: Characters) -> DocBatch | None:
        """Return all that the model reads, None if it reads more than the characters."""
        columns = dict.fromkeys((*self.codec.attributes, *self.labeling.columns))
        values = {ORTH: characters.hashes, IS_SPACE: characters.is_space, SENT_START: 0}
        chain = sparse_chain(self.model)
        reads_more = chain is None or chain.features.listed or not is_chain_alone(self.model)
        if reads_more or columns.keys() - values.keys():
            return None
        table = np.zeros((len(characters.hashes), len(columns)), dtype="uint64")
        for k, column in enumerate(columns):
            table[:, k] = values[column]
        return DocBatch.of_tokens(self.vocab.strings, list(columns), table, characters.lengths)
