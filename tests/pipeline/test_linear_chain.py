"""Tests of components whose model is a sparse linear chain."""

import inspect
import warnings
from dataclasses import fields
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import spacy
from component_suite import ComponentSuite
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_loop
from test_ner import NerSuite
from test_tagger import TaggerSuite
from thinc.api import Adam, NumpyOps, get_current_ops, set_current_ops
from tiny_training import network, train, update

from bcrf.chain import BCRF, CRF, MeanField
from bcrf.linear.learner import OnlineSettings
from spacy_bcrf.layers.linear_chain import LinearChain, sparse_chain
from spacy_bcrf.sparse import kept_rows
from spacy_bcrf.sparse.add_weights import add_weights
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.model import SparseChain
from spacy_bcrf.sparse.template_sets import SETS

OBJECTIVES = ("crf", "bcrf", "sapo", "perceptron", "mira")


class LinearChainSuite(ComponentSuite):
    """Tests of a component whose model is a sparse linear chain."""

    some_heads: ClassVar = OBJECTIVES
    heads: ClassVar = OBJECTIVES
    steps = 60

    def add(self, nlp, head=None, name=None, **settings):
        model = {
            "@architectures": "spacy-bcrf.LinearChain.v1",
            "templates": ["w[-1..1]", "w[-1..0]|w[0..1]", "suffix(1..3)[0]"],
            "objective": head or "sapo",
            "rate": 0.5,
            "feature_dropout": 0.0,  # words of so few documents would tie
        }
        config = {"model": model, **self.settings, **settings}
        return nlp.add_pipe(self.factory, name=name or self.factory, config=config)

    def test_the_loss_is_the_sum_over_documents(self, head):
        # No training before: after three steps, the perceptron's loss is zero.
        nlp, _ = self.trained(head, steps=0)
        data = [*self.data, *self.unannotated]
        losses = {self.factory: 10.0}
        nlp.update(self.examples(nlp, data), losses=losses)
        alone = 0.0
        nlp, _ = self.trained(head, steps=0)
        for example in self.examples(nlp, data):
            alone += nlp.update([example], losses={})[self.factory]
        assert losses[self.factory] == pytest.approx(10 + alone)
        assert alone > 0


class TestLinearTagger(TaggerSuite, LinearChainSuite):
    pass


class TestLinearNer(NerSuite, LinearChainSuite):
    pass


