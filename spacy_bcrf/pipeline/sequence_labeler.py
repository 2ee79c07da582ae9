"""What all components share: one tag a token, found over the whole document."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.errors import Errors
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import check_lexeme_norms
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import (
    UNKNOWN,
    Values,
    doc_lengths,
    find_bounds,
    read_doc,
    read_gold,
    warn_of_problems,
)
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.chain import Potentials, Rejection, feasible
from spacy_bcrf.kernels import Array
from spacy_bcrf.layers.decoding import get_decoder

from . import confidence
from .queries import PosteriorQueries, Predicted

# How many documents the network infers its dimensions from, as in spaCy's components.
SAMPLE_SIZE = 10


class Gold(NamedTuple):
    """What examples teach.

    tags: int32 (N,) with -1 for unknown, or bool (N, T) of allowed ones.
    problems: by example, why nothing is learned from it. rejections: labelings that are wrong.
    """

    tags: Array
    problems: dict[int, str]
    rejections: list[Rejection]


class Prediction(NamedTuple):
    """tags: int32 (n,) of a document's tokens. user_data: what else is said, for Doc.user_data."""

    tags: NDArray[np.int32]
    user_data: confidence.UserData


class SequenceLabeler(PosteriorQueries):
    """Base of the components; a subclass says what the tags are and how a Doc holds them.

    A batch of B documents has N tokens in all; T and A are those of `Labels`.
    """

    restrictions: str = "constraints"
    """What can forbid a labeling, in words."""

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str,
        *,
        scorer: Callable | None,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
        **settings: str,
    ) -> None:
        """model: like `spacy-bcrf.SequenceLabeler.v1`.
        annotate, temperature: see `PosteriorQueries`.
        settings: what decides on the tags besides the labels; saved with them.
        """
        self.name = name
        self.annotate = annotate
        self.temperature = temperature
        set_extensions()
        if (
            not model.has_ref("output_layer")
            or "objective" not in model.get_ref("output_layer").attrs
        ):
            raise ValueError(
                f"[{name}] the model {model.name!r} gives no potentials: use the architecture "
                "spacy-bcrf.SequenceLabeler.v1 or spacy-bcrf.LinearChain.v1"
            )
        self.vocab = vocab
        self.model = model
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"labels": [], **settings}
        self._has_warned = False
        self._refresh()

    @abstractmethod
    def _encode(self, values: Values, lengths: NDArray[np.int32]) -> tuple[NDArray, NDArray]:
        """Gold from annotation (N, A): int32 (N,) with -1 for unknown, or bool (N, T), the tags
        that may be. And bool (N,), which tokens have a label that is none of `labels`.
        """

    @abstractmethod
    def _align(self, example: Example) -> Values:
        """(n, A) the reference's annotation of the predicted document's tokens."""

    def _read(self, doc: Doc, attributes: Sequence[int]) -> Values:
        """(n, 1 + A) a reference's words, and its annotation."""
        return read_doc(doc, attributes)

    def _merge(self, old: Values, new: Values) -> Values:
        """(n, A) what is written to a document that already has `old` annotation."""
        return new

    def _keep(self, docs: Sequence[Doc], tags: NDArray[np.int32]) -> NDArray[np.int32]:
        """(N,) predicted tags, but of tokens that `_merge` leaves as they are those they have;
        UNKNOWN for what is none of `tags`."""
        return tags

    def _lattice(
        self, docs: Sequence[Doc], ignore_annotation: bool = False
    ) -> NDArray[np.bool_] | None:
        """(N, T) the tags open to each token; None where all are. See `find_potentials`."""
        return None

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """The tag ids of each document, and what `annotate` asks for."""
        docs = list(docs)
        potentials = self.find_potentials(docs)
        tags = self.decode(potentials, docs)
        user_data: list[confidence.UserData] = [{} for _ in docs]
        if self.annotate:
            posterior, written = self.with_temperature(potentials), self._keep(docs, tags)
            predicted = Predicted(docs, posterior, written, user_data)
            for what in self.annotate:
                self._say(what, predicted)
        return [
            Prediction(tags[start:end], data)
            for (start, end), data in zip(find_bounds(docs), user_data, strict=True)
        ]

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        for doc, prediction in zip(docs, predictions, strict=True):
            values: Any = self._values[prediction.tags]
            if doc.has_annotation(self.attribute_ids[0]):
                values = self._merge(read_doc(doc, self.attribute_ids), values)
            doc.from_array(list(self.attribute_ids), values)
            doc.user_data.update(prediction.user_data)

    def set_decoder(self, name: str) -> None:
        """Decode by another of `layers.decoding.DECODERS` from now on. Not saved: what a saved
        pipeline decodes by is in its config, components.NAME.model.head.decoder."""
        self.head.attrs["decoder"] = get_decoder(name, self.head.attrs["objective"])

    def compare_with_gold(
        self, examples: Sequence[Example], *, ignore_annotation: bool = True
    ) -> tuple[Potentials, Any, NDArray[np.bool_]]:
        """What is predicted of examples, for `confidences`, and (M,) whether it is right; leaving
        out that of which gold says nothing."""
        docs = [example.predicted for example in examples]
        potentials = self.find_potentials(docs, ignore_annotation)
        tags = self.decode(potentials, docs)
        values, _ = read_gold(examples, self.attribute_ids, self._align, self._read)
        return potentials, *self._compare(tags, values, doc_lengths(docs))

    def _compare(
        self, tags: NDArray[np.int32], values: Values, lengths: NDArray[np.int32]
    ) -> tuple[Any, NDArray[np.bool_]]:
        """Of predicted tags (N,) and gold annotation (N, A), the second part of `compare_with_gold`."""
        gold, has_unknown_label = self._encode(values, lengths)
        # A label that is none of ours is known, and never predicted.
        known = np.flatnonzero((gold != UNKNOWN) | has_unknown_label)
        return (known, tags[known]), gold[known] == tags[known]

    def find_potentials(self, docs: list[Doc], ignore_annotation: bool = False) -> Potentials:
        """Scores of the tags, -inf for what a document does not leave open.
        ignore_annotation: as if it had none of what the component itself annotates."""
        lengths = doc_lengths(docs)
        if not lengths.any():
            n_tags = max(1, len(self.tags))
            ops: Any = self.model.ops
            square = ops.alloc2f(n_tags, n_tags)
            return Potentials(ops.alloc2f(0, n_tags), square, ops.asarray(lengths))
        return self._restrict(self.model.predict(docs), docs, ignore_annotation)

    def decode(self, potentials: Potentials, docs: list[Doc]) -> NDArray[np.int32]:
        return self.model.ops.to_numpy(self.head.attrs["decoder"](potentials))

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch. A model that has its own way to learn, like
        `spacy-bcrf.LinearChain.v1`, does so and leaves the optimizer alone."""
        learn = self.model.attrs.get("learn")
        if learn is None:
            return super().update(examples, drop=drop, sgd=sgd, losses=losses)
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        docs = [example.predicted for example in examples]
        if any(len(doc) for doc in docs):
            lattice = self._lattice(docs)
            potentials = self._restrict(self.zero_potentials(docs), docs)
            gold = self._read_gold(examples, potentials)
            self._warn("a batch", examples, gold.problems)
            losses[self.name] += learn(self.model, docs, gold.tags, lattice)
        return losses

    def get_loss(self, examples: Iterable[Example], scores: Potentials) -> tuple[float, Potentials]:
        """The sum of the documents' losses, and its gradient.

        A document from whose gold annotation nothing can be learned counts as one without any.
        """
        # A sum, as in spaCy's tagger and ner, so that components on a shared tok2vec weigh alike.
        # In short trials the mean over tokens did better on JNLPBA, worse on EWT, mixed on WNUT17.
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.get_loss")
        potentials = self._restrict(scores, [example.predicted for example in examples])
        gold = self._read_gold(examples, potentials)
        self._warn("a batch", examples, gold.problems)
        return self._lose(potentials, gold)

    def _lose(self, potentials: Potentials, gold: Gold) -> tuple[float, Potentials]:
        """The sum of the losses, and its gradient."""
        losses, gradient = self.head.attrs["objective"].loss(potentials, gold.tags)
        return float(losses.sum()), gradient

    def _restrict(
        self, potentials: Potentials, docs: list[Doc], ignore_annotation: bool = False
    ) -> Potentials:
        lattice = self._lattice(docs, ignore_annotation)
        if lattice is None:
            return potentials
        ops: Any = self.model.ops
        return potentials.restrict(ops.asarray(lattice))

    def _read_gold(self, examples: list[Example], potentials: Potentials) -> Gold:
        ops: Any = self.model.ops
        values, problems = read_gold(examples, self.attribute_ids, self._align, self._read)
        lengths = doc_lengths([example.predicted for example in examples])
        host_gold, has_unknown_label = self._encode(values, lengths)
        host_gold, rejections = self._mark_all(examples, values, host_gold, problems)
        if "learn" in self.model.attrs:
            why = "a sparse linear chain cannot learn that a span of several tokens is no entity"
            problems.update((i, why) for i, _ in rejections if i not in problems)
        gold = ops.asarray(host_gold)
        owner = np.repeat(np.arange(len(examples)), lengths)
        for i in np.unique(owner[has_unknown_label]).tolist():
            unknown = self._find_labels(examples[i].reference) - set(self.labels)
            problems[i] = f"unknown labels {', '.join(sorted(unknown))}"
        problems |= self._find_partial(examples, owner, host_gold, problems)
        for i in np.flatnonzero(ops.to_numpy(~feasible(potentials, gold))).tolist():
            problems.setdefault(i, f"{self.restrictions} forbid it")
        if problems:
            skipped = ops.asarray(np.isin(owner, list(problems)))
            gold[skipped] = True if gold.dtype == bool else UNKNOWN
        kept = [
            Rejection(i, ops.asarray(allowed)) for i, allowed in rejections if i not in problems
        ]
        return Gold(gold, problems, kept)

    def _mark_all(
        self,
        examples: list[Example],
        values: Values,
        gold: NDArray,
        problems: dict[int, str],
    ) -> tuple[NDArray, list[tuple[int, NDArray[np.bool_]]]]:
        """Gold with what `supervision` reads of documents besides their token annotation, as
        bool (N, T) if there is any; and by example what `_mark` returns. Adds to the problems."""
        marked = [i for i, eg in enumerate(examples) if self._is_marked(eg.reference)]
        rejections: list[tuple[int, NDArray[np.bool_]]] = []
        if marked and gold.dtype != bool:
            gold = (gold[:, None] == np.arange(len(self.tags))) | (gold[:, None] == UNKNOWN)
        bounds = find_bounds([example.predicted for example in examples])
        for i in marked:
            rows = slice(*bounds[i])
            try:
                rejections += [(i, x) for x in self._mark(examples[i], values[rows], gold[rows])]
            except ValueError as error:
                problems.setdefault(i, str(error))
        return gold, rejections

    @abstractmethod
    def _is_marked(self, doc: Doc) -> bool:
        """Whether `_mark` would find anything in a gold document."""

    def _is_whole(self, doc: Doc) -> bool:
        """Whether all tokens of a gold document are annotated."""
        return bool(read_doc(doc, self.attribute_ids[:1]).all())

    @abstractmethod
    def _mark(
        self, example: Example, values: Values, allowed: NDArray[np.bool_]
    ) -> list[NDArray[np.bool_]]:
        """Change the lattice (n, T) of one document by its markings, in place. RETURNS labelings
        that are wrong, as the tags (n, T) of each, which the lattice cannot say. ValueError saying
        what contradicts what."""

    def _find_partial(
        self,
        examples: list[Example],
        owner: NDArray[np.int64],
        gold: NDArray,
        problems: dict[int, str],
    ) -> dict[int, str]:
        """The examples without other problems of whose tokens some have gold and others not, and
        why, for a head that cannot learn from that. ValueError for one that is annotated only in
        part."""
        if not getattr(self.head.attrs["objective"], "needs_whole_gold", False):
            return {}
        is_known = gold.sum(axis=1) == 1 if gold.dtype == bool else gold != UNKNOWN
        known, unknown = (np.unique(owner[tokens]) for tokens in (is_known, ~is_known))
        partial = [i for i in np.intersect1d(known, unknown).tolist() if i not in problems]
        for i in partial:
            reference = examples[i].reference
            if self._is_marked(reference) or not self._is_whole(reference):
                raise ValueError(
                    f"[{self.name}] {reference.text!r} is annotated only in part: the "
                    f"head {self.head.name!r} cannot learn from that, since its distribution "
                    "cannot be restricted to a set of labelings. Use a CRF or BCRF, or annotate "
                    "all tokens of a document or none"
                )
        why = f"its tokens are not the pipeline's, and {self.head.name} needs gold for all of them"
        return dict.fromkeys(partial, why)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Set the labels, by default all that the examples have, and initialize the network.

        ValueError if there are no labels, if the examples have others than those given, or if the
        head is configured for another number of tags.
        """
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        check_lexeme_norms(self.vocab, self.name)
        reading = tqdm(get_examples(), f"[{self.name}] reading", delay=5, leave=False, unit="docs")
        examples = list(reading)
        found = sorted(set().union(*(self._find_labels(eg.reference) for eg in examples)))
        for label in found if labels is None else labels:
            self.add_label(label)
        self._require_labels()
        if not examples:
            raise ValueError(Errors.E923.format(name=self.name))
        if unknown := [label for label in found if label not in self.labels]:
            raise ValueError(
                f"[{self.name}] the examples have labels that it was not given: "
                f"{', '.join(unknown)}. It has {', '.join(self.labels)}"
            )
        self._size_head()
        sample = examples[: self.model.attrs.get("sample_size", SAMPLE_SIZE)]
        self.model.initialize(X=[example.predicted for example in sample])
        self._has_warned = False
        self._check_references([example.reference for example in examples])
        self._warn("the training data", examples, self._find_problems(examples))

    def _check_references(self, docs: list[Doc]) -> None:
        """Warn of what is odd about the gold documents as a whole."""
        return

    def _find_problems(self, examples: list[Example], batch_size: int = 128) -> dict[int, str]:
        """What is wrong with the examples that training will leave out, by index."""
        problems: dict[int, str] = {}
        for start in range(0, len(examples), batch_size):
            batch = examples[start : start + batch_size]
            docs = [example.predicted for example in batch]
            found = self._read_gold(
                batch, self._restrict(self.zero_potentials(docs), docs)
            ).problems
            problems.update((start + i, problem) for i, problem in found.items())
        return problems

    def zero_potentials(self, docs: list[Doc]) -> Potentials:
        """Potentials that say no more than what is forbidden."""
        n_tags, lengths = len(self.tags), doc_lengths(docs)
        blank = np.zeros((lengths.sum(), n_tags), dtype="float32")
        potentials = Potentials(blank, np.zeros((n_tags, n_tags), dtype="float32"), lengths)
        constraints = self.head.attrs["constraints"]
        if constraints is not None:
            potentials = constraints.apply(potentials)
        arrays = potentials.unary, potentials.transitions, potentials.lengths
        return Potentials(*map(self.model.ops.asarray, arrays))

    def _warn(self, where: str, examples: list[Example], problems: dict[int, str]) -> None:
        """Once a training: from initialize if anything is known by then."""
        if problems and not self._has_warned:
            self._has_warned = True
            warn_of_problems(self.name, where, examples, problems)

    def _find_labels(self, doc: Doc) -> set[str]:
        values = np.unique(doc.to_array(self.attribute_ids[-1]))
        return {doc.vocab.strings[value] for value in values.tolist() if value}
