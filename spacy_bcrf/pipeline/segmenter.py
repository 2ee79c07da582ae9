"""`bcrf_segmenter`: words and their parts of speech, from characters."""

from collections.abc import Callable, Iterable
from typing import Any

from spacy.scorer import PRFScore, Scorer
from spacy.training import Example

from .queries import PosteriorQueries, SpanQueries
from .sequence_labeler import SequenceLabeler


def score_words(
    examples: Iterable[Example], *, attribute: str = "tag", **settings: Any
) -> dict[str, Any]:
    """Return precision, recall and F of words, and of words with their tag.

    Words are compared by their character offsets. `token_p`, `token_r` and `token_f` are spaCy's.
    `tagged_token_p`, `tagged_token_r` and `tagged_token_f` compare `attribute` too. They leave out
    gold words without the attribute, and documents with unknown spaces.
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
    for name, key in (("precision", "p"), ("recall", "r"), ("fscore", "f")):
        scores[f"tagged_token_{key}"] = getattr(tagged, name) if len(tagged) else None
    return scores


def make_scorer() -> Callable:
    """Return `score_words`, registered as `spacy-bcrf.segmenter_scorer.v1`."""
    return score_words


class Segmenter(PosteriorQueries, SpanQueries, SequenceLabeler):
    """Merge the characters of a document into words with a part of speech.

    The tokens of the input are characters. The component returns a new Doc of the same text, whose
    tokens are words. `tag` is the label, and so is `pos` for a universal part of speech.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_segmenter")
    >>> isinstance(component, spacy_bcrf.Segmenter)
    True
    """