class TestChunker(LinearChainSuite):
    factory = "bcrf_chunker"
    labels = ("NP", "VP")
    data: ClassVar = [
        (
            "He reckons the deficit",
            {"spans": {"chunks": [(0, 2, "NP"), (3, 10, "VP"), (11, 22, "NP")]}},
        ),
        ("They will narrow . ", {"spans": {"chunks": [(0, 4, "NP"), (5, 16, "VP")]}}),
    ]
    partial: ClassVar = [
        ("He reckons", {"spans": {"chunks": [(0, 2, "NP")]}}),
        ("New Yorkers sleep", {"words": ["New", "York", "ers", "sleep"]}),
    ]
    new_label = "PP"
    new_data: ClassVar = [("of course", {"spans": {"chunks": [(0, 2, "PP")]}})]
    other_settings: ClassVar = {"spans_key": "phrases"}

    @staticmethod
    def annotation(doc):
        return [(span.start, span.end, span.label_) for span in doc.spans.get("chunks", [])]

    @staticmethod
    def check_partial(nlp):
        assert TestChunker.annotation(nlp("He reckons")) == [(0, 1, "NP")]

    def test_invalid_spans_give_a_warning_and_no_loss(self):
        words = ["Old", "men", "sleep"]
        cases = [
            (words, [(0, 2, "NP"), (1, 3, "VP")], "overlaps another span"),
            (words, [(0, 2, "")], "has no label"),
        ]
        for at in (0, 1, 3):
            problem = f"the span 'VP' before token {at} has no tokens"
            cases += [(w, [(at, at, "VP")], problem) for w in (words, ["Old men", "sleep"])]
        for tokens, spans, problem in cases:
            nlp, _ = self.trained(steps=0)  # a training warns once
            reference = Doc(nlp.vocab, words=words)
            reference.spans["chunks"] = [Span(reference, *span) for span in spans]
            bad = [Example(Doc(nlp.vocab, words=tokens), reference)]
            with pytest.warns(UserWarning, match=f"1 of 1 documents .*{problem}"):
                assert nlp.update(bad, losses={})["bcrf_chunker"] == 0

    def test_mean_field_warns_about_unknown_labels_of_chunks(self):
        """The warning names the unknown label, not partial annotation."""
        nlp = MultiLanguage()
        nlp.add_pipe("bcrf_chunker", config={"model": network("MeanField")})
        good = self.examples(nlp, self.data)
        nlp.initialize(lambda: good)
        gold = {"spans": {"chunks": [(0, 2, "NP"), (3, 10, "XP")]}}
        bad = self.examples(nlp, [("He reckons so", gold)])
        with pytest.warns(UserWarning, match="1 of 3 documents .*unknown labels XP"):
            losses = nlp.update([*good, *bad], losses={})
        assert losses["bcrf_chunker"] > 0

    def test_a_missing_group_is_unannotated_and_an_empty_one_is_gold(self):
        nlp, _ = self.trained(steps=1)
        unknown = self.examples(nlp, [("He reckons", {})])
        assert nlp.update(unknown, losses={})["bcrf_chunker"] == 0
        none = self.examples(nlp, [("He reckons", {"spans": {"chunks": []}})])
        assert nlp.update(none, losses={})["bcrf_chunker"] > 0

    def test_confidences_equal_candidate_probabilities(self):
        nlp, _ = self.trained(annotate=["confidence", "probability"])
        (doc, *_) = nlp.pipe(["He reckons the deficit"])
        confidences = [span._.confidence for span in doc.spans["chunks"]]
        assert len(confidences) == 3
        assert all(0.2 < p <= 1 for p in confidences)
        assert doc._.sequence_probability <= min(confidences) + 1e-6
        pipe = nlp.get_pipe(self.factory)
        (found,) = pipe.entity_candidates([nlp.make_doc(doc.text)], threshold=0.01)
        by_span = {(c.span.start, c.span.end, c.span.label_): c.probability for c in found}
        for span, p in zip(doc.spans["chunks"], confidences, strict=True):
            assert by_span[span.start, span.end, span.label_] == pytest.approx(p, rel=1e-4)
        _, _, correct, n_left_out = pipe.compare_with_gold(self.examples(nlp, self.data))
        assert correct.all() and (len(correct), n_left_out) == (5, 0)

    def test_the_chunker_keeps_entities(self):
        nlp, _ = self.trained()
        doc = nlp.make_doc("He reckons the deficit")
        doc.set_ents([doc.char_span(3, 14, label="X")])
        assert self.annotation(nlp.get_pipe("bcrf_chunker")(doc)) == self.annotation(nlp(doc.text))
        assert [ent.label_ for ent in doc.ents] == ["X"]


def tagger(n=20, **settings):
    """Return a pipeline, its tagger with a sparse linear chain, and n equal examples."""
    nlp = MultiLanguage()
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"], **settings}
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": model})
    return nlp, pipe, [example(nlp, "a/A b/B a/A") for _ in range(n)]


def example(nlp, text):
    """Read an example from "word/tag word/tag"."""
    words, tags = zip(*(part.split("/") for part in text.split()), strict=True)
    doc = Doc(nlp.vocab, words=words)
    return Example.from_dict(doc, {"words": words, "tags": tags})


def second_order(order=2):
    """Return a trained tagger, and data whose tags only the two tags before determine."""
    nlp, pipe, _ = tagger(objective="crf", order=order, rate=0.5)
    text = "x/A x/A x/B x/A x/A x/B x/A x/A x/B x/A"
    data = [example(nlp, text[: 4 * n - 1]) for n in (4, 7, 10)]
    train(nlp, data, 60)
    return nlp, pipe, data


