"""The first training config for a corpus: components, encoder, passes and evaluation interval."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.util import load_model_from_config
from thinc.api import Config

from bcrf.chain.potentials import counted, shorten
from spacy_bcrf.corpora.inspection import Inspection
from spacy_bcrf.corpora.tokenization import CONFIGS, TokenizerName
from spacy_bcrf.layers.decoding import F
from spacy_bcrf.pipeline.factories import LINEAR_CHAIN, NER_MODEL, TAGGER_MODEL
from spacy_bcrf.pipeline.held_out import SMALLEST
from spacy_bcrf.scores.find_sources import name_path
from spacy_bcrf.scores.foreign_labels import find_names
from spacy_bcrf.scores.foreign_tagger import ForeignTagger

FACTORIES = {name: f"bcrf_{name}" for name in ("ner", "spans", "tagger", "segmenter")}
"""Components by their names in a pipeline."""
MODELS: dict[str, dict[str, Any]] = {
    "ner": {**NER_MODEL, "templates": "social"},
    "spans": NER_MODEL,
    "tagger": TAGGER_MODEL,
    "segmenter": {**LINEAR_CHAIN, "templates": "segmentation"},
}
"""Sparse chains. "social" is "ner" with substrings of the word. On dev, in 20 passes, it gains 1.7
of F on WNUT17 and 0.5 on UNER, and in 10 passes 0.5 on JNLPBA (`experiments.template_ablation`)."""
SPANS_KEY = "sc"
"""The span group that `bcrf_spans` predicts by default."""
ENCODERS = ("sparse", "cnn", "hybrid", "transformer")
SEQUENCES = 64
"""Documents of a training step of a sparse chain."""
EVALUATIONS = 10
"""Evaluations of a sparse chain in training, the last near its end. Each may save the model."""
WORDS = 1000
"""Words of a training step of a network."""
LEAST_WORDS, SMALL_STEPS = 100, 20
"""Least words of a training step of a transformer, whose pass over a small corpus has some steps.

