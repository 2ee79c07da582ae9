"""A component and its sparse linear chains, for `component.js` and `chain.js`."""

from html import _invalid_charrefs, _invalid_codepoints  # type: ignore[attr-defined]
from html.entities import html5
from typing import Any

import numpy as np

from bcrf.chain import CRF
from spacy_bcrf.layers.decoding import F
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain
from spacy_bcrf.layers.model_taggers import find_taggers
from spacy_bcrf.pipeline.apply_thresholds import precision_thresholds
from spacy_bcrf.pipeline.codecs import Codec
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.span_decoder import HIGHEST, find_thresholds
from spacy_bcrf.sparse import doc_attributes, gazetteers, two_pass, word_attributes
from spacy_bcrf.sparse.model import SparseChain

from .patterns import to_javascript, whole
from .sections import Sections

WRITTEN = {"tag": "token.tag", "pos": "token.pos", "ent_type": "entities"}
"""The attributes of tokens that components set, by what these write."""
COLUMNS = ("orth", "prefix", "suffix", *WRITTEN)
"""The attributes of tokens that a browser knows."""
REPEATED = (*COLUMNS, "lower", "shape")
"""The attributes of tokens that the attributes `elsewhere` can read."""
DECODERS = ("viterbi", "f")


def describe_component(
    pipe: SequenceLabeler, sections: Sections, written: list[str]
) -> dict[str, Any]:
    """Return a component as JSON values. written: what earlier components write.

    ValueError for a setting that a browser does not know.
    """
    obstacle = _find_obstacle(pipe)
    if obstacle:
        raise ValueError(f"[{pipe.name}] cannot run in a browser: {obstacle}")
    chain = sparse_chain(pipe.model)
    assert chain
    try:
        described = _describe_chain(chain, sections, written)
    except ValueError as error:
        raise ValueError(f"[{pipe.name}] cannot run in a browser: {error}") from None
    codec, settings = pipe.codec, pipe.settings_as_json()
    settings["control"] = shorten_promise(settings["control"])
    of_labels = pipe.name, codec.labels
    least = precision_thresholds(
        *of_labels, pipe.control, 0 if pipe.decoder == F else pipe.threshold
    )
    found = {
        "name": pipe.name,
        "writes": codec.what,
        "labels": list(codec.labels),
        "tags": codec.tags,
        "n_states": codec.n_tags,
        **{key: settings[key] for key in ("temperature", "calibration", "control", "decoder")},
        # The least probability of a prediction by label, and the thresholds of the decoder for F.
        "least": least.clip(max=HIGHEST).tolist(),
        "cutoffs": find_thresholds(*of_labels, pipe.threshold).tolist(),
        "chain": described,
        **_describe_spans(codec, sections),
    }
    if chain.first:
        labels, of, longer = two_pass.group_tags(chain.first.tags)
        found["first"] = {
            "chain": _describe_chain(chain.first.chain, sections, written),
            "labels": labels,
            "of": of.argmax(axis=1).tolist(),
            "longer": longer.any(axis=1).tolist(),
        }
    return found


