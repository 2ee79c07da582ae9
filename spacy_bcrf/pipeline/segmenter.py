"""`bcrf_segmenter`: words and their parts of speech, from characters."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, POS, SENT_START, TAG  # type: ignore[import-not-found]
from spacy.parts_of_speech import IDS as UPOS  # type: ignore[import-not-found]
from spacy.scorer import PRFScore, Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_bcrf.annotation.arrays import Values, doc_lengths, read_doc, read_docs, starts_document
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE
from spacy_bcrf.annotation.extensions import TAG_CONFIDENCE, token_key
from spacy_bcrf.annotation.word_tags import merge_characters, read_words
from spacy_bcrf.chain import Potentials

from . import confidence
from .ner import EntityRecognizer
from .queries import Predicted
from .sequence_labeler import Prediction
from .tagger import check_attribute, check_label


def score_words(
    examples: Iterable[Example], *, attribute: str = "tag", **settings: Any
) -> dict[str, Any]:
    """Precision, recall and F of words, by the characters they are made of: `token_p`, `token_r`
    and `token_f`, as spaCy's own; and of words with their `attribute`: `tagged_token_p`, ..

    A gold word without it says nothing about tags. Documents of unknown spaces are left out.
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
    """`spacy-bcrf.segmenter_scorer.v1`"""
    return score_words


class Segmenter(EntityRecognizer):
    """Merges the tokens of a document, which are characters, into words with a part of speech.

    Each character but whitespace is the beginning, inside or end of a word, or one by itself; words
    respect sentence starts. Calling it gives another Doc, of the same text, whose tokens are the
    words: `tag` is the label, and `pos` too where that is a universal part of speech.

    Learns from words of the reference, whatever characters they are made of here.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str = "bcrf_segmenter",
        *,
        attribute: str = "tag",
        scorer: Callable | None = score_words,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
    ) -> None:
        """attribute: of the gold words the one to learn, "tag" or "pos".
        annotate, temperature: see `SequenceLabeler`.
        """
        check_attribute(name, attribute)
        self.attribute_ids = (TAG, POS) if attribute == "tag" else (POS, TAG)
        super().__init__(
            vocab,
            model,
            name,
            scheme="BIES",
            scorer=scorer,
            annotate=annotate,
            temperature=temperature,
            attribute=attribute,
        )
        self.restrictions = "sentence starts"

    def __call__(self, doc: Doc) -> Doc:
        """The words of a document."""
        try:
            return self.merge([doc], self.predict([doc]))[0]
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
            return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """The words of each document."""
        for docs in minibatch(stream, size=batch_size):
            try:
                yield from self.merge(docs, self.predict(docs))
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        """TypeError: the tokens of a Doc cannot be replaced. `merge` takes its place."""
        raise TypeError(
            f"[{self.name}] the tokens of a Doc stay: words are in the Docs that are returned by "
            "calling the component, by its `pipe` and by its `merge`"
        )

    def merge(self, docs: Iterable[Doc], predictions: list[Prediction]) -> list[Doc]:
        """The words of each document, as predicted."""
        merged = []
        for doc, (tags, user_data) in zip(docs, predictions, strict=True):
            is_first = self._entities.may_start[tags]
            values = self._values[tags[is_first]]
            merged.append(merge_characters(doc, is_first, self.attribute_ids, values))
            merged[-1].user_data.update(user_data)
        return merged

    def _tag_values(self) -> list[tuple[int, ...]]:
        values = zip(self.labels, self._label_values(), strict=True)
        words = [(value, value if label in UPOS else 0) for label, value in values]
        return [(0, 0), *(word for word in words for _ in self.scheme.prefixes)]

    def _lattice(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> NDArray[np.bool_]:
        sent_start, is_space = (read_docs(docs, (SENT_START, IS_SPACE)) == 1).T
        allowed = np.empty((len(is_space), len(self.tags)), dtype=bool)
        allowed[:, 0], allowed[:, 1:] = is_space, ~is_space[:, None]
        new_sentence = sent_start & ~starts_document(doc_lengths(docs))
        allowed[new_sentence] &= self._entities.may_start
        return allowed

    def _read(self, doc: Doc, attributes: Sequence[int]) -> Values:
        # Words that look like the characters can be none, which only `_align` sees.
        return np.zeros((len(doc), len(attributes)), dtype="uint64")

    def _align(self, example: Example) -> Values:
        return read_words(example, self.attribute_ids[0])

    def _encode(self, values: Values, lengths: NDArray[np.int32]) -> tuple[NDArray, NDArray]:
        iob, types = values.T
        is_open = ((iob == BEGIN) | (iob == INSIDE)) & (types == 0)
        if not is_open.any() or not self.labels:
            return super()._encode(values, lengths)
        # Of a word without a tag the boundaries are known: as if it had the first, then any.
        known = np.column_stack([iob, np.where(is_open, self._label_values()[0], types)])
        ids, is_unknown = super()._encode(known, lengths)
        allowed = (ids[:, None] == np.arange(len(self.tags))) | (ids[:, None] < 0)
        allowed[is_open, 1:] = np.tile(
            allowed[is_open, 1 : 1 + self.tags_per_label], len(self.labels)
        )
        return allowed, is_unknown

    def _compare(
        self, tags: NDArray[np.int32], values: Values, lengths: NDArray[np.int32]
    ) -> tuple[Any, NDArray[np.bool_]]:
        # Whether a tag is right is not known of words without one.
        return super()._compare(tags, np.where(values[:, 1:] == 0, 0, values), lengths)

    def _is_marked(self, doc: Doc) -> bool:
        # What `supervision` reads is of entities.
        return False

    def _find_labels(self, doc: Doc) -> set[str]:
        values, is_space = read_doc(doc, (self.attribute_ids[0], IS_SPACE)).T
        return {doc.vocab.strings[value] for value in np.unique(values[is_space == 0]) if value}

    def _check_label(self, label: str) -> None:
        super()._check_label(label)
        check_label(self.name, self.cfg["attribute"], label)

    def _say(self, what: str, predicted: Predicted) -> None:
        if what not in ("confidence", "tag_confidence"):
            return super()._say(what, predicted)
        spans: list[confidence.UserData] = [{} for _ in predicted.docs]
        super()._say("confidence", predicted._replace(user_data=spans))
        for data, said in zip(predicted.user_data, spans, strict=True):
            # A word starts where its span of characters does.
            data.update((token_key(TAG_CONFIDENCE, key[2]), p) for key, p in said.items())