A pretrained model needs few passes: Mosbach et al. (2021) make 20 over 2,500 texts."""
SMALL = 40_000
"""Corpora with fewer tokens are small."""
LARGE = 300_000
"""Corpora of this many tokens or more are large. Two passes take 2.5 times as long in training and
keep the corpus in memory. They gain 2.4 of F on dev with the 203,000 tokens of Dutch news, and 0.1
with the 445,000 of JNLPBA (`experiments.two_pass`)."""
RATE_OF_DOCUMENTS = 0.03
"""Learning rate of a sparse chain if a step learns a document. The default fits sentences: with it,
the log-loss of Dutch news is twice as large, and F 0.8 lower (20 passes, dev)."""
RATIO = 0.15
"""Expected share of entity tokens if no corpus says it (Effland and Collins 2021)."""
_CNN = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": {
        "@architectures": "spacy-bcrf.MultiHashEmbed.v1",
        "width": 96,
        "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [5000, 1000, 2500, 2500],
    },
    "encode": {"@architectures": "spacy-bcrf.MaxoutWindowEncoder.v1", "width": 96},
}
_TRANSFORMER = {
    "@architectures": "spacy-transformers.TransformerModel.v3",
    "tokenizer_config": {"use_fast": True, "model_max_length": 512},
}
_CHARACTERS = {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}
_LISTENERS = {
    "tok2vec": {"@architectures": "spacy.Tok2VecListener.v1", "width": 96},
    "transformer": {
        "@architectures": "spacy-transformers.TransformerListener.v1",
        "grad_factor": 1.0,
        "pooling": {"@layers": "reduce_mean.v1"},
    },
}


def make_first_config(
    corpus: Inspection,
    lang: str,
    *,
    dev: Inspection | None = None,
    pipes: Sequence[str] = (),
    encoder: str = "sparse",
    clusters: Path | None = None,
    transformer: str | None = None,
    scores: dict[str, Any] | None = None,
    paths: dict[str, str] | None = None,
    tokenizer: TokenizerName = "language",
) -> tuple[Config, list[str]]:
    """Make a config that fits a training corpus. RETURNS it, and why it has these settings.

    dev: the counts of the dev corpus, which must annotate what the components predict. pipes: names
    in `FACTORIES`, by default what the corpus annotates. encoder: one of `ENCODERS`. clusters: a
    file of `clusters`. transformer: a folder or name. scores: a source of `scores.foreign_tagger`.
    paths: the section [paths]. ValueError names an option that the corpus or another one excludes.
    """
    notes = [f"{counted(corpus.docs, 'document')}, {counted(corpus.tokens, 'token')}"]
    named = {"train": "the corpus", "dev": "the dev corpus", **(paths or {})}
    chosen = list(pipes) or _choose(corpus, notes, named["train"])
    check_choices(chosen, encoder, clusters, transformer, scores)
    what = {"ner": "entity annotation", "spans": f"doc.spans[{SPANS_KEY!r}]", "tagger": "token.tag"}
    for part, counts in {"train": corpus, "dev": dev or corpus}.items():
        for name in [x for x in chosen if x in what and x not in find_annotated(counts)]:
            raise ValueError(f"component {name}: {named[part]} has no {what[name]}")
    if "ner" in chosen and not corpus.labels:
        raise ValueError(f"component ner: {named['train']} has no entity, so training has no label")
    shared = {"cnn": "tok2vec", "hybrid": "tok2vec", "transformer": "transformer"}.get(encoder)
    components: dict[str, Any] = {}
    if shared:
        model = _CNN if transformer is None else {**_TRANSFORMER, "name": transformer}
        components[shared] = {"factory": shared, "model": model}
    more_paths: dict[str, str] = {}
    for name in chosen:
        labeler = _make_model(name, encoder, shared, clusters, tokenizer)
        is_fitted = corpus.inside + corpus.outside >= SMALLEST
        if name == "ner" and encoder == "sparse" and is_fitted:
            labeler["decoder"] = F
        if scores is not None:
            more_paths, source = name_path(scores)
            labeler["scores"] = [source]
        if name == "ner" and encoder == "sparse" and 2 * corpus.with_context > corpus.tokens:
            of_documents = {"rate": RATE_OF_DOCUMENTS, "two_pass": corpus.tokens < LARGE}
            labeler |= of_documents
            shown = ", ".join(f"{key} = {json.dumps(value)}" for key, value in of_documents.items())
            notes.append(f"ner: {shown}: most words are in documents of many sentences")
        options = _choose_ratio(corpus, dev or corpus, notes) if name == "ner" else {}
        if name == "tagger" and spacy.blank(lang).make_doc("a").has_annotation("TAG"):
            options["overwrite"] = True
            notes.append(f"tagger: overwrite = true: the tokenizer of {lang} sets tags")
        options |= {"factory": FACTORIES[name], "annotate": ["confidence"]}
        components[name] = {**options, "model": labeler}
    if scores is not None:
        notes += _describe_source(scores, corpus.labels)
    if encoder == "sparse":
        training = _sparse_training(corpus, notes)
    else:
        training = _network_training(corpus, encoder, notes)
    config = Config(
        {
            "paths": {"train": None, "dev": None, **(paths or {}), **more_paths},
            "nlp": {
                "lang": lang,
                "pipeline": list(components),
                **_choose_tokenizer(tokenizer, chosen),
            },
            "components": components,
            "training": training,
        }
    )
    return _fill(config), notes


def _choose_tokenizer(tokenizer: TokenizerName, pipes: Sequence[str]) -> dict[str, Any]:
    if "segmenter" in pipes:
        return {"tokenizer": _CHARACTERS}
    return CONFIGS[tokenizer]


def _fill(config: Config) -> Config:
    """Return a config with all settings."""
    nlp: Language = load_model_from_config(config, auto_fill=True)
    filled = nlp.config
    # Filled paths stand where spaCy's default config refers to them.
    filled["corpora"]["train"]["path"] = "${paths.train}"
    filled["corpora"]["dev"]["path"] = "${paths.dev}"
    # Half of the tagger's score would be of pos, which a component of tags does not write.
    weights = filled["training"]["score_weights"]
    if "pos_acc" in weights:
        weights["tag_acc"] += weights.pop("pos_acc")
    # A column of the table of `spacy train`.
    weights |= {f"{name}_ece": 0.0 for name in config["nlp"]["pipeline"] if name in FACTORIES}
    return filled


def _describe_source(source: dict[str, Any], labels: Iterable[str]) -> list[str]:
    """Return what learning starts from. The labels of the source are read, but not its scores."""
    known = set(find_names(ForeignTagger(source).merge.labels))
    if shared := sorted(known & set(labels)):
        return [f"scores: learning starts from the source's decoding of {', '.join(shared)}"]
    return [
        f"scores: no label of the source is one of the corpus, so learning starts from 0: "
        f"{', '.join(sorted(known))}. Name our label for each of them"
    ]


def find_annotated(corpus: Inspection) -> list[str]:
    """Return the names in `FACTORIES` that the corpus can train."""
    annotation = {
        "ner": corpus.has_entities,
        "spans": corpus.groups.get(SPANS_KEY),
        "tagger": corpus.tags["tag"].values,
    }
    return [name for name, value in annotation.items() if value]


def _choose_ratio(corpus: Inspection, dev: Inspection, notes: list[str]) -> dict[str, Any]:
    """Return entity_ratio if no O is annotated, or entities twice as frequently as in dev."""
    share = round(dev.entity_share, 3) if dev.outside else RATIO
    is_complete = corpus.inside + corpus.outside == corpus.tokens
    if is_complete or not share or (corpus.outside and corpus.entity_share <= 2 * share):
        return {}
    source = "of dev" if dev.outside else "a guess, because dev has no O either: set it by hand"
    notes.append(
        f"ner: the corpus annotates {corpus.inside:,} tokens as entities, and {corpus.outside:,} "
        f"as O. entity_ratio.ratio = {share:g} is the share of entity tokens, {source}"
    )
    return {"entity_ratio": {"ratio": share, "margin": round(share / 3, 3)}}


def _choose(corpus: Inspection, notes: list[str], where: str) -> list[str]:
    found = find_annotated(corpus)
    by_name = {"ner": corpus.labels, "spans": set(corpus.groups.get(SPANS_KEY, ()))}
    for name in found:
        if name == "tagger":
            notes.append(f"tagger: {counted(len(corpus.tags['tag'].values), 'tag')}")
        else:
            labels = sorted(by_name[name])
            notes.append(f"{name}: {counted(len(labels), 'label')}: {shorten(labels)}")
    if not found:
        others = ", ".join(sorted(corpus.groups)) or "none"
        raise ValueError(
            f"{where} has neither entities nor token.tag nor doc.spans[{SPANS_KEY!r}]; annotate "
            f"some documents. Its span groups: {others}"
        )
    return found


def check_choices(
    pipes: Sequence[str],
    encoder: str,
    clusters: str | Path | None,
    transformer: str | None,
    scores: dict[str, Any] | None = None,
) -> None:
    """Raise ValueError for choices that `make_first_config` does not take."""
    if encoder not in ENCODERS:
        raise ValueError(f"encoder {encoder!r}: expected one of {', '.join(ENCODERS)}")
    for name in pipes:
        if name not in FACTORIES:
            raise ValueError(f"component {name!r}: expected {', '.join(FACTORIES)}")
    if "segmenter" in pipes and (len(pipes) > 1 or encoder != "sparse"):
        raise ValueError("component segmenter: expected no other component, and encoder sparse")
    for what, given in (("clusters", clusters), ("scores", scores)):
        if given and encoder not in ("sparse", "hybrid"):
            raise ValueError(f"{what} are features: {encoder} reads none; take sparse or hybrid")
    if (transformer is not None) != (encoder == "transformer"):
        raise ValueError(
            "encoder transformer needs the folder or name of a transformer"
            if transformer is None
            else f"a transformer is given, but the encoder is {encoder}"
        )


def _make_model(
    name: str,
    encoder: str,
    shared: str | None,
    clusters: Path | None,
    tokenizer: TokenizerName,
) -> dict[str, Any]:
    chain: dict[str, Any] = dict(MODELS[name])
    if tokenizer != "language" and chain["templates"] == "social":
        chain["templates"] = "split"
    if clusters:
        chain |= {"templates": f"{chain['templates']}-brown", "clusters": {"brown": str(clusters)}}
    if shared is None:
        return chain
    network: dict[str, Any] = {
        "tok2vec": _LISTENERS[shared],
        "head": {"@layers": "spacy-bcrf.CRF.v1"},
    }
    if encoder == "hybrid":
        features = {"templates", "clusters"} & chain.keys()
        network |= {key: chain[key] for key in sorted(features)}
        return {"@architectures": "spacy-bcrf.Hybrid.v1", **network}
    return {"@architectures": "spacy-bcrf.SequenceLabeler.v1", **network}


def _sparse_training(corpus: Inspection, notes: list[str]) -> dict[str, Any]:
    # Small corpora need more passes until the averages settle.
    is_small = corpus.docs < 1_000 or corpus.tokens < SMALL
    passes = 20 if is_small else 10 if corpus.docs < 30_000 else 6
    steps = passes * -(-corpus.docs // SEQUENCES)
    every = max(1, (steps - 1) // EVALUATIONS)
    notes.append(
        f"sparse linear chains, {passes} passes, an evaluation every {counted(every, 'step')}"
    )
    return {
        "max_epochs": passes,
        "max_steps": 0,
        "patience": 0,
        "eval_frequency": every,
        "batcher": {"@batchers": "spacy.batch_by_sequence.v1", "size": SEQUENCES},
    }


def _network_training(corpus: Inspection, encoder: str, notes: list[str]) -> dict[str, Any]:
    words, steps = WORDS, max(2_000, 15 * -(-corpus.tokens // WORDS))
    if encoder == "transformer":
        words = max(LEAST_WORDS, min(WORDS, corpus.tokens // SMALL_STEPS))
        passes = 30 if corpus.tokens < SMALL else 15
        steps = passes * -(-corpus.tokens // words)
    steps = min(20_000, steps)
    every = max(1, steps // 20)
    notes.append(
        f"{encoder}, at most {steps:,} steps of {words:,} words (passes: "
        f"{steps * words / corpus.tokens:,.0f}), an evaluation every {counted(every, 'step')}"
    )
    training: dict[str, Any] = {
        "max_epochs": 0,
        "max_steps": steps,
        "patience": 6 * every,
        "eval_frequency": every,
        "batcher": {
            "@batchers": "spacy.batch_by_words.v1",
            "discard_oversize": False,
            "tolerance": 0.2,
            "size": words,
        },
    }
    if encoder == "transformer":
        schedule = {"@schedules": "warmup_linear.v1", "initial_rate": 0.001}
        schedule |= {"warmup_steps": steps // 10, "total_steps": steps}
        adam = "spacy-bcrf.TransformerAdam.v1"
        training["optimizer"] = {"@optimizers": adam, "learn_rate": schedule}
    return training
