"""`migrate`: from spaCy's training configs and CRFsuite's models to our components."""

from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_config, load_model_from_config
from thinc.api import Config

from bcrf.linear.crfsuite_model import MAGIC, read_crfsuite_model
from spacy_bcrf.corpora.formats.crfsuite import set_features
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.pipeline.config_errors import naming
from spacy_bcrf.pipeline.tagger import Tagger

REPLACEMENTS = {"ner": "bcrf_ner", "tagger": "bcrf_tagger", "spancat": "bcrf_spans"}
_ARCHITECTURES = {
    "ner": ("spacy.TransitionBasedParser.v1", "spacy.TransitionBasedParser.v2"),
    "tagger": ("spacy.Tagger.v1", "spacy.Tagger.v2"),
    "spancat": ("spacy.SpanCategorizer.v1",),
}
# Options that the new component has too.
_KEPT = {
    "ner": ("incorrect_spans_key", "scorer"),
    "tagger": ("overwrite", "label_smoothing", "scorer"),
    "spancat": ("spans_key", "scorer"),
}
_STOCK_SCORERS = [{"@scorers": f"spacy.{name}_scorer.v1"} for name in ("ner", "tagger", "spancat")]
"""Ours count what spaCy's count, and gold spans that cut tokens."""
# Values of other options that can be left out. Ours have no transitions, thresholds or suggesters.
_DROPPED: dict[str, dict[str, Any]] = {
    "ner": {"moves": (None,), "update_with_oracle_cut_size": ..., "multitasks": ([],)},
    "tagger": {"neg_prefix": ("!",)},
    "spancat": {"threshold": ..., "max_positive": ..., "suggester": ...},
}
# spaCy's layers, and ours with the same options and compiled kernels.
_COMPILED = {
    "spacy.MultiHashEmbed.v2": "spacy-bcrf.MultiHashEmbed.v1",
    "spacy.MaxoutWindowEncoder.v2": "spacy-bcrf.MaxoutWindowEncoder.v1",
}
TEMPLATE = "_.crfsuite[0]"
"""The template of a migrated model of CRFsuite."""
_SUGGESTERS = ("spacy.ngram_suggester.v1", "spacy.ngram_range_suggester.v1")


def is_crfsuite_model(path: Path) -> bool:
    """Return whether a file is a model of CRFsuite, or has the suffix of one."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC or path.suffix == ".crfsuite"


def migrate(
    source: Path, *, head: str = "BCRF", lang: str = "en"
) -> tuple[Config | Language, list[str]]:
    """Return our config of a training config, or the pipeline of a CRFsuite model, and notes.

    head: head of a config's components. lang: language of a model's pipeline. See `migrate_config`
    and `import_crfsuite`. ValueError names the file.
    """
    if is_crfsuite_model(source):
        nlp = import_crfsuite(source, lang)
        return nlp, [
            "token._.crfsuite has the names of features. Values other than 1 have no counterpart "
            f"in a pipeline. For values: bcrf.sklearn.CRF(model_filename={str(source)!r})"
        ]
    if _is_pickle(source):
        raise ValueError(
            f"{source}: is a pickle, which can run code, so `migrate` does not read it. Load it "
            "where you trust it, and save its model: shutil.copy(crf.modelfile.name, "
            "'model.crfsuite')"
        )
    with naming(source):
        config, notes = migrate_config(
            load_config(source, interpolate=False), f"spacy-bcrf.{head}.v1"
        )
        # References to removed settings and unknown functions show here.
        config.interpolate()
        load_model_from_config(config, auto_fill=True)
    return config, notes


def _is_pickle(path: Path) -> bool:
    """Return whether a file is a pickle by its name or its first bytes, as joblib's too."""
    with path.open("rb") as file:
        return file.read(1) == b"\x80" or path.suffix in (".pkl", ".pickle", ".joblib")


def migrate_config(config: Config, head: str = "spacy-bcrf.BCRF.v1") -> tuple[Config, list[str]]:
    """Replace spaCy's `ner`, `tagger` and `spancat` in a training config. RETURNS it, and notes.

    Names of components, tok2vec layers, listeners and all settings outside of the components stay.
    config: filled or not, and not interpolated. It stays unchanged. head: registered name of a
    head. ValueError names a section that cannot be migrated, and the reason.
    """
    config = config.copy()
    pipes = config.get("components", {})
    for name, pipe in pipes.items():
        is_trained = "source" in pipe and name in config.get("nlp", {}).get("pipeline", [])
        if is_trained and pipe.get("component", name) in REPLACEMENTS:
            raise ValueError(
                f"[components.{name}] source = {pipe['source']!r}: trained weights cannot be "
                "migrated; expected a factory and a model, which is trained again"
            )
    stock = {
        name: pipe["factory"] for name, pipe in pipes.items() if _factory(pipe) in REPLACEMENTS
    }
    if not stock:
        found = ", ".join(f"{name} ({_factory(pipe)})" for name, pipe in pipes.items())
        raise ValueError(
            f"[components] has no factory ner, tagger or spancat; found {found or 'no components'}"
        )
    notes = []
    for name, factory in stock.items():
        notes.append(f"[components.{name}] {factory} -> {REPLACEMENTS[factory]}")
        notes += _migrate_component(config, name, factory, head)
    if sum(map(_compile_layers, pipes.values())):
        notes.append(
            "the CNN runs in compiled layers, several times as fast on a CPU. For trained "
            "pipelines of spaCy there is spacy_bcrf.accelerate(nlp)"
        )
    return config, notes


