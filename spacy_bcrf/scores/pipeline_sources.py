"""Components of other spaCy pipelines as token scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.pipeline import EntityRecognizer
from spacy.tokens import Doc

from bcrf.io.hashes import hash_files
from bcrf.lazy import lazy
from spacy_bcrf.annotation.tokenizers import copy_words

from .span_sources import CERTAINTY, PROBABILITY_FLOOR, score_tokens, span_labels


class PipelineScores:
    """`spacy-bcrf.PipelineScores.v1`: a component of another spaCy pipeline, on our tokens.

    path: folder or package of the pipeline.
    component: by default the last one that sets entities. Our components give exact marginals.
        `ner` gives the probability of each action at each token, and `beam_ner` the scores of its
        beam. Entities of others have the probability `CERTAINTY`.
    exclude: components that are not needed, such as ["parser", "lemmatizer"].
    """

    def __init__(
        self, path: str, *, component: str | None = None, exclude: Sequence[str] = ()
    ) -> None:
        self.path, self.component, self.exclude = path, component, list(exclude)

    @lazy
    def _nlp(self) -> Any:
        return spacy.load(self.path, exclude=self.exclude)

    @lazy
    def _name(self) -> str:
        names = self._nlp.pipe_names
        found = [n for n in names if "doc.ents" in self._nlp.get_pipe_meta(n).assigns]
        if self.component is not None:
            found = [n for n in names if n == self.component]
        if not found:
            what = "that sets entities" if self.component is None else repr(self.component)
            raise ValueError(f"{self.path}: has no component {what}; it has {', '.join(names)}")
        if getattr(getattr(self._nlp.get_pipe(found[-1]), "codec", None), "n_chains", 1) > 1:
            raise ValueError(
                f"{self.path}: the spans of {found[-1]} can overlap; expected a component of "
                "entities or tags"
            )
        return found[-1]

    @lazy
    def _pipe(self) -> Any:
        return self._nlp.get_pipe(self._name)

    @lazy
    def labels(self) -> list[str]:
        if hasattr(self._pipe, "token_marginals"):
            return list(self._pipe.tags)
        if self._is_greedy:
            return [self._pipe.moves.get_class_name(k) for k in self._actions]
        return span_labels(self._pipe.labels)

    @property
    def _is_greedy(self) -> bool:
        return isinstance(self._pipe, EntityRecognizer) and self._pipe.cfg["beam_width"] == 1

    @property
    def _actions(self) -> list[int]:
        """The actions with a label or O. U- is only for blocked tokens."""
        moves = self._pipe.moves
        return [k for k in range(moves.n_moves) if moves.get_class_name(k) != "U-"]

    @lazy
    def identity(self) -> str:
        return f"{hash_files(self._nlp.path)} {self._name} {self.exclude}"

    def load(self) -> object:
        return self._pipe

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        # The scores hold no strings, so the documents' strings can go.
        with self._nlp.memory_zone():
            return self._score(docs)

    def _score(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        copies = [_copy(self._nlp, doc) for doc in docs]
        for name, pipe in self._nlp.pipeline:
            if name == self._name:
                break
            copies = _run(pipe, copies)
        if hasattr(self._pipe, "token_marginals"):
            found = self._pipe.token_marginals(copies)
            return [np.log(p.clip(PROBABILITY_FLOOR**2)).astype("float32") for p in found]
        if self._is_greedy:
            return [values[:, self._actions] for values in score_actions(self._pipe, copies)]
        if isinstance(self._pipe, EntityRecognizer):
            beams = self._pipe.predict(copies)
            spans = [[(*s, p) for s, p in of.items()] for of in self._pipe.scored_ents(beams)]
        else:
            done = _run(self._pipe, copies)
            spans = [[(e.start, e.end, e.label_, CERTAINTY) for e in d.ents] for d in done]
        pairs = zip(copies, spans, strict=True)
        return [score_tokens(len(doc), of_doc, self.labels) for doc, of_doc in pairs]


def score_actions(ner: Any, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
    """Return the log-probabilities (n, A) of the actions of spaCy's `ner` at each token.

    It takes the best valid action at each token, and so do its later states. Invalid actions have a
    probability too, as in its training.
    """
    found = [np.full((len(doc), ner.moves.n_moves), np.nan, dtype="float32") for doc in docs]
    model, states = ner.model.predict(docs), ner.moves.init_batch(docs)
    open_states = [(of_doc, s) for of_doc, s in zip(found, states, strict=True) if len(of_doc)]
    while open_states:
        states = [state for _, state in open_states]
        scores = model.ops.to_numpy(model.predict(states))
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        for (of_doc, state), row in zip(open_states, logs, strict=True):
            of_doc[state.B(0)] = row
        ner.transition_states(states, scores)
        open_states = [pair for pair in open_states if not pair[1].is_final()]
    return found


def _run(pipe: Any, docs: list[Doc]) -> list[Doc]:
    return list(pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs))


def _copy(nlp: Any, doc: Doc) -> Doc:
    """Return the words of a document in the vocabulary of another pipeline."""
    has_sents = doc.has_annotation("SENT_START")
    starts = [token.is_sent_start for token in doc] if has_sents else None
    return copy_words(doc, nlp.vocab, sent_starts=starts)
