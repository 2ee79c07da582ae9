"""The interface between a component and the annotation that it predicts."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray
from spacy.strings import StringStore
from spacy.tokens import Doc, Span
from spacy.training import Example

from bcrf.chain import Constraints, Potentials
from spacy_bcrf.annotation.arrays import Attributes, Bools, DocBatch, Values
from spacy_bcrf.annotation.extensions import Key, UserData, make_key
from spacy_bcrf.annotation.misaligned import MisalignedSpan

from .codec_types import Floats, Ops, PredictedSpans, ScoredSpans, SpanArrays, Tags, Unit
from .partial_gold import PartialGold
from .span_tagging import LayeredTagging, SpanTagging


class Codec(ABC):
    """One kind of annotation as T tags: reads gold, builds the lattice, writes predictions.

    B documents have N tokens in all, one document has n. `Values` are (N, A) for A attributes. C
    chains side by side, see `chain.side_by_side`, have C n rows of tags, potentials, lattice and
    gold: all tokens in the first chain, then in the second.

    Three objects exist only where the annotation has the ability:
    spans: the tags of predictions that are spans; None for a tag per token. layered: the same
        object if spans can overlap, in layers. partial: reads gold that annotates a part only.

    settings: define the tags together with the labels. state: JSON values that initialization finds
        and that define the tags. Both are saved.
    tags: in the order of their ids, of all chains. A new label appends its tags.
    n_chains: C.
    what, where_lost, restrictions: for messages: the annotation; a sentence, with a space after it,
        on how training documents may have lost it; what can forbid a labeling.
    predictions: returns the predictions of tags (N,) and lengths (B,).
    attributes: of tokens that `open_tags` reads. unit: of predictions and their confidence.
    """

    settings: dict[str, str]
    state: dict[str, Any]
    labels: tuple[str, ...]
    tags: list[str]
    tags_per_label: int
    n_chains: int = 1
    spans: SpanTagging | None = None
    layered: LayeredTagging | None = None
    partial: PartialGold | None = None
    constraints: Constraints | None
    predictions: Callable[[Tags, Tags], PredictedSpans]
    what: str
    where_lost: str
    restrictions: str
    attributes: ClassVar[Attributes]
    unit: ClassVar[Unit]

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings, self.state = settings, {}

    @property
    def n_tags(self) -> int:
        return len(self.tags) // self.n_chains

    @property
    def tag_unit(self) -> Unit:
        """The unit of "tag_confidence" in `settings.ANNOTATIONS`."""
        return "token" if self.unit == "span" and self.layered is None else self.unit

    # Labels

    def check_label(self, label: str) -> None:  # noqa: B027 (most annotation stores any label)
        """Raise ValueError for a label that the annotation cannot store."""

    @abstractmethod
    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        """Set the labels, and with them tags, constraints, and the three objects."""

    def count_layers(self, example: Example) -> Counter[tuple[str, int]]:
        """Count what `choose_layers` needs of an example."""
        return Counter()

    def choose_layers(self, counts: Mapping[tuple[str, int], int]) -> None:  # noqa: B027
        """Set the state from the counts of the training data."""

    def describe(self, counts: Mapping[tuple[str, int], int]) -> tuple[str, str]:
        """Describe what `choose_layers` has chosen, and what it leaves out; or nothing."""
        return "", ""

    def find_missing(self) -> Collection[str]:
        """Return the labels of the settings that are not among the labels."""
        return ()

    # Gold

    @abstractmethod
    def find_labels(self, doc: Doc) -> set[str]:
        """Return the labels of a gold document."""

    def find_used_labels(self, doc: Doc) -> set[str]:
        """Return the labels that a span of a gold document has, without `annotated_labels`."""
        return self.find_labels(doc)

    @abstractmethod
    def find_spans(self, doc: Doc) -> list[Span]:
        """Return the annotated spans of a gold document, valid or not, tags as one token each."""

    def find_misaligned(self, doc: Doc) -> list[MisalignedSpan]:
        """Return the gold spans of a document that cut tokens, see `annotation.misaligned`."""
        return []

    def find_lost(self, example: Example) -> list[str]:
        """Describe gold spans that tags cannot express. Training leaves them out."""
        return []

    @abstractmethod
    def unannotated(self, doc: Doc) -> Bools:
        """Return a mask (n,) of the tokens of a gold document without annotation."""

    @abstractmethod
    def align_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        """Return gold annotation aligned with the predicted tokens, and problems by example."""

    @abstractmethod
    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        """Return gold int32 (N,) with UNKNOWN, or allowed tags (N, T), and unknown labels (N,)."""

    @abstractmethod
    def compare_with_gold(
        self, tags: Tags, values: Values, lengths: Tags
    ) -> tuple[PredictedSpans, Bools, Bools]:
        """Return M predictions for `confidences`, and which are correct and annotated (M,)."""

    # The lattice

    def open_tags(
        self, batch: DocBatch, ignore_annotation: bool = False
    ) -> tuple[Bools | None, Bools | None]:
        """Return the lattice (N, T), None if all are open, and whitespace that ends no span."""
        return None, None

    # Predictions

    def check_promise(self, promise: str) -> None:  # noqa: B027 (spans can keep both)
        """Raise ValueError if predictions cannot keep a promise of "precision" or "recall"."""

    def locate(self, tags: Tags, lengths: Tags) -> tuple[PredictedSpans, NDArray, NDArray]:
        """Return all predictions, and their starts and ends (M,) among the C N rows of tags."""
        starts, ends, labels = self.predictions(tags, lengths)
        return (starts, ends, labels), starts, ends

    @abstractmethod
    def confidences(self, posterior: Potentials, predictions: PredictedSpans, ops: Ops) -> Floats:
        """Return the probabilities (M,) of predictions."""

    @abstractmethod
    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        """Return all spans of at least this probability in order of the text, tags as tokens."""

    def make_span(self, doc: Doc, start: int, end: int, label: int) -> Span:
        """Return a span of a document. label: the index of its label."""
        return Span(doc, start, end, label=self.labels[label])

    def length(self, span: Span) -> int | None:
        """Return the length of a span in its unit: characters of a word; None for a tag."""
        return len(span)

    def confidence_key(self, start: int, end: int) -> Key:
        """Return the key in `Doc.user_data` of the confidence of these characters."""
        if self.unit == "span":
            return make_key("confidence", start, end)
        return make_key("tag_confidence", start)

    def probabilities(self, doc: Doc, spans: Sequence[Span]) -> list[float | None]:
        """Return the probabilities that a component has written of these spans, None without."""
        data: UserData = doc.user_data
        return [data.get(self.confidence_key(span.start_char, span.end_char)) for span in spans]

    def is_preset(self, doc: Doc) -> bool:
        """Return whether a document's annotation, which `write` keeps, hides all predictions."""
        return False

    def is_hidden_by(self, assigned: Iterable[str]) -> bool:
        """Return whether `write` keeps what an earlier component sets. assigned: "token.tag" .."""
        return False

    def kept(self, docs: Sequence[Doc], tags: Tags) -> Tags:
        """Return the tags (N,) of the documents after `write`, UNKNOWN for unknown labels."""
        return tags

    @abstractmethod
    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], spans: Sequence[ScoredSpans | None]
    ) -> list[Doc]:
        """Write tags, or the spans of a `layered` codec. RETURNS the documents, or new ones.

        A token with the tag UNKNOWN gets no annotation.
        """

    @abstractmethod
    def interpret(self, doc: Doc, tags: Tags) -> list[Any]:
        """Return the annotation of one document with these tags."""
