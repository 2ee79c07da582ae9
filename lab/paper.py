"""The experiments of Corro et al. (2025): corpora, networks and training.

Other corpora replace unavailable corpora of the paper. French is UD Sequoia instead of
GSD, Dutch and Chinese are from UD 1.4, and JNLPBA and WNUT 2017 replace CoNLL-2003. German is
missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.corpora import PARTS, Corpus

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
    """Network, length of the training and number of seeds.

    width, heads, feed_forward: sizes of the self-attentive encoder.
    transition_width: width of the hidden layer that scores transitions.
    hidden_width: width of the hidden layer that scores tags; 0 for linear tag scores.
    convolves_characters: whether embeddings of words convolve their characters, as the paper's, or
        add hashed prefixes, suffixes and shapes.
    bcrf: options of the BCRF head.
    words: words (for "seg" characters) in a batch.
    steps: training steps by experiment.
    seeds: number of seeds.
    """

    width: int
    heads: int
    feed_forward: int
    transition_width: int
    hidden_width: int
    convolves_characters: bool
    bcrf: dict[str, Any]
    words: int
    learn_rate: float
    steps: dict[str, int]
    seeds: int


SCALES = {
    "small": Scale(
        width=128,
        heads=4,
        feed_forward=256,
        transition_width=32,
        hidden_width=0,
        convolves_characters=False,
        bcrf={},
        words=1000,
        learn_rate=2e-3,
        steps={"pos": 500, "seg": 400, "ner": 800},
        seeds=1,
    ),
    "full": Scale(
        width=768,
        heads=8,
        feed_forward=2048,
        transition_width=128,
        hidden_width=128,
        convolves_characters=True,
        # Algorithm 1: plain projections of the scores themselves.
        bcrf={"n_iter": 10, "relaxation": 1.0, "scale": 1.0},
        words=2000,
        learn_rate=3e-4,
        steps={"pos": 10_000, "seg": 10_000, "ner": 10_000},
        seeds=5,
    ),
}
DIFFERENCES = """\
Scale "full" follows the paper: self-attention of width 768 with 8 heads and feed-forward layers
of 2048, word embeddings with convolved characters, tag and transition scores from hidden layers,
plain Bregman projections with k = 10 and scale 1, Adam with warm-up on 10% of the updates, a
learning rate of 3e-4 (3e-5 with --transformer), and 5 seeds. It differs from the paper in these
points:
- corpora: the default ones replace corpora of the paper; --corpus names your own copy;
- the length of the training (10,000 updates; the best of four evaluations on dev counts), the batch
  size (2,000 words) and the dropout (0.2) are ours;
- the sizes and details of the character convolution and of the hidden layers (128) are ours;
  embeddings are hashed tables, so no word or character is unknown;
- the transition scores of a pair of words are added to scores that all pairs share;
- no decoder returns a labeling that the tagging scheme forbids;
- entities need --transformer for the paper's BERT, and have a CNN without it.
Scale "small" is for two cores: width 128, 4 heads, feed-forward layers of 256, linear tag scores,
hashed prefixes, suffixes and shapes in place of convolved characters, the default options of the
BCRF head, a learning rate of 2e-3, a few hundred updates, and one seed.
"""


def _ud(lang: str, name: str) -> Corpus:
    """Return a corpus of Universal Dependencies. name: path of its files before `-ud-{part}`."""
    return Corpus(lang, tuple(f"{name}-ud-{part}.conllu" for part in PARTS), "conllu")


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
                "en", ("jnlpba/train.tsv", "jnlpba/devel.tsv", "jnlpba/test.tsv"), "columns"
            ),
            "wnut": Corpus(
                "en",
                (
                    "wnut17/wnut17train.conll",
                    "wnut17/emerging.dev.conll",
                    "wnut17/emerging.test.annotated",
                ),
                "columns",
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
            **(scale.bcrf if objective == "BCRF" else {}),
            "hidden_width": scale.hidden_width,
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
    attention = {
        "width": scale.width,
        "depth": int(variant.split()[0]),
        "heads": scale.heads,
        "feed_forward": scale.feed_forward,
    }
    characters = experiment == "seg"
    if scale.convolves_characters and not characters:
        return {
            "@architectures": "spacy.Tok2Vec.v2",
            "embed": {"@architectures": "spacy-bcrf.CharConvEmbed.v1", "width": scale.width},
            "encode": {"@architectures": "spacy-bcrf.SelfAttention.v1", **attention},
        }
    return {
        "@architectures": "spacy-bcrf.SelfAttentiveEncoder.v1",
        **attention,
        "attrs": ["ORTH"] if characters else ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [10_000] if characters else [10_000, 1000, 2500, 2500],
    }