def shorten_promise(control: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a promise without the hashes of the texts that it was fitted on."""
    return control and {key: x for key, x in control.items() if key != "fitted_on"}


def _find_obstacle(pipe: SequenceLabeler) -> str | None:
    """Return the setting that a browser does not know, None if it knows all."""
    chain = sparse_chain(pipe.model)
    if taggers := [tagger.name for tagger in find_taggers(pipe.model)]:
        return f"the scores {', '.join(taggers)} come from other models"
    if chain is None or not is_chain_alone(pipe.model):
        return f"its model is {pipe.model.name}; expected spacy-bcrf.LinearChain.v1 alone"
    if not chain.is_ready:
        return "it is not trained"
    if pipe.codec.unit == "word":
        return "it changes the tokens"
    if not isinstance(pipe.labeling.inference, CRF):
        return f"the probabilities of its objective {chain.settings.objective} need Python"
    if pipe.decoder not in DECODERS:
        return f"its decoder is {pipe.decoder}; expected {' or '.join(DECODERS)}"
    return None


def _describe_spans(codec: Codec, sections: Sections) -> dict[str, Any]:
    """Return the tags of spans and what constrains them; nothing of a codec of tags."""
    if codec.spans is None:
        return {}
    entities, layered = codec.spans.entities, codec.layered
    groups, depths = codec.spans.find_groups()
    slots = np.arange(len(codec.labels))
    labels, chains = slots[None], np.zeros((len(slots), 1), dtype="int64")
    if layered:
        labels, chains, slots = (getattr(layered.layers, x) for x in ("labels", "chains", "slots"))
    return {
        "transitions": sections.add(entities.transitions.astype("uint8")),
        "start": entities.may_start.astype(int).tolist(),
        "end": entities.constraints.end.astype(int).tolist(),
        "edge": entities.is_edge.astype(int).tolist(),
        "is_end_open": entities.is_end_open,
        "layered": layered is not None,
        "spans": {
            "tagsOf": {key: tags.tolist() for key, tags in codec.spans.tags._asdict().items()},
            # The label of each slot of a chain, -1 for none; the chains and the slot of each label.
            "labelOf": labels.tolist(),
            "places": [
                {"chains": own[own >= 0].tolist(), "slot": int(slot)}
                for own, slot in zip(chains, slots, strict=True)
            ],
            "groups": groups.tolist(),
            "depths": depths.tolist(),
        },
    }


def _describe_chain(chain: SparseChain, sections: Sections, written: list[str]) -> dict[str, Any]:
    features, learner, saved = chain.features, chain.learner, chain.save()
    attributes: list[dict[str, Any]] = [
        {"kind": kind, "name": a.name, "lengths": None if a.lengths is None else list(a.lengths)}
        for kind, group in features.kinds.items()
        for a in group
    ]
    for attribute in attributes:
        _check_attribute(attribute["kind"], attribute["name"], written)
    weights = np.asarray(saved.features, dtype="float32")
    used = np.flatnonzero(weights.any(axis=1))
    order = used[saved.keys[used].argsort()]  # sorted keys compress better
    keys, weights = saved.keys[order], weights[order]
    tables, phrases = features.tables.tables, features.gazetteers.phrases
    found = {
        "n_tags": learner.n_tags,
        "full": chain.full,
        "attributes": attributes,
        "templates": [
            {"seed": [seed & 0xFFFFFFFF, seed >> 32], "parts": parts}
            for seed, parts in features.compiled.compiled
        ],
        "tables": {name: sections.share_words(table) for name, table in tables.items()},
        "gazetteers": {name: sections.share("\n".join(x)) for name, x in phrases.items()},
        "general": sections.add(saved.general.astype("float32")),
        "keys": sections.add(keys),
        # Which weights (F, T) are not 0, and their values.
        "mask": sections.add(np.packbits(weights != 0, axis=1, bitorder="little")),
        "weights": sections.add_floats(weights[weights != 0]),
    }
    if len(learner.pairs):
        # The row of weights of each pair of tags, -1 for none.
        places = np.full(len(chain.dictionary.keys), -1, "int32")
        places[chain.dictionary.find(keys, False)] = np.arange(len(keys))
        found["pairs"] = sections.add(places[learner.pairs])
    if any(attribute["name"] == "address" for attribute in attributes):
        found["address"] = sections.share(_describe_address())
    return found


def _describe_address() -> dict[str, Any]:
    """Return what the attribute `address` reads: patterns, and what `html.unescape` replaces."""
    return {
        "direction": to_javascript(whole(word_attributes.DIRECTION)),
        "street": to_javascript(whole(word_attributes.STREET)),
        "names": html5,
        "replaced": {str(code): text for code, text in _invalid_charrefs.items()},
        "invalid": sorted(_invalid_codepoints),
    }


def _check_attribute(kind: str, name: str, written: list[str]) -> None:
    """Raise ValueError for an attribute of a template that a browser does not know."""
    head, dot, rest = name.partition(".")
    is_of_others = name if kind == "column" else rest
    if kind == "column":
        is_known = name in COLUMNS
    elif kind == "listed" and head in doc_attributes.OFFSETS and dot:
        is_known = rest in REPEATED
    elif kind == "listed":
        is_known = (
            name in (*doc_attributes.PLAIN, doc_attributes.POOLED) or head in gazetteers.ATTRIBUTES
        )
    else:
        is_known = True
    if not is_known:
        raise ValueError(f"the attribute {name} of its templates needs Python")
    if is_of_others in WRITTEN and WRITTEN[is_of_others] not in written:
        raise ValueError(
            f"its templates read {is_of_others}, which no earlier exported component sets"
        )
