"""Factories of the components.

Every `Language()` imports this module. So a factory imports its component only when called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from spacy.language import Language
from thinc.api import Config, Model

if TYPE_CHECKING:
    from .chunker import Chunker
    from .ner import EntityRecognizer
    from .segmenter import Segmenter
    from .tagger import Tagger

SEGMENTER_MODEL = Config().from_str(
    """
[model]
@architectures = "spacy-bcrf.SequenceLabeler.v1"

[model.tok2vec]
@architectures = "spacy.Tok2Vec.v2"

[model.tok2vec.embed]
@architectures = "spacy-bcrf.MultiHashEmbed.v1"
width = 96
attrs = ["ORTH", "SHAPE", "SPACY"]
rows = [5000, 500, 50]
include_static_vectors = false

[model.tok2vec.encode]
@architectures = "spacy-bcrf.MaxoutWindowEncoder.v1"
width = 96
window_size = 1
maxout_pieces = 2
depth = 4

[model.head]
@layers = "spacy-bcrf.BCRF.v1"
"""
)["model"]

# Without pretrained vectors, sparse linear chains are level with networks or better, and learn and
# predict faster (docs/results.md, "Default models").
LINEAR_CHAIN = {"@architectures": "spacy-bcrf.LinearChain.v1"}
TAGGER_MODEL = {**LINEAR_CHAIN, "templates": "pos"}
# Its gradient steps for incorrect spans and entity ratios follow the likelihood too.
NER_MODEL = {**LINEAR_CHAIN, "templates": "ner", "objective": "crf"}
CHUNKER_MODEL = {**LINEAR_CHAIN, "templates": "chunking"}


@Language.factory(
    "bcrf_tagger",
    assigns=["token.tag", "token.pos"],
    default_config={
        "model": TAGGER_MODEL,
        "attribute": "tag",
        "overwrite": False,
        "label_smoothing": 0.0,
        "annotate": [],
        "temperature": 1.0,
        "calibration": None,
        "threshold": 0.0,
        "control": None,
        "scorer": {"@scorers": "spacy-bcrf.Tagger.v1"},
    },
    # `attribute` decides which of the two scores exists. The other one counts as 0.
    default_score_weights={"tag_acc": 0.5, "pos_acc": 0.5},
)
def make_tagger(
    nlp: Language,
    name: str,
    model: Model,
    attribute: Literal["tag", "pos"],
    overwrite: bool,
    label_smoothing: float,
    annotate: list[str],
    temperature: float,
    calibration: dict[str, Any] | None,
    threshold: float,
    control: dict[str, Any] | None,
    scorer: Callable | None,
) -> Tagger:
    """Make a `bcrf_tagger`, see `tagger.Tagger`."""
    from .tagger import Tagger

    return Tagger(
        nlp.vocab,
        model,
        name,
        attribute=attribute,
        overwrite=overwrite,
        label_smoothing=label_smoothing,
        annotate=annotate,
        temperature=temperature,
        calibration=_read_option(name, "calibration", calibration),
        threshold=threshold,
        control=_read_option(name, "control", control),
        scorer=scorer,
    )


@Language.factory(
    "bcrf_ner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "model": NER_MODEL,
        "scheme": "BILUO",
        "incorrect_spans_key": "incorrect_spans",
        "ambiguous_spans_key": "ambiguous_spans",
        "entity_ratio": None,
        "annotate": [],
        "temperature": 1.0,
        "calibration": None,
        "threshold": 0.0,
        "control": None,
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_ner(
    nlp: Language,
    name: str,
    model: Model,
    scheme: str,
    incorrect_spans_key: str | None,
    ambiguous_spans_key: str | None,
    entity_ratio: dict[str, float] | None,
    annotate: list[str],
    temperature: float,
    calibration: dict[str, Any] | None,
    threshold: float,
    control: dict[str, Any] | None,
    scorer: Callable | None,
) -> EntityRecognizer:
    """Make a `bcrf_ner`, see `ner.EntityRecognizer`."""
    from spacy_bcrf.chain import ExpectedEntityRatio

    from .ner import EntityRecognizer

    _check_scheme(name, scheme)
    return EntityRecognizer(
        nlp.vocab,
        model,
        name,
        scheme=scheme,
        incorrect_spans_key=incorrect_spans_key,
        ambiguous_spans_key=ambiguous_spans_key,
        entity_ratio=None
        if entity_ratio is None
        else ExpectedEntityRatio.from_options(entity_ratio),
        annotate=annotate,
        temperature=temperature,
        calibration=_read_option(name, "calibration", calibration),
        threshold=threshold,
        control=_read_option(name, "control", control),
        scorer=scorer,
    )


@Language.factory(
    "bcrf_chunker",
    assigns=["doc.spans"],
    default_config={
        "model": CHUNKER_MODEL,
        "scheme": "BIO",
        "spans_key": "chunks",
        "annotate": [],
        "temperature": 1.0,
        "calibration": None,
        "threshold": 0.0,
        "control": None,
        "scorer": {"@scorers": "spacy.spancat_scorer.v1"},
    },
    default_score_weights={"spans_chunks_f": 1.0, "spans_chunks_p": 0.0, "spans_chunks_r": 0.0},
)
def make_chunker(
    nlp: Language,
    name: str,
    model: Model,
    scheme: str,
    spans_key: str,
    annotate: list[str],
    temperature: float,
    calibration: dict[str, Any] | None,
    threshold: float,
    control: dict[str, Any] | None,
    scorer: Callable | None,
) -> Chunker:
    """Make a `bcrf_chunker`, see `chunker.Chunker`."""
    from .chunker import Chunker

    _check_scheme(name, scheme)
    return Chunker(
        nlp.vocab,
        model,
        name,
        scheme=scheme,
        spans_key=spans_key,
        annotate=annotate,
        temperature=temperature,
        calibration=_read_option(name, "calibration", calibration),
        threshold=threshold,
        control=_read_option(name, "control", control),
        scorer=scorer,
    )


@Language.factory(
    "bcrf_segmenter",
    assigns=["token.tag", "token.pos"],
    default_config={
        "model": SEGMENTER_MODEL,
        "attribute": "tag",
        "annotate": [],
        "temperature": 1.0,
        "calibration": None,
        "scorer": {"@scorers": "spacy-bcrf.segmenter_scorer.v1"},
    },
    default_score_weights={
        "token_acc": None,
        "token_p": None,
        "token_r": None,
        "token_f": 0.0,
        "tagged_token_p": 0.0,
        "tagged_token_r": 0.0,
        "tagged_token_f": 1.0,
    },
    retokenizes=True,
)
def make_segmenter(
    nlp: Language,
    name: str,
    model: Model,
    attribute: Literal["tag", "pos"],
    annotate: list[str],
    temperature: float,
    calibration: dict[str, Any] | None,
    scorer: Callable | None,
) -> Segmenter:
    """Make a `bcrf_segmenter`, see `segmenter.Segmenter`."""
    from .segmenter import Segmenter

    return Segmenter(
        nlp.vocab,
        model,
        name,
        attribute=attribute,
        annotate=annotate,
        temperature=temperature,
        calibration=_read_option(name, "calibration", calibration),
        scorer=scorer,
    )


def _read_option(name: str, option: str, value: dict[str, Any] | None) -> Any:
    """Read the option `control` or `calibration`. ValueError with the name of the component."""
    if value is None:
        return None
    from .sequence_labeler import NESTED_OPTIONS

    try:
        return NESTED_OPTIONS[option].from_options(value)
    except ValueError as error:
        raise ValueError(f"[{name}] {error}") from None


def _check_scheme(name: str, scheme: str) -> None:
    """Raise ValueError, with the name of the component, for an unknown tagging scheme."""
    from spacy_bcrf.annotation.schemes import get_scheme

    try:
        get_scheme(scheme)
    except ValueError as error:
        raise ValueError(f"[{name}] {error}") from None
