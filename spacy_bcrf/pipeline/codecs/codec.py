"""The interface between a component and the annotation that it predicts."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.strings import StringStore
from spacy.tokens import Doc, Span
from spacy.training import Example

from bcrf.chain import Constraints, Potentials, SpanTags
from spacy_bcrf.annotation.arrays import Attributes, Bools, DocBatch, Values
from spacy_bcrf.annotation.extensions import Key, UserData, make_key

Tags = NDArray[np.int32]

Ops = Any
"""Thinc's Ops. Its type hints do not admit boolean arrays."""

Predictions = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]
"""Starts, ends and labels (M,) of predictions. Positions are flat, and a tag spans one token."""

SpanArrays = tuple[
    NDArray[np.integer], NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]
]
"""Starts, ends, labels and probabilities (M,) of spans. Positions are flat."""

Labelings = tuple[NDArray[np.int32], NDArray[np.floating]]
"""Tags (m, L) of the m best labelings, and their scores (m,) in descending order."""

ScoredSpans = tuple[list[tuple[int, int, int]], NDArray[np.floating]]
"""The predictions of a document as (start, end, label), and their probabilities, float32."""

Unit = Literal["token", "span", "word"]
"""The unit of a confidence: the tag of a token, a span, or a word made of tokens."""


class Codec(Protocol):
    """One kind of annotation as T tags: reads gold, builds the lattice, writes predictions.

    A method with a body has a default. B documents have N tokens in all, one document has n.
    `Values` are (N, A) for A attributes. C chains side by side, see `chain.side_by_side`, have C n
    rows of tags, potentials, lattice and gold: all tokens in the first chain, then in the second.

    settings: define the tags together with the labels. state: JSON values that initialization finds
        and that define the tags. Both are saved.
    tags: in the order of their ids, of all chains. A new label appends its tags.
    n_chains: C. most_layers: of a label. Labelings of several can have the same spans.
    of_entities: whether the annotation is `doc.ents`. may_overlap: whether predictions may overlap.
        They are written by `write_spans`.
    predictions: returns the predictions of tags (N,) and lengths (B,).
    what, where_lost, restrictions: for messages: the annotation; a sentence, with a space after it,
        on how training documents may have lost it; what can forbid a labeling.
    attributes: of tokens that `open_tags` reads. outside: the id of O, None without one.
    unit: of predictions, and of "confidence" in `settings.ANNOTATIONS`. tag_unit: of
        "tag_confidence". groupings: of predictions for Platt scaling, "label" and "length".
    can_extend: whether gold documents can annotate some labels only, so that training adds labels.
    """

    settings: dict[str, str]
    state: dict[str, Any] = {}  # noqa: RUF012
    labels: tuple[str, ...]
    tags: list[str]
    tags_per_label: int
    n_chains: int = 1
    most_layers: int = 1
    of_entities: ClassVar[bool] = False
    may_overlap: ClassVar[bool] = False
    predictions: Callable[[Tags, Tags], Predictions]
    constraints: Constraints | None
    what: str
    where_lost: str
    restrictions: str
    attributes: ClassVar[Attributes]
    unit: ClassVar[Unit]
    tag_unit: ClassVar[Unit]
    groupings: ClassVar[tuple[str, ...]]
    can_extend: ClassVar[bool]
    outside: ClassVar[int | None]

    def check_label(self, label: str) -> None:
        """Raise ValueError for a label that the annotation cannot store."""
        return

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        """Set the labels, and with them tags and constraints."""

    @property
    def n_tags(self) -> int:
        return len(self.tags) // self.n_chains

    def count_layers(self, example: Example) -> Counter[tuple[str, int]]:
        """Count what `choose_layers` needs of an example."""
        return Counter()

    def choose_layers(self, counts: Mapping[tuple[str, int], int]) -> None:
        """Set the state from the counts of the training data."""
        return

    def describe(self, counts: Mapping[tuple[str, int], int]) -> tuple[str, str]:
        """Describe what `choose_layers` has chosen, and what it leaves out; or nothing."""
        return "", ""

    def find_missing(self) -> Collection[str]:
        """Return the labels of the settings that are not among the labels."""
        return ()

    def find_lost(self, example: Example) -> list[str]:
        """Describe gold spans that tags cannot express. Training leaves them out."""
        return []

    def find_labels(self, doc: Doc) -> set[str]:
        """Return the labels of a gold document."""

    def find_used_labels(self, doc: Doc) -> set[str]:
        """Return the labels that a span of a gold document has, without `annotated_labels`."""
        return self.find_labels(doc)

    def find_spans(self, doc: Doc) -> list[Span]:
        """Return the annotated spans of a gold document, valid or not, tags as one token each."""

    def probabilities(self, doc: Doc, spans: Sequence[Span]) -> list[float | None]:
        """Return the probabilities that a component has written of these spans, None without."""
        data: UserData = doc.user_data
        return [data.get(self.confidence_key(span.start_char, span.end_char)) for span in spans]

    def length(self, span: Span) -> int | None:
        """Return the length of a span in its unit: characters of a word; None for a tag."""
        return len(span)

    def annotated_labels(self, doc: Doc) -> Collection[str] | None:
        """Return the labels that a gold document annotates; None for all labels."""
        return None

    def read_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        """Return gold annotation aligned with the predicted tokens, and problems by example."""

    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        """Return gold int32 (N,) with UNKNOWN, or allowed tags (N, T), and unknown labels (N,)."""

    def read_partial(self, examples: Sequence[Example]) -> tuple[dict[int, Any], dict[int, str]]:
        """Return the references' partial annotation for `constrain`, and problems by example."""
        return {}, {}

    def excludes(self, partial: Any, start: int, end: int, label: str, is_annotated: bool) -> bool:
        """Whether a prediction that is not gold is wrong. is_annotated: whether its tokens are."""
        return is_annotated

    def unannotated(self, doc: Doc) -> Bools:
        """Return a mask (n,) of the tokens of a gold document without annotation."""

    def constrain(
        self, example: Example, partial: Any, values: Values, allowed: Bools
    ) -> list[tuple[int, Bools]]:
        """Apply partial annotation of an example to its allowed tags (C n, T), in place.

        RETURNS wrong labelings, each as its chain and tags (n, T). ValueError for contradictions.
        """
        return []

    def open_tags(
        self, batch: DocBatch, ignore_annotation: bool = False
    ) -> tuple[Bools | None, Bools | None]:
        """Return the lattice (N, T), None if all are open, and whitespace that ends no span."""
        return None, None

    def forbid_ends(self, potentials: Potentials, tokens: Bools) -> Potentials:
        """Return potentials that forbid a span to end at these tokens (N,)."""
        return potentials

    def kept(self, docs: Sequence[Doc], tags: Tags) -> Tags:
        """Return the tags (N,) of the documents after `write`, UNKNOWN for unknown labels."""
        return tags

    def check_promise(self, promise: str) -> None:
        """Raise ValueError if predictions cannot keep a promise of "precision" or "recall"."""
        return

    def span_tags(self, ops: Ops) -> SpanTags:
        """Return the tag ids of the spans of each slot of a chain, on the device of `ops`."""
        raise NotImplementedError(f"{self.what} are no spans")

    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        """Return all spans of at least this probability in order of the text, tags as tokens."""

    def make_span(self, doc: Doc, start: int, end: int, label: int) -> Span:
        """Return a span of a document. label: the index of its label."""
        return Span(doc, start, end, label=self.labels[label])

    def confidence_key(self, start: int, end: int) -> Key:
        """Return the key in `Doc.user_data` of the confidence of these characters."""
        if self.unit == "span":
            return make_key("confidence", start, end)
        return make_key("tag_confidence", start)

    def locate(self, tags: Tags, lengths: Tags) -> tuple[Predictions, NDArray, NDArray]:
        """Return all predictions, and their starts and ends (M,) among the C N rows of tags."""
        starts, ends, labels = self.predictions(tags, lengths)
        return (starts, ends, labels), starts, ends

    def write(self, docs: Sequence[Doc], tags: Sequence[Tags]) -> list[Doc]:
        """Write tags; UNKNOWN is empty. RETURNS the documents, or new ones."""

    def write_spans(self, docs: Sequence[Doc], found: Sequence[ScoredSpans]) -> list[Doc]:
        """Write predictions that may overlap, see `write`."""
        raise NotImplementedError

    def interpret(self, doc: Doc, tags: Tags) -> list[Any]:
        """Return the annotation of one document with these tags."""

    def compare_with_gold(
        self, tags: Tags, values: Values, lengths: Tags
    ) -> tuple[Predictions, Bools, Bools]:
        """Return M predictions for `confidences`, and which are correct and annotated (M,)."""

    def merge_layers(
        self, posterior: Potentials, lists: Sequence[Labelings], n: int, ops: Ops
    ) -> list[Labelings]:
        """Return the best labelings of one document with different spans, by group of chains.

        posterior, lists: of its chains. n: of labelings, which get the score of all of the spans.
        """
        raise NotImplementedError

    def place(self, labels: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Return index, chain and slot (M,) of labels (K,) in all layers, from the outermost on."""
        return np.arange(len(labels)), np.zeros(len(labels), dtype="int64"), labels

    def label_of(self, chains: NDArray, slots: NDArray) -> NDArray:
        """Return the labels (M,) of slots of chains."""
        return slots

    def outside_posteriors(
        self, posterior: Potentials, spans: Predictions, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) that no span of the same chain touches spans."""
        raise NotImplementedError

    def confidences(
        self, posterior: Potentials, predictions: Predictions, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) of predictions."""
