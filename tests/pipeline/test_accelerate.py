"""spaCy's own pipelines with compiled kernels."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.training import Example
from thinc.api import Config

from spacy_bcrf import accelerate

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.cfg"))
TEXTS = ["Ada lived in London .", "Bob left Paris", "", "She"] * 3
TOK2VEC = """
[model]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 16
depth = 2
embed_size = 100
window_size = 1
maxout_pieces = {pieces}
subword_features = true
"""


def make_nlp(shared: bool, pieces: int = 3):
    """Return a trained pipeline of spaCy's tagger, parser and ner."""
    nlp = spacy.blank("xx")
    tok2vec = Config().from_str(TOK2VEC.format(pieces=pieces))
    if shared:
        nlp.add_pipe("tok2vec", config=tok2vec)
        listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "*"}
        configs = [{"model": {"tok2vec": listener}}] * 3
    else:
        configs = [{"model": {"tok2vec": tok2vec["model"]}}] * 3
    for name, config in zip(("tagger", "parser", "ner"), configs, strict=True):
        rare = {"min_action_freq": 1} if name == "parser" else {}
        nlp.add_pipe(name, config=config | rare)
    doc = nlp.make_doc("Ada lived in London .")
    gold = {
        "tags": ["NNP", "VBD", "IN", "NNP", "."],
        "heads": [1, 1, 1, 2, 1],
        "sent_starts": [1, -1, -1, -1, -1],
        "deps": ["nsubj", "ROOT", "prep", "pobj", "punct"],
        "entities": [(0, 3, "PERSON"), (13, 19, "GPE")],
    }
    examples = [Example.from_dict(doc, gold)]
    sgd = nlp.initialize(lambda: examples)
    for _ in range(5):
        nlp.update(examples, sgd=sgd)
    return nlp


def annotations(docs):
    return [[(t.tag_, t.dep_, t.head.i, t.ent_type_) for t in doc] for doc in docs]


@pytest.mark.parametrize("shared", [True, False])
def test_outputs_stay(shared, tmp_path):
    nlp = make_nlp(shared)
    before = list(nlp.pipe(TEXTS))
    done = accelerate(nlp)
    names = ["tok2vec"] if shared else ["tagger", "parser", "ner"]
    assert [name for name, _ in done.swapped] == [name for name in names for _ in range(2)]
    assert done.kept == []
    after = list(nlp.pipe(TEXTS))
    assert annotations(after) == annotations(before)
    if shared:
        for a, b in zip(after, before, strict=True):
            np.testing.assert_allclose(a.tensor, b.tensor, atol=1e-5, rtol=1e-5)
        nlp.replace_listeners("tok2vec", "ner", ["model.tok2vec"])
        assert annotations(nlp.pipe(TEXTS)) == annotations(before)
    assert accelerate(nlp).swapped[:2] == done.swapped[:2]
    nlp.to_disk(tmp_path)
    assert "bcrf" not in (tmp_path / "config.cfg").read_text()
    assert annotations(spacy.load(tmp_path).pipe(TEXTS)) == annotations(before)


def test_several_processes():
    nlp = make_nlp(shared=True)
    accelerate(nlp)
    assert annotations(nlp.pipe(TEXTS, n_process=2)) == annotations(nlp.pipe(TEXTS))