def _compile_layers(section: Any) -> int:
    """Name our layers in place of spaCy's, in a section and below it. Return how many."""
    if not isinstance(section, dict):
        return 0
    n = sum(map(_compile_layers, section.values()))
    if section.get("@architectures") in _COMPILED:
        section["@architectures"] = _COMPILED[section["@architectures"]]
        n += 1
    return n


def _factory(pipe: dict[str, Any]) -> str:
    return pipe.get("factory", f"source {pipe.get('source')}")


def _migrate_component(config: Config, name: str, factory: str, head: str) -> list[str]:
    """Replace a component in the config. RETURNS notes. ValueError names the setting."""
    pipe = dict(config["components"][name])
    section = f"[components.{name}]"
    del pipe["factory"]
    tok2vec = _take_tok2vec(section, factory, pipe.pop("model", None))
    options = {key: pipe.pop(key) for key in _KEPT[factory] if key in pipe}
    if options.get("scorer") in _STOCK_SCORERS:
        del options["scorer"]
    dropped = []
    for key, value in pipe.items():
        values = _DROPPED[factory].get(key, ())
        suggester = value.get("@misc") if isinstance(value, dict) else None
        if (values is not ... and value not in values) or (
            key == "suggester" and suggester not in _SUGGESTERS
        ):
            what = suggester if key == "suggester" else value
            raise ValueError(
                f"{section} {key} = {what!r}: {REPLACEMENTS[factory]} has no counterpart; "
                f"remove {key} if the component can do without it"
            )
        if values is ...:
            dropped.append(key)
    notes = [f"{section} without {', '.join(dropped)}"] if dropped else []
    if factory == "spancat":
        options.setdefault("spans_key", "sc")
    settings = config.get("initialize", {}).get("components", {}).get(name, {})
    if factory == "ner" and settings.pop("labels", None) is not None:
        notes.append(
            f"[initialize.components.{name}] without labels: those of ner are transitions. Write "
            "labels of bcrf_ner by `python -m spacy init labels`"
        )
    architecture = {"@architectures": "spacy-bcrf.SequenceLabeler.v1"}
    options["model"] = {**architecture, "tok2vec": tok2vec, "head": {"@layers": head}}
    config["components"][name] = {"factory": REPLACEMENTS[factory], **options}
    _set_weights(config, factory, options)
    return notes


def _take_tok2vec(section: str, factory: str, model: Any) -> dict[str, Any]:
    if model is None:
        raise ValueError(
            f"{section} has no model; fill the config by `python -m spacy init fill-config`"
        )
    architecture = model.get("@architectures")
    if architecture not in _ARCHITECTURES[factory]:
        raise ValueError(
            f"{section[:-1]}.model] @architectures = {architecture!r}: cannot be migrated; "
            f"expected one of {', '.join(_ARCHITECTURES[factory])}"
        )
    if not model.get("tok2vec"):
        raise ValueError(
            f"{section[:-1]}.model] has no tok2vec; fill the config by "
            "`python -m spacy init fill-config`"
        )
    return model["tok2vec"]


def _set_weights(config: Config, factory: str, options: dict[str, Any]) -> None:
    """Name the scores of the new component, without scores that it lacks."""
    weights = config.setdefault("training", {}).setdefault("score_weights", {})
    if factory == "tagger":
        # bcrf_tagger may write `pos` in place of `tag`, and has weights for both.
        weights.setdefault("tag_acc", 1.0)
        weights["pos_acc"] = None
        for key in ("tag_micro_p", "tag_micro_r", "tag_micro_f"):
            weights.pop(key, None)
    elif factory == "spancat":
        key = options["spans_key"]
        weights.setdefault(f"spans_{key}_f", 1.0)
        if key != "chunks":
            weights |= {f"spans_chunks_{score}": None for score in "fpr"}


def import_crfsuite(path: Path, lang: str = "en") -> Language:
    """Make a pipeline with a `bcrf_tagger` that has the labels and the weights of a model file.

    It reads the names of features from `token._.crfsuite`, see `formats.crfsuite.set_features`.
    Features with values other than 1 have no counterpart. The weights are float32;
    `bcrf.sklearn.CRF(model_filename=path)` keeps float64. ValueError for another file or no label.
    """
    model = read_crfsuite_model(path)
    labels, attributes = model.labels, model.attributes
    if not labels or "" in labels or "" in attributes:
        raise ValueError(f"{path}: the model has no label, or an empty label or attribute")
    nlp = spacy.blank(lang)
    chain_config = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": [TEMPLATE]}
    tagger = nlp.add_pipe("bcrf_tagger", config={"model": {**chain_config, "objective": "crf"}})
    assert isinstance(tagger, Tagger)
    # The first token has all features.
    doc = Doc(nlp.vocab, words=["_"] * len(labels))
    set_features(doc, [attributes, *[[]] * (len(labels) - 1)])
    reference = Doc(nlp.vocab, words=["_"] * len(labels), tags=labels)
    tagger.initialize(lambda: [Example(doc, reference)], nlp=nlp, labels=labels)
    chain = sparse_chain(tagger.model)
    assert chain is not None
    keys, _ = chain.features.keys([doc])
    rows = chain.dictionary.find(keys[: len(attributes)])
    order = [labels.index(label) for label in tagger.labels]
    n_tags, weights = len(labels), np.zeros_like(chain.learner.weights)
    weights[:n_tags, :n_tags] = model.transitions[np.ix_(order, order)]
    weights[n_tags + 3 + rows, :n_tags] = model.weights[:, order]
    chain.learner.weights = weights
    chain.full = True
    return nlp
