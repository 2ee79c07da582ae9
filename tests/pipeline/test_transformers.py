"""Components on spacy-transformers, with a tiny random BERT."""

import re
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import load_config, load_model_from_config
from thinc.api import Adam

pytest.importorskip("spacy_transformers", reason="spacy-bcrf[transformers] is not installed")

import torch
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    T5Config,
    T5Model,
)

from spacy_bcrf.training.init import init

torch.set_num_threads(1)
CONFIGS = Path(__file__).resolve().parents[2] / "configs"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["ann", "lee", "met", "bob", "in", "rome"]
ANNOTATION = {
    "tags": ["NNP", "NNP", "VBD", "NNP", "IN", "NNP"],
    "entities": ["B-PER", "L-PER", "O", "U-PER", "O", "U-LOC"],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of model directories. Only `bert` is usable."""
    folder = tmp_path_factory.mktemp("models")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{x}" for x in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"))
    torch.manual_seed(0)
    bert = BertModel(
        BertConfig(
            vocab_size=len(pieces),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
        )
    )
    size = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    t5 = T5Model(T5Config(vocab_size=len(pieces), **size))
    for name, model in (("bert", bert), ("t5", t5)):
        model.save_pretrained(folder / name)
    bert.config.save_pretrained(folder / "without_weights")
    for name in ("bert", "t5", "without_weights", "unknown"):
        tokenizer.save_pretrained(folder / name)
    (folder / "unknown/config.json").write_text('{"model_type": "martian"}')
    (folder / "empty").mkdir()
    return folder


def load(task, model):
    """Return the pipeline of a task's config with a transformer directory."""
    overrides = {"paths.transformer": str(model)}
    config = load_config(CONFIGS / f"{task}_trf.cfg", overrides=overrides, interpolate=True)
    return load_model_from_config(config, auto_fill=True)


def examples(nlp):
    return [Example.from_dict(Doc(nlp.vocab, words=WORDS), ANNOTATION)]


@pytest.mark.parametrize("task", ["pos", "ner"])
def test_a_trained_pipeline_needs_no_transformer_directory(task, models, tmp_path):
    shutil.copytree(models / "bert", tmp_path / "bert")
    nlp = load(task, tmp_path / "bert")
    nlp.initialize(lambda: examples(nlp))
    # The rates of the configs are for large pretrained models.
    optimizer = Adam(0.005)
    for _ in range(40):
        nlp.update(examples(nlp), sgd=optimizer)
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "bert")
    for trained in (nlp, spacy.load(tmp_path / "pipeline")):
        doc = trained(Doc(trained.vocab, words=WORDS))
        if task == "pos":
            assert [token.tag_ for token in doc] == ANNOTATION["tags"]
        else:
            found = {(ent.text, ent.label_) for ent in doc.ents}
            assert found == {("ann lee", "PER"), ("bob", "PER"), ("rome", "LOC")}
        # 3,000 words exceed the 512 positions of the model: the config reads strided spans.
        long = trained(Doc(trained.vocab, words=WORDS * 500))
        assert long.has_annotation("TAG" if task == "pos" else "ENT_IOB", require_complete=True)


def test_the_optimizer_of_the_config_moves_the_head_more_than_the_transformer(models):
    nlp = load("ner", models / "bert")
    nlp.initialize(lambda: examples(nlp))
    bert = next(shim for node in nlp.get_pipe("transformer").model.walk() for shim in node.shims)
    head = nlp.get_pipe("ner").model.get_ref("output_layer")
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.001
    for _ in range(2):  # the first gradients are 0, as the weights of the head
        nlp.update(examples(nlp), sgd=optimizer)
    old = {name: p.detach().clone() for name, p in bert._model.named_parameters()}
    transitions = head.get_param("transitions").copy()
    nlp.update(examples(nlp), sgd=optimizer)
    now = {name: p.detach() for name, p in bert._model.named_parameters()}
    moved = max(float((now[name] - old[name]).abs().max()) for name in old)
    # A step of Adam is about its rate, whatever the gradient.
    assert moved == pytest.approx(0.00003, rel=0.6)
    assert abs(head.get_param("transitions") - transitions).max() > 10 * moved


def test_init_plans_few_passes_and_estimates_their_time(models, tmp_path):
    nlp = spacy.blank("en")
    docs = [eg.reference for eg in examples(nlp)] * 300
    for name, some in (("train", docs), ("dev", docs[:1])):
        DocBin(docs=some).to_disk(tmp_path / f"{name}.spacy")
    paths = tmp_path / "out/config.cfg", [tmp_path / "train.spacy"], tmp_path / "dev.spacy"
    options = {"encoder": "transformer", "transformer": str(models / "bert"), "lang": "en"}
    found = init(*paths, pipes=["ner"], **options)
    *_, plan, time = found.reasons
    # 1,800 words were read 1,000 times
    assert plan == (
        "transformer, at most 540 steps of 100 words (passes: 30), an evaluation every 27 steps"
    )
    assert re.fullmatch(r"a step on this processor: all steps take about \d+ min", time)
    training = found.config["training"]
    assert (training["max_steps"], training["batcher"]["size"]) == (540, 100)
    assert training["optimizer"]["learn_rate"]["total_steps"] == 540


@pytest.mark.slow
def test_spacy_train(models, tmp_path):
    nlp = spacy.blank("en")
    DocBin(docs=[eg.reference for eg in examples(nlp)] * 5).to_disk(tmp_path / "corpus.spacy")
    overrides = {
        "paths.transformer": str(models / "bert"),
        "paths.train": str(tmp_path / "corpus.spacy"),
        "paths.dev": str(tmp_path / "corpus.spacy"),
        "training.max_steps": 2,
        "training.eval_frequency": 1,
    }
    train(CONFIGS / "pos_trf.cfg", tmp_path / "out", overrides=overrides)
    assert spacy.load(tmp_path / "out/model-best")(" ".join(WORDS)).has_annotation("TAG")


@pytest.mark.parametrize(
    "name, message",
    [
        ("missing", "does not exist"),
        ("vocab.txt", "does not exist"),
        ("empty", "cannot be used"),
        ("without_weights", "cannot be used"),
        ("unknown", "cannot be used"),
        ("t5", "cannot be used"),
    ],
)
def test_an_unusable_model_is_an_error_before_training(name, message, models, tmp_path):
    nlp = load("pos", models / name)
    with pytest.raises(
        ValueError, match=rf"(?s)\[transformer\].*{name}.*{message}|{message}.*{name}"
    ):
        nlp.initialize(lambda: pytest.fail("read the corpus before"))


def test_a_config_without_a_directory_is_refused():
    with pytest.raises(ValueError, match=r"transformer\.model(.|\n)*name"):
        load_model_from_config(load_config(CONFIGS / "pos_trf.cfg"), auto_fill=True)