def is_right(nlp, data):
    return nlp.evaluate(data)["tag_acc"] == 1


def test_a_second_order_chain_learns_what_three_tags_determine(tmp_path):
    nlp, pipe, data = second_order()
    assert is_right(nlp, data)
    assert not is_right(*second_order(order=1)[::2])
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert is_right(loaded, data)
    # The saved file has float16 weights; they differ a little from those in memory.
    docs = [data[2].predicted]
    found, expected = (p.find_potentials(docs) for p in (loaded.get_pipe("bcrf_tagger"), pipe))
    np.testing.assert_allclose(found.unary, expected.unary, atol=0.05)
    np.testing.assert_allclose(found.transitions, expected.transitions, atol=0.05)
    ((best, *_),) = pipe.nbest(docs, 3)
    assert best.annotation == [token.tag_ for token in data[2].reference]


def test_a_second_order_chain_learns_from_partial_annotation():
    _, _, data = second_order()
    blank, _, _ = second_order()
    blank.initialize(lambda: data)
    partial = []
    for i in range(4):
        for eg in data:
            reference = eg.reference.copy()
            for token in reference:
                if token.i % 4 == i:
                    token.tag_ = ""
            partial.append(Example(Doc(blank.vocab, words=["x"] * len(reference)), reference))
    update(blank, partial, 30)
    assert is_right(blank, data)


def test_a_second_order_chain_obeys_scheme_and_preset_entities():
    nlp = MultiLanguage()
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"]}
    model |= {"objective": "crf", "order": 2, "rate": 0.5}
    pipe = nlp.add_pipe("bcrf_ner", config={"model": model})
    doc = Doc(nlp.vocab, words=list("abcab"), ents=["B-X", "I-X", "O", "B-X", "I-X"])
    data = [Example(Doc(nlp.vocab, words=list("abcab")), doc)]
    train(nlp, data, 20)
    assert nlp.evaluate(data)["ents_f"] == 1
    # The pruned chain finds this entity nearly impossible, and its tags stay possible.
    preset = Doc(nlp.vocab, words=list("abcab"), ents=["O", "O", "B-X", "O", "O"])
    found = pipe(preset.copy())
    assert [(ent.start, ent.end) for ent in found.ents] == [(0, 2), (2, 3), (3, 5)]
    potentials = pipe.find_potentials([doc])
    candidates = pipe.entity_candidates([nlp.make_doc("a b c a b")], threshold=0.5)
    assert [(c.span.start, c.span.end) for c in candidates[0]] == [(0, 2), (3, 5)]
    assert np.isfinite(CRF().log_partition(potentials)).all()