def test_other_models_stay():
    """A pipeline may mix spaCy's CNN with transformers and other models."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config=Config().from_str(TOK2VEC.format(pieces=3)))
    bag = {"exclusive_classes": False, "ngram_size": 1, "no_output_layer": False}
    bag |= {"@architectures": "spacy.TextCatBOW.v3", "length": 64}
    nlp.add_pipe("textcat", config={"model": bag})
    nlp.add_pipe("sentencizer")
    other = nlp.get_pipe("textcat").model
    functions = [node._func for node in other.walk()]
    done = accelerate(nlp)
    assert {name for name, _ in done.swapped} == {"tok2vec"}
    assert not done.kept
    assert [node._func for node in other.walk()] == functions


def test_disabled_components_and_damaged_tables():
    nlp = make_nlp(shared=False)
    nlp.disable_pipe("ner")
    assert len(accelerate(nlp).swapped) == 6
    nlp = make_nlp(shared=True)
    for node in nlp.get_pipe("tok2vec").model.walk():
        if node.has_param("E"):
            node.get_param("E")[7, 0] = np.nan
    with pytest.raises(ValueError, match=r"\[tok2vec\] the parameter E of a hashembed layer"):
        accelerate(nlp)


def test_reasons_of_layers_that_stay():
    done = accelerate(make_nlp(shared=True, pieces=1))
    assert [name for name, _ in done.swapped] == ["tok2vec"]
    [(component, layer, reason)] = done.kept
    assert component == "tok2vec" and "expand_window" in layer
    assert reason == "the kernels have 2 or 3 pieces, not 1"


def test_weights_that_are_not_numbers():
    nlp = make_nlp(shared=True)
    for node in nlp.get_pipe("tok2vec").model.walk():
        if node.name == "layernorm":
            node.get_param("G")[3] = np.inf
    with pytest.raises(ValueError, match=r"\[tok2vec\] the parameter G of a layernorm layer"):
        accelerate(nlp)


def test_the_default_model_of_the_segmenter_runs_in_the_kernels():
    layers = list(spacy.blank("xx").add_pipe("bcrf_segmenter").model.walk())
    functions = [layer._func.__module__ for layer in layers]
    assert functions.count("spacy_bcrf.layers.compiled.forward") == 2


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configs_name_the_compiled_architectures(path):
    text = path.read_text(encoding="utf8")
    for name in ("MultiHashEmbed", "MaxoutWindowEncoder", "HashEmbedCNN"):
        assert text.count(name) == text.count(f'"spacy-bcrf.{name}.v1"')


def test_callback_of_a_config(tmp_path):
    config = {"nlp": {"after_pipeline_creation": {"@callbacks": "spacy-bcrf.Accelerate.v1"}}}
    nlp = spacy.blank("en", config=config)
    nlp.add_pipe("tok2vec", config=Config().from_str(TOK2VEC.format(pieces=3)))
    nlp.initialize()
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert len(accelerate(loaded).swapped) == 2
    functions = {node._func.__module__ for node in loaded.get_pipe("tok2vec").model.layers}
    assert functions == {"spacy_bcrf.layers.compiled.forward"}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_precision_of_older_configs_has_no_effect(precision, tmp_path, recwarn):
    """0.2.0.dev saved it with a pipeline: as an option of the encoder, and of `Accelerate`."""
    config = {"nlp": {"after_pipeline_creation": {"@callbacks": "spacy-bcrf.Accelerate.v1"}}}
    tok2vec = Config().from_str(TOK2VEC.format(pieces=3))
    tok2vec["model"]["@architectures"] = "spacy-bcrf.HashEmbedCNN.v1"
    nlp = spacy.blank("en", config=config)
    nlp.add_pipe("tok2vec", config=tok2vec)
    nlp.initialize()
    nlp.to_disk(tmp_path)
    saved = Config().from_disk(tmp_path / "config.cfg")
    saved["components"]["tok2vec"]["model"]["precision"] = precision
    saved["nlp"]["after_pipeline_creation"]["precision"] = precision
    saved.to_disk(tmp_path / "config.cfg")
    recwarn.clear()
    loaded = spacy.load(tmp_path)
    warnings = [str(warning.message) for warning in recwarn]
    message = 'precision = "bfloat16" has no effect: encoders multiply in float32'
    assert warnings == ([message] * len(warnings) if precision == "bfloat16" else [])
    assert bool(warnings) == (precision == "bfloat16")
    found, expected = (each("Ada left .").tensor for each in (loaded, nlp))
    assert np.array_equal(found, expected)


def test_an_unknown_thinc_is_reported(monkeypatch):
    from spacy_bcrf.layers.compiled import matching
    from spacy_bcrf.layers.compiled.matching import recognizes_thinc

    assert recognizes_thinc()
    recognizes_thinc.cache_clear()
    monkeypatch.setattr(matching, "shape", lambda node: (node._func,))
    try:
        with pytest.warns(UserWarning, match="does not recognize the CNN of spaCy .* and Thinc"):
            done = accelerate(make_nlp(shared=False))
        assert done.swapped == []
    finally:
        recognizes_thinc.cache_clear()
