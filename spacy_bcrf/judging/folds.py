"""Cross-fitting: each document is judged by a component trained on the other documents."""

import json
import warnings
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config, load_model_from_config

from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain
from spacy_bcrf.loading import find_labeler
from spacy_bcrf.pipeline.config_errors import naming
from spacy_bcrf.pipeline.factories import NER_MODEL
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.readers.doc_files import write_all

PASSES = 5


def assign_folds(n_docs: int, n_folds: int, seed: int = 0) -> NDArray[np.int64]:
    """Return random folds (n_docs,) of equal sizes. ValueError unless 2 <= n_folds <= n_docs."""
    if not 2 <= n_folds <= n_docs:
        raise ValueError(
            f"the number of folds must be between 2 and the number of documents, {n_docs}; got "
            f"{n_folds}"
        )
    return np.random.default_rng(seed).permutation(np.arange(n_docs) % n_folds)


def train_sparse_chain(
    docs: Sequence[Doc],
    labels: Sequence[str],
    lang: str = "xx",
    model: dict[str, Any] = NER_MODEL,
    passes: int = PASSES,
) -> Language:
    """Train a sparse chain as the only component, "ner". model: the config of a linear chain."""
    nlp = spacy.blank(lang)
    pipe: Any = nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    for label in labels:
        pipe.add_label(label)
    examples = [Example(copy_words(doc, nlp.vocab), doc) for doc in docs]
    fit_sparse_chain(nlp, examples, passes)
    return nlp


def fit_sparse_chain(nlp: Language, examples: Sequence[Example], passes: int) -> int:
    """Train a pipeline whose last component is a sparse chain. RETURNS the number of features.

    The components before it have annotated the examples.

    All passes read the same arrays of features and gold. Documents with incorrect spans of several
    tokens, which need gradient steps, are left out, with a warning.
    """
    nlp.initialize(lambda: examples)
    *_, (_, component) = nlp.pipeline
    pipe: Any = component
    chain = sparse_chain(pipe.model)
    assert chain
    chain.learner.constrain(pipe.codec.constraints)
    docs = [example.predicted for example in examples]
    gold = pipe.read_gold(examples)
    if left_out := gold.leave_out_rejections(docs):
        warnings.warn(
            f"left out {len(left_out):,} of {len(docs):,} documents, which have incorrect spans of "
            f"several tokens. The first is document {left_out[0]}",
            stacklevel=2,
        )
    rows, lengths = chain.rows(docs, held_out=True), doc_lengths(docs)
    rng = np.random.default_rng(chain.settings.seed)
    for _ in range(passes):
        chain.learner.fit(chain.drop_features(rows, rng), lengths, gold.tags, 1)
    return chain.learner.n_features


def train_config(path: Path, docs: Sequence[Doc], labels: Sequence[str], name: str) -> Language:
    """Train the pipeline of a training config.

    As in `spacy train`, dev chooses the best step: every tenth document, which is not learned. A
    sparse chain with `patience = 0` learns all documents and ends with its last step: the best step
    on few documents is often a bad one. labels: of the component `name`. ValueError without
    paths.train and paths.dev.
    """
    with naming(path), TemporaryDirectory() as folder:
        config = load_config(path, interpolate=False)
        model: Any = load_model_from_config(config, auto_fill=True).get_pipe(name)
        takes_last = is_chain_alone(model.model) and config["training"].get("patience") == 0
        dev = docs[::10]
        parts = {"dev": dev, "train": [d for i, d in enumerate(docs) if takes_last or i % 10]}
        known = config.get("paths", {})
        for part, of_part in parts.items():
            if part not in known:
                raise ValueError(f"[paths] has no {part}; the corpora must read it")
            file = Path(folder) / f"{part}.spacy"
            write_all(of_part or docs, file)
            known[part] = str(file)
        components = config.setdefault("initialize", {}).setdefault("components", {})
        components.setdefault(name, {})["labels"] = list(labels)
        nlp = init_nlp(load_model_from_config(config, auto_fill=True).config)
        output, log = Path(folder) / "model", StringIO()
        output.mkdir()
        train(nlp, output, stdout=log, stderr=log)
        return spacy.load(output / ("model-last" if takes_last else "model-best"))


class Trainer(NamedTuple):
    """A component's name, its training on documents, and settings that identify the training."""

    name: str
    train: Callable[[Sequence[Doc]], Language]
    settings: str


def collect_labels(corpus: str, gold: Sequence[Doc], pipe: SequenceLabeler, name: str) -> set[str]:
    """Return the labels of the corpus. ValueError without any annotation."""
    labels = set().union(*(pipe.codec.find_labels(doc) for doc in gold))
    if not labels:
        raise ValueError(
            f"{corpus}: none of the {len(gold):,} documents has {pipe.codec.what}, which [{name}] "
            "predicts"
        )
    return labels


def find_trainer(
    corpus: str, gold: Sequence[Doc], config: str | Path | None, name: str | None, lang: str
) -> Trainer:
    if config is None:
        pipe: Any = spacy.blank(lang).add_pipe("bcrf_ner")
        labels = sorted(collect_labels(corpus, gold, pipe, "ner"))
        settings = json.dumps([lang, NER_MODEL])
        return Trainer("ner", lambda part: train_sparse_chain(part, labels, lang), settings)
    path = Path(config)
    if not path.is_file():
        raise ValueError(f"{config}: there is no such training config")
    with naming(path):
        nlp = load_model_from_config(load_config(path), auto_fill=True)
    component, pipe = find_labeler(nlp, name, str(config))
    labels = sorted(collect_labels(corpus, gold, pipe, component))
    return Trainer(
        component, lambda part: train_config(path, part, labels, component), path.read_text("utf8")
    )
