"""The experiments of Corro et al. (2025): corpora, networks and training.

Other corpora replace unavailable corpora of the paper. French is UD Sequoia instead of
GSD, Dutch and Chinese are from UD 1.4, and JNLPBA and WNUT 2017 replace CoNLL-2003. German is
missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.corpora import PARTS
from spacy_bcrf.corpora.convert import Reader
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu

HEADS = {
    "unstructured": "spacy-bcrf.Unstructured.v1",
    "CRF": "spacy-bcrf.CRF.v1",
    "MF": "spacy-bcrf.MeanField.v1",
    "BCRF": "spacy-bcrf.BCRF.v1",
}
PROJECTIONS = {"n_iter": 10, "relaxation": 1.0}
"""The paper's projections, for the training objective "BCRF"."""
DECODERS = {
    "argmax": "argmax",
    "Viterbi": "viterbi",
    "MF 5": "mf(5)",
    "MF 10": "mf(10)",
    "BCRF 5": "bcrf(5)",
    "BCRF 10": "bcrf(10)",
    "BCRF 5, relaxed": "bcrf(5, relaxation=1.25)",
    "BCRF 10, relaxed": "bcrf(10, relaxation=1.25)",
}
"""Decoders by the paper's names. Its projections are plain: those without "relaxed"."""

_BCRF = ("BCRF 5", "BCRF 10", "BCRF 5, relaxed", "BCRF 10, relaxed")
DECODED_BY = {
    "unstructured": ("argmax",),
    "CRF": ("Viterbi", "MF 5", "MF 10", *_BCRF),
    "MF": ("Viterbi", "MF 5", "MF 10"),
    "BCRF": ("Viterbi", *_BCRF),
}
"""Decoders by training objective: the rows of the paper's tables, and over-relaxed decoders."""


@dataclass(frozen=True)
class Scale:
    """Sizes of the networks and length of the training.

    width, heads, feed_forward: sizes of the self-attentive encoder.
    transition_width: width of the hidden layer that scores transitions.
    words: words (for "seg" characters) in a batch.
    steps: training steps by experiment.
    """

    width: int
    heads: int
    feed_forward: int
    transition_width: int
    words: int
    learn_rate: float
    steps: dict[str, int]


SCALES = {
    "small": Scale(128, 4, 256, 32, 1000, 2e-3, {"pos": 500, "seg": 400, "ner": 800}),
    "full": Scale(768, 8, 2048, 128, 2000, 3e-4, {"pos": 10_000, "seg": 10_000, "ner": 10_000}),
}


@dataclass(frozen=True)
class Corpus:
    """Train, dev and test files, relative to the folder of corpora, and their format."""

    lang: str
    files: tuple[str, ...]
    reader: Reader