def test_new_labels_keep_the_predictions_of_a_second_order_chain():
    nlp, pipe, data = second_order()
    pipe.add_label("C")
    assert is_right(nlp, data)
    chain = sparse_chain(pipe.model)
    weights, n_tags = chain.learner.weights[len(pipe.tags) + 3 :], len(pipe.tags)
    pairs = weights[chain.learner.pairs][..., :n_tags]
    assert pairs.shape == (4, 3, 3)
    # The mean over both old tags in the same place, and over equal tags if two are new.
    np.testing.assert_allclose(pairs[2, 0], pairs[:2, 0].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(pairs[2, 2], (pairs[0, 0] + pairs[1, 1]) / 2, rtol=1e-5)
    np.testing.assert_allclose(pairs[3, 2], pairs[3, :2].mean(axis=0), rtol=1e-5)
    more = [*data, example(nlp, "x/C y/C x/C y/C x/C")]
    update(nlp, more, 60)
    assert is_right(nlp, more)


def test_a_first_order_chain_refuses_a_second_order_file():
    _, pipe, _ = second_order()
    saved = sparse_chain(pipe.model).to_bytes()
    _, other, data = tagger(objective="crf")
    with pytest.raises(ValueError, match="trained with order = 2, but order = 1 is expected"):
        sparse_chain(other.model).from_bytes(saved)
    other.initialize(lambda: data)
    with pytest.raises(ValueError, match="trained with order = 2"):
        add_weights(sparse_chain(other.model), saved)
    with pytest.raises(ValueError, match="order = 2 needs online steps"):
        pipe.model.begin_update([data[0].predicted])


def test_a_chain_ignores_the_optimizer_of_the_config():
    weights = []
    for sgd in (None, Adam(0.0), Adam(10.0)):
        nlp, pipe, data = tagger()
        nlp.initialize(lambda data=data: data)
        nlp.update(data, sgd=sgd)
        weights.append(sparse_chain(pipe.model).learner.weights)
    assert weights[0].any()
    assert (weights[0] == weights[1]).all()
    assert (weights[0] == weights[2]).all()


def test_weights_do_not_depend_on_the_batch_size():
    weights = []
    for size in (1, 7, 20):
        nlp, pipe, data = tagger()
        nlp.initialize(lambda data=data: data)
        for start in range(0, 20, size):
            nlp.update(data[start : start + size])
        weights.append(sparse_chain(pipe.model).learner.weights)
    assert (weights[0] == weights[1]).all()
    assert (weights[0] == weights[2]).all()


def learned_weights(monkeypatch, texts, cached, passes=3):
    """Train a tagger and return its weights, and how many documents had features extracted."""
    monkeypatch.setattr(kept_rows, "MOST_BYTES", cached)
    extracted = []
    keys = Features.keys
    monkeypatch.setattr(
        Features,
        "keys",
        lambda *args, **options: extracted.extend(args[1]) or keys(*args, **options),
    )
    nlp, pipe, _ = tagger(templates=["w[-1..1]", "p[0]"])
    data = [example(nlp, text) for text in texts]
    nlp.initialize(lambda: data)
    extracted.clear()
    for i in range(passes):
        # An earlier component predicts other tags in each pass.
        for eg in data:
            eg.predicted[0].tag_ = "odd" if i % 2 else "even"
        nlp.update(data)
    monkeypatch.undo()
    return sparse_chain(pipe.model).learner.weights, len(extracted)


def test_later_passes_reuse_the_features_of_equal_documents(monkeypatch):
    texts = ["a/A b/B a/A", "b/B c/A", "a/A b/B a/A", "d/B"]
    expected, n = learned_weights(monkeypatch, texts, cached=0)
    assert n == 3 * 3
    for cached, extracted in ((10_000, 2 * 3), (700, 3 * 3)):
        weights, n = learned_weights(monkeypatch, texts, cached)
        np.testing.assert_array_equal(weights, expected)
        assert n <= extracted
    _, n = learned_weights(monkeypatch, texts, 10_000, passes=1)
    assert n == 3


@pytest.fixture
def step(monkeypatch):
    """Return a function that makes a step with a document of 100 equal words.

    It returns whether the step extracted features.
    """
    vocab = MultiLanguage().vocab
    docs = {word: Doc(vocab, words=100 * [word]) for word in "abc"}
    chain = SparseChain(["w[0]"], OnlineSettings("crf"))
    chain.initialize(list(docs.values()), 2)
    extracted = []
    keys = Features.keys
    monkeypatch.setattr(
        Features,
        "keys",
        lambda *args, **options: extracted.append(args[1]) or keys(*args, **options),
    )

    def make_step(word):
        before = len(extracted)
        chain.step([docs[word]], np.zeros(100, "int32"))
        return len(extracted) > before

    make_step.chain = chain
    return make_step


def test_the_chain_forgets_the_features_of_the_oldest_documents(step, monkeypatch):
    # A document has 1600 bytes of signature, 400 of rows, 800 of counts, and three headers.
    monkeypatch.setattr(kept_rows, "MOST_BYTES", 8000)
    assert [step(word) for word in "abab"] == [True, True, False, False]
    assert [step(word) for word in "cbc"] == [True, False, False]
    assert step("a")


def test_saving_forgets_the_features(step):
    assert step("a")
    assert not step("a")
    step.chain.to_bytes()
    assert step("a")


def test_new_initialization_forgets_the_features():
    nlp, pipe, data = tagger()
    train(nlp, data, 1)
    more = [example(nlp, "c/A c/A c/A b/B a/A")]
    train(nlp, [*more, *data], 1)
    alone, other, _ = tagger()
    data = [example(alone, text) for text in ["c/A c/A c/A b/B a/A"] + 20 * ["a/A b/B a/A"]]
    train(alone, data, 1)
    weights = [sparse_chain(p.model).learner.weights for p in (pipe, other)]
    np.testing.assert_array_equal(*weights)


def test_features_with_zero_weights_are_not_saved():
    nlp, pipe, data = tagger(objective="crf")
    train(nlp, [*data, example(nlp, "c/A d/B")], 5)
    sparse = sparse_chain(pipe.model)
    full = len(sparse.to_bytes())
    weights = sparse.learner.weights.copy()
    weights[sparse.learner.n_tags + 3 :][1::2] = 0
    sparse.learner.weights = weights
    saved = sparse.to_bytes()
    again = SparseChain(sparse.features.texts, sparse.settings).from_bytes(saved)
    assert len(saved) < full
    assert len(sparse.dictionary) == 4
    assert sorted(again.dictionary.keys) == sorted(sparse.dictionary.keys[::2])


@pytest.mark.parametrize("objective", ["bcrf", "mean_field"])
def test_probabilities_come_from_the_inference_of_the_objective(objective):
    nlp, pipe, data = tagger(objective=objective, n_iter=2, rate=1.0)
    train(nlp, data, 2)
    potentials = pipe.find_potentials([data[0].predicted])
    inference = {"bcrf": BCRF(2), "mean_field": MeanField(2)}[objective]
    assert pipe.inference == inference
    expected = inference.to_crf(potentials)
    found = pipe.posterior(potentials)
    np.testing.assert_array_equal(found.unary, expected.unary)
    assert not np.allclose(found.unary, potentials.unary, atol=1e-3)


def test_early_stopping_saves_the_averaged_weights_of_the_best_step(tmp_path):
    steps = {}

    @spacy.registry.loggers("test_early_stopping.v1")
    def make_logger():
        def setup(nlp, stdout, stderr):
            def log(info):
                if info is not None:
                    learner = sparse_chain(nlp.get_pipe("bcrf_tagger").model).learner
                    steps[info["step"]] = info["score"], learner.weights.copy()

            return log, lambda: None

        return setup

    nlp, _, _ = tagger(objective="crf", rate=1.0)
    # Most of the training data, read in order, contradicts the development data.
    texts = {"train": ["a/A b/B"] * 3 + ["a/B b/A"] * 30, "dev": ["a/A b/B a/A"]}
    corpora = {name: [example(nlp, text).reference for text in texts[name]] for name in texts}
    for name, docs in corpora.items():
        DocBin(docs=docs).to_disk(tmp_path / f"{name}.spacy")
        nlp.config["corpora"][name]["path"] = str(tmp_path / f"{name}.spacy")
    nlp.config["training"].update(
        patience=12,
        eval_frequency=1,
        max_epochs=-1,
        logger={"@loggers": "test_early_stopping.v1"},
        batcher={"@batchers": "spacy.batch_by_sequence.v1", "size": 1},
    )
    moved = nlp.config.interpolate()
    moved["corpora"]["train"]["path"] = "moved/train.spacy"
    with pytest.raises(
        FileNotFoundError, match=r"^moved/train\.spacy: .*`spacy train --paths.train"
    ):
        init_nlp(moved)
    nlp = init_nlp(nlp.config.interpolate())
    (tmp_path / "out").mkdir()
    train_loop(nlp, tmp_path / "out")
    first_best = max(steps, key=lambda step: (steps[step][0], -step))
    assert max(steps) == first_best + 12
    # spaCy saves the last of several best models.
    best = max(steps, key=lambda step: (steps[step][0], step))
    saved = spacy.load(tmp_path / "out" / "model-best").get_pipe("bcrf_tagger")
    found = sparse_chain(saved.model).learner.weights
    assert steps[best][1].any()
    np.testing.assert_allclose(found[:5], steps[best][1][:5])
    last = spacy.load(tmp_path / "out" / "model-last").get_pipe("bcrf_tagger")
    assert not np.allclose(sparse_chain(last.model).learner.weights[:5], found[:5])


@pytest.mark.parametrize("min_freq", [1, 2])
def test_training_adds_features_unless_min_freq_is_set(min_freq):
    nlp, pipe, data = tagger(3, min_freq=min_freq)
    train(nlp, data, 0)
    update(nlp, [*data, example(nlp, "c/B c/B")])
    assert sparse_chain(pipe.model).learner.n_features == (3 if min_freq == 1 else 2)


def test_min_freq_warns_about_templates_without_features():
    nlp, pipe, data = tagger(templates=["w[0]", "p[-1..0]|w[0]", "p[1]"], min_freq=2)
    names = r"tag\[-1\]\|orth\[0\], tag\[0\]\|orth\[0\], tag\[1\]:"
    with pytest.warns(UserWarning, match=rf"min_freq = 2 in the 20 documents .* for {names}"):
        nlp.initialize(lambda: data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparse_chain(pipe.model).min_freq = 1
        nlp.initialize(lambda: data)
        nlp, _, data = tagger(min_freq=2)
        nlp.initialize(lambda: data)


def test_defaults_equal_the_settings_of_the_learner():
    parameters = inspect.signature(LinearChain).parameters
    learned = [field for field in fields(OnlineSettings) if field.name in parameters]
    assert len(learned) == len(fields(OnlineSettings)) - 1
    assert {f.name: f.default for f in learned} == {
        f.name: parameters[f.name].default for f in learned
    }


def test_loading_with_other_templates_is_refused(tmp_path):
    nlp, _, data = tagger()
    train(nlp, data, 0)
    nlp.to_disk(tmp_path)
    override = {"components": {"bcrf_tagger": {"model": {"templates": ["w[1]"]}}}}
    with pytest.raises(ValueError, match=r"config has the templates \['w\[1\]'\], but"):
        spacy.load(tmp_path, config=override)


@pytest.mark.parametrize("factor", [1, 1e6])
def test_weights_are_saved_as_float16(factor):
    nlp, pipe, data = tagger()
    train(nlp, data, 5)
    sparse = sparse_chain(pipe.model)
    sparse.learner.weights = sparse.learner.weights * factor
    if factor > 1:
        assert np.abs(sparse.learner.weights).max() > np.finfo("float16").max
    again = SparseChain(sparse.features.texts, sparse.settings).from_bytes(sparse.to_bytes())
    docs = [example.predicted for example in data]
    before, after = sparse.potentials(docs), again.potentials(docs)
    np.testing.assert_allclose(after.unary, before.unary, rtol=2e-3, atol=1e-4 * factor)
    np.testing.assert_array_equal(after.transitions, before.transitions)


def test_l1_makes_saved_models_smaller():
    size = {}
    for l1 in (0.0, 2.0):
        # Each document has a word of its own, with a random tag.
        nlp, pipe, _ = tagger(objective="crf", averaged=False, l1=l1)
        tags = np.random.default_rng(0).choice(["A", "B"], 200)
        data = []
        for i, tag in enumerate(tags):
            words = {"words": ["a", "b", f"noise{i}"], "tags": ["A", "B", tag]}
            data.append(Example.from_dict(Doc(nlp.vocab, words=words["words"]), words))
        nlp.initialize(lambda data=data: data)
        for _ in range(10):
            nlp.update(data)
        sparse = sparse_chain(pipe.model)
        saved = sparse.to_bytes()
        size[l1] = len(saved)
        n_used = sparse.learner.weights[sparse.learner.n_tags + 3 :].any(axis=1).sum()
        again = SparseChain(sparse.features.texts, sparse.settings).from_bytes(saved)
        assert len(again.dictionary) == n_used
        assert [token.tag_ for token in nlp("a b")] == ["A", "B"]
    assert size[2.0] < 0.5 * size[0.0]


def test_documents_without_annotation_regularize_nothing():
    """The lattice of preset entities leaves gold without a tag to forbid."""
    weights = []
    for missing in (False, True):
        nlp = MultiLanguage()
        model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"]}
        model |= {"l2": 0.1, "l1": 0.01, "decay": 1}
        pipe = nlp.add_pipe("bcrf_ner", config={"model": model})
        gold = {"entities": [(0, 3, "PERSON")]}
        data = [Example.from_dict(nlp.make_doc("Ada left"), gold)]
        nlp.initialize(lambda data=data: data)
        nlp.update(data)
        if missing:
            preset = nlp.make_doc("Ada left")
            preset.set_ents([Span(preset, 0, 1, label="PERSON")], default="missing")
            blank = Doc(nlp.vocab, words=["Ada", "left"])
            for doc in (preset, blank):
                assert nlp.update([Example(doc, blank)], losses={})["bcrf_ner"] == 0
        nlp.update(data)
        weights.append(sparse_chain(pipe.model).learner.weights)
    np.testing.assert_array_equal(*weights)


def test_a_chain_has_numpy_arrays_beside_a_gpu(request):
    class OtherOps(NumpyOps):
        def asarray(self, *arguments, **options):
            raise AssertionError("an array of a GPU")

    request.addfinalizer(partial(set_current_ops, get_current_ops()))
    set_current_ops(OtherOps())
    nlp, _, data = tagger(templates="pos")
    train(nlp, data, 2)
    assert [token.tag_ for token in nlp("a b \n a")]


def test_a_saved_model_keeps_the_templates_of_a_named_set(tmp_path, monkeypatch):
    nlp, _, data = tagger(templates="pos")
    train(nlp, data, 2)
    nlp.to_disk(tmp_path)
    tags = [token.tag_ for token in nlp("a b a c")]
    # A later version changes the set.
    monkeypatch.setitem(SETS, "pos", ["w[1]"])
    loaded = spacy.load(tmp_path)
    assert [token.tag_ for token in loaded("a b a c")] == tags
    again = spacy.load(tmp_path).get_pipe("bcrf_tagger")
    loaded = spacy.load(tmp_path).get_pipe("bcrf_tagger")
    assert again.to_bytes() == loaded.to_bytes()


@pytest.mark.parametrize("templates", ["segmentation", ["w[0]"]])
def test_a_named_set_does_not_take_other_templates(templates):
    nlp, pipe, data = tagger(templates=templates)
    train(nlp, data, 1)
    saved = sparse_chain(pipe.model).to_bytes()
    _, other, _ = tagger(templates="pos")
    with pytest.raises(ValueError, match="of the set 'pos', but the saved linear chain"):
        sparse_chain(other.model).from_bytes(saved)
    # Equal templates load whatever their name.
    texts = SETS["segmentation"] if templates == "segmentation" else templates
    _, other, _ = tagger(templates=list(texts))
    assert sparse_chain(other.model).from_bytes(saved).is_ready


@pytest.mark.parametrize(
    "template, option, line",
    [("cluster.names[0]", "clusters", "a\t1\n"), ("gazetteer.names[0]", "gazetteers", "a\n")],
)
def test_a_saved_model_contains_its_files(tmp_path, template, option, line):
    path = tmp_path / "names.txt"
    path.write_text(line)
    nlp, _, data = tagger(templates=[template], **{option: {"names": str(path)}})
    train(nlp, data, 5)
    nlp.to_disk(tmp_path / "model")
    path.unlink()
    loaded = spacy.load(tmp_path / "model")
    assert [token.tag_ for token in loaded("A b a c")] == ["A", "B", "A", "B"]


def test_threads_of_an_older_config_have_no_effect():
    nlp = MultiLanguage()
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": "ner"}
    with pytest.warns(UserWarning, match="threads = 2 .* has no effect any more"):
        nlp.add_pipe("bcrf_ner", config={"model": {**model, "threads": 2}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.add_pipe("bcrf_ner", name="again", config={"model": {**model, "threads": 1}})
