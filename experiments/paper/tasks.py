"""The experiments of Corro et al. (2025): corpora, networks and training.

The paper's French and German corpora (GSD) and CoNLL-2003 could not be had: Sequoia, JNLPBA and
WNUT 2017 take their place, and Dutch and Chinese are of UD 1.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADS = {
    "unstructured": "spacy-bcrf.Unstructured.v1",
    "CRF": "spacy-bcrf.CRF.v1",
    "MF": "spacy-bcrf.MeanField.v1",
    "BCRF": "spacy-bcrf.BCRF.v1",
}
DECODERS = {
    "argmax": "argmax",
    "Viterbi": "viterbi",
    "MF 5": "mf(5)",
    "MF 10": "mf(10)",
    "BCRF 5": "bcrf(5)",
    "BCRF 10": "bcrf(10)",
}
DECODED_BY = {
    "unstructured": ("argmax",),
    "CRF": ("Viterbi", "MF 5", "MF 10", "BCRF 5", "BCRF 10"),
    "MF": ("Viterbi", "MF 5", "MF 10"),
    "BCRF": ("Viterbi", "BCRF 5", "BCRF 10"),
}
"""Training objective to decoders, the rows of the paper's tables."""


@dataclass(frozen=True)
class Scale:
    """width, heads, feed_forward: of the self-attentive encoder. transition_width: of the network
    that scores transitions. words: in a batch. steps: of training, by experiment."""

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
    """files: train, dev and test under the folder of corpora. convert: options for
    `spacy bcrf convert`."""

    lang: str
    files: tuple[str, str, str]
    convert: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """component: a factory. score: of spaCy's scorer, what is compared. variants: the columns under
    each corpus, the layers of the encoder or the annotation."""

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
            "nl": Corpus(
                "nl",
                (
                    "ud-dutch-lassysmall/v1.4/nl_lassysmall-ud-train.conllu",
                    "ud-dutch-lassysmall/v1.4/nl_lassysmall-ud-dev.conllu",
                    "ud-dutch-lassysmall/v1.4/nl_lassysmall-ud-test.conllu",
                ),
            ),
            "en": Corpus(
                "en",
                (
                    "ud-english-ewt/en_ewt-ud-train.conllu",
                    "ud-english-ewt/en_ewt-ud-dev.conllu",
                    "ud-english-ewt/en_ewt-ud-test.conllu",
                ),
            ),
            "fr": Corpus(
                "fr",
                (
                    "ud-french-sequoia/fr_sequoia-ud-train.conllu",
                    "ud-french-sequoia/fr_sequoia-ud-dev.conllu",
                    "ud-french-sequoia/fr_sequoia-ud-test.conllu",
                ),
            ),
        },
        LAYERS[:2],
        "Part-of-speech tagging, accuracy (Table 1a)",
    ),
    "seg": Experiment(
        "bcrf_segmenter",
        "tagged_token_f",
        {
            "zh": Corpus(
                "zh",
                (
                    "ud-chinese-gsd/v1.4/zh-ud-train.conllu",
                    "ud-chinese-gsd/v1.4/zh-ud-dev.conllu",
                    "ud-chinese-gsd/v1.4/zh-ud-test.conllu",
                ),
            ),
            "ja": Corpus(
                "ja",
                (
                    "ud-japanese-gsd/r2.9/ja_gsd-ud-train.conllu",
                    "ud-japanese-gsd/r2.9/ja_gsd-ud-dev.conllu",
                    "ud-japanese-gsd/r2.9/ja_gsd-ud-test.conllu",
                ),
            ),
        },
        LAYERS,
        "Joint word segmentation and tagging, F of tagged words (Table 1c)",
    ),
    "ner": Experiment(
        "bcrf_ner",
        "ents_f",
        {
            "jnlpba": Corpus(
                "en", ("jnlpba/train.tsv", "jnlpba/devel.tsv", "jnlpba/test.tsv"), ("-f", "columns")
            ),
            "wnut": Corpus(
                "en",
                (
                    "wnut17/wnut17train.conll",
                    "wnut17/emerging.dev.conll",
                    "wnut17/emerging.test.annotated",
                ),
                ("-f", "columns"),
            ),
        },
        ("supervised", "partial"),
        "Named entities, F (Tables 1b and 1d)",
    ),
}


def objectives(variant: str) -> tuple[str, ...]:
    """Those that can learn from such annotation."""
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
    """All but the defaults of a training config. corpora: the files of train, dev and, for partial
    annotation, of "partial"."""
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
            # Tags are of the corpus's own words, as in the paper.
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