def _ud(lang: str, name: str) -> Corpus:
    """Return a corpus of Universal Dependencies. name: path of its files before `-ud-{part}`."""
    return Corpus(lang, tuple(f"{name}-ud-{part}.conllu" for part in PARTS), read_conllu)


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables.

    component: factory of the component.
    score: key of spaCy's scorer that the table reports.
    variants: columns of each corpus: encoder depths or kinds of annotation.
    """

    component: str
    score: str
    corpora: dict[str, Corpus]
    variants: tuple[str, ...]
    title: str


LAYERS = ("0 layers", "2 layers", "4 layers")
EXPERIMENTS = {
    "pos": Experiment(
        "bcrf_tagger",
        "tag_acc",
        {
            "nl": _ud("nl", "ud-dutch-lassysmall/v1.4/nl_lassysmall"),
            "en": _ud("en", "ud-english-ewt/en_ewt"),
            "fr": _ud("fr", "ud-french-sequoia/fr_sequoia"),
        },
        LAYERS[:2],
        "Part-of-speech tagging, accuracy (Table 1a)",
    ),
    "seg": Experiment(
        "bcrf_segmenter",
        "tagged_token_f",
        {
            "zh": _ud("zh", "ud-chinese-gsd/v1.4/zh"),
            "ja": _ud("ja", "ud-japanese-gsd/r2.9/ja_gsd"),
        },
        LAYERS,
        "Joint word segmentation and tagging, F of tagged words (Table 1c)",
    ),
    "ner": Experiment(
        "bcrf_ner",
        "ents_f",
        {
            "jnlpba": Corpus(
                "en", ("jnlpba/train.tsv", "jnlpba/devel.tsv", "jnlpba/test.tsv"), read_columns
            ),
            "wnut": Corpus(
                "en",
                (
                    "wnut17/wnut17train.conll",
                    "wnut17/emerging.dev.conll",
                    "wnut17/emerging.test.annotated",
                ),
                read_columns,
            ),
        },
        ("supervised", "partial"),
        "Named entities, F (Tables 1b and 1d)",
    ),
}


def objectives(variant: str) -> tuple[str, ...]:
    """Return the training objectives that support this variant."""
    return ("CRF", "BCRF") if variant == "partial" else tuple(HEADS)


def make_config(
    experiment: str,
    variant: str,
    objective: str,
    scale: Scale,
    seed: int,
    corpora: dict[str, Path],
    lang: str,
    transformer: str | None,
) -> dict[str, Any]:
    """Return a training config without the default settings.

    corpora: files of "train" and "dev", and of "partial" for the variant of that name.
    transformer: folder of a transformer, or None for the experiment's own encoder.
    """
    task = EXPERIMENTS[experiment]
    steps = scale.steps[experiment]
    component: dict[str, Any] = {"factory": task.component}
    component["model"] = {
        "@architectures": "spacy-bcrf.SequenceLabeler.v1",
        "tok2vec": _encoder(experiment, variant, scale, transformer),
        "head": {
            "@layers": HEADS[objective],
            "transitions": "pairwise" if objective != "unstructured" else "shared",
            "transition_width": scale.transition_width,
            **(PROJECTIONS if objective == "BCRF" else {}),
        },
    }
    pipeline = [*(["transformer"] if transformer else []), task.component]
    nlp: dict[str, Any] = {"lang": lang, "pipeline": pipeline}
    if experiment == "seg":
        nlp |= {"lang": "xx", "tokenizer": {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}}
    readers = {
        part: {
            "@readers": "spacy.Corpus.v1",
            "path": str(corpora[part]),
            # The paper tags the words of the corpus.
            "gold_preproc": experiment == "pos",
        }
        for part in ("train", "dev")
    }
    if variant == "partial":
        readers["train"] = {
            "@readers": "spacy-bcrf.PartialCorpora.v1",
            "corpora": {"all": {"path": str(corpora["partial"])}},
        }
    components = {task.component: component}
    if transformer:
        components["transformer"] = {
            "factory": "transformer",
            "model": {
                "@architectures": "spacy-transformers.TransformerModel.v3",
                "name": transformer,
            },
        }
    return {
        "nlp": nlp,
        "components": components,
        "corpora": readers,
        "training": {
            "dev_corpus": "corpora.dev",
            "train_corpus": "corpora.train",
            "seed": seed,
            "dropout": 0.2,
            "patience": 0,
            "max_epochs": 0,
            "max_steps": steps,
            "eval_frequency": max(1, steps // 4),
            "score_weights": {task.score: 1.0},
            "optimizer": {
                "@optimizers": "Adam.v1",
                "learn_rate": {
                    "@schedules": "warmup_linear.v1",
                    "warmup_steps": steps // 10,
                    "total_steps": steps + 1,
                    "initial_rate": 3e-5 if transformer else scale.learn_rate,
                },
            },
            "batcher": {
                "@batchers": "spacy.batch_by_words.v1",
                "size": scale.words,
                "tolerance": 0.2,
                "discard_oversize": False,
            },
        },
    }


def _encoder(
    experiment: str, variant: str, scale: Scale, transformer: str | None
) -> dict[str, Any]:
    if transformer:
        return {
            "@architectures": "spacy-transformers.TransformerListener.v1",
            "grad_factor": 1.0,
            "pooling": {"@layers": "reduce_mean.v1"},
        }
    if experiment == "ner":
        return {
            "@architectures": "spacy.HashEmbedCNN.v2",
            "width": 96,
            "depth": 4,
            "embed_size": 5000,
            "window_size": 1,
            "maxout_pieces": 3,
            "subword_features": True,
            "pretrained_vectors": None,
        }
    characters = experiment == "seg"
    return {
        "@architectures": "spacy-bcrf.SelfAttentiveEncoder.v1",
        "width": scale.width,
        "depth": int(variant.split()[0]),
        "heads": scale.heads,
        "feed_forward": scale.feed_forward,
        "attrs": ["ORTH"] if characters else ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [10_000] if characters else [10_000, 1000, 2500, 2500],
    }
