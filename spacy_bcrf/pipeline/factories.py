"""Factories of the components. Every `Language()` imports them; they import when called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from thinc.api import ConfigValidationError, Model

from .settings import EntitySettings, Settings, TaggerSettings

if TYPE_CHECKING:
    from .sequence_labeler import SequenceLabeler

SEGMENTER_MODEL = {
    "@architectures": "spacy-bcrf.SequenceLabeler.v1",
    "tok2vec": {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {
            "@architectures": "spacy-bcrf.MultiHashEmbed.v1",
            "width": 96,
            "attrs": ["ORTH", "SHAPE", "SPACY"],
            "rows": [5000, 500, 50],
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy-bcrf.MaxoutWindowEncoder.v1",
            **{"width": 96, "window_size": 1, "maxout_pieces": 2, "depth": 4},
        },
    },
    "head": {"@layers": "spacy-bcrf.BCRF.v1"},
}
# Without pretrained vectors, sparse linear chains reach the F of networks or more, and learn and
# predict faster (docs/results.md, "All systems").
LINEAR_CHAIN = {"@architectures": "spacy-bcrf.LinearChain.v1"}
TAGGER_MODEL = {**LINEAR_CHAIN, "templates": "pos"}
# Gradient steps for incorrect spans and entity ratios follow the likelihood too. Most names of new
# texts are not in the training texts: without dropout, scores rest on the words of names, and
# recall is low.
NER_MODEL = {**LINEAR_CHAIN, "templates": "ner", "objective": "crf", "feature_dropout": 0.2}
CHUNKER_MODEL = {**LINEAR_CHAIN, "templates": "chunking"}
# As names of options and as in `annotation.partial`, whose import would slow down every `Language`.
PARTIAL_KEYS = {f"{kind}_spans_key": f"{kind}_spans" for kind in ("incorrect", "ambiguous")}


def _register(
    factory: str,
    component: str,
    codec: str,
    settings: type[Settings],
    options: dict[str, Any],
    *,
    model: dict[str, Any],
    scorer: str,
    leave_out: Sequence[str] = (),
    **facts: Any,
) -> Callable[..., SequenceLabeler]:
    """Register a factory. Its config has the options of the codec and all settings.

    component, codec: MODULE:CLASS. options: of the codec, with defaults. leave_out: settings.
    """
    fields = {name: field.default for name, field in settings.model_fields.items()}
    of_config = {name: fields[name] for name in fields if name not in leave_out}

    def make(nlp: Language, name: str, model: Model, scorer: Any, **values: Any) -> SequenceLabeler:
        try:
            made = _find(codec)(**{option: values.pop(option) for option in options})
        except ValueError as error:
            raise SettingError(f"[{name}] {error}") from None
        try:
            given = settings.read(name, values)
        except ValueError as error:
            raise SettingError(str(error)) from None
        return _find(component)(nlp.vocab, model, name, made, given, scorer=scorer)

    # spaCy reads the names of a config from the signature.
    names = ["nlp", "name", "model", *options, *of_config, "scorer"]
    types = {"nlp": Language, "name": str, "model": Model}
    make.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(n, Parameter.KEYWORD_ONLY, annotation=types.get(n, Any)) for n in names]
    )
    make.__doc__ = f"Make a `{factory}`, see `{component.split(':')[1]}`."
    defaults = {"model": model, **options, **of_config, "scorer": {"@scorers": scorer}}
    defaults["annotate"] = []
    return Language.factory(factory, default_config=defaults, func=make, **facts)


class SettingError(ConfigValidationError):
    """A wrong setting of a component. `spacy train` prints it without a traceback."""

    def __init__(self, message: str = "", **options: Any) -> None:
        # spaCy's commands make it again from its options.
        super().__init__(**{"title": message, **options})
        self.args = (message,)  # without the empty lines that the terminal gets


def _find(name: str) -> Any:
    module, _, class_name = name.partition(":")
    return getattr(import_module(module, __package__), class_name)


make_tagger = _register(
    "bcrf_tagger",
    ".tagger:Tagger",
    ".codecs.tags:TagCodec",
    TaggerSettings,
    {"attribute": "tag"},
    model=TAGGER_MODEL,
    scorer="spacy-bcrf.Tagger.v1",
    assigns=["token.tag", "token.pos"],
    # `attribute` decides which of the two scores exists. The other one counts as 0.
    default_score_weights={"tag_acc": 0.5, "pos_acc": 0.5},
)
make_ner = _register(
    "bcrf_ner",
    ".span_recognizers:EntityRecognizer",
    ".codecs.entities:EntityCodec",
    EntitySettings,
    {"scheme": "BILUO", **PARTIAL_KEYS},
    model=NER_MODEL,
    scorer="spacy-bcrf.ner_scorer.v1",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
make_chunker = _register(
    "bcrf_chunker",
    ".span_recognizers:Chunker",
    ".codecs.span_group:SpanGroupCodec",
    Settings,
    {"scheme": "BIO", "spans_key": "chunks"},
    model=CHUNKER_MODEL,
    scorer="spacy-bcrf.spans_scorer.v1",
    assigns=["doc.spans"],
    default_score_weights={"spans_chunks_f": 1.0, "spans_chunks_p": 0.0, "spans_chunks_r": 0.0},
)
make_spans = _register(
    "bcrf_spans",
    ".span_recognizers:OverlappingSpanRecognizer",
    ".codecs.overlapping:OverlappingCodec",
    Settings,
    {"scheme": "BILUO", "spans_key": "sc", "layers": None, "exclusive": [], **PARTIAL_KEYS},
    model=NER_MODEL,
    scorer="spacy-bcrf.spans_scorer.v1",
    assigns=["doc.spans"],
    default_score_weights={"spans_sc_f": 1.0, "spans_sc_p": 0.0, "spans_sc_r": 0.0},
)
make_segmenter = _register(
    "bcrf_segmenter",
    ".segmenter:Segmenter",
    ".codecs.words:WordCodec",
    Settings,
    {"attribute": "tag"},
    model=SEGMENTER_MODEL,
    scorer="spacy-bcrf.segmenter_scorer.v1",
    # Words cannot be left out of a text.
    leave_out=("threshold", "control"),
    assigns=["token.tag", "token.pos"],
    default_score_weights={
        **dict.fromkeys(("token_acc", "token_p", "token_r")),
        **dict.fromkeys(("token_f", "tagged_token_p", "tagged_token_r"), 0.0),
        "tagged_token_f": 1.0,
    },
    retokenizes=True,
)


def make_identifiers(nlp: Language, name: str, regions: list[str] | None) -> Any:
    """Make a `bcrf_identifiers`, see `IdentifierRecognizer`."""
    try:
        return _find(".identifier_recognizer:IdentifierRecognizer")(name, regions)
    except ValueError as error:
        raise SettingError(f"[{name}] {error}") from None


Language.factory(
    "bcrf_identifiers",
    default_config={"regions": None},
    func=make_identifiers,
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
)
