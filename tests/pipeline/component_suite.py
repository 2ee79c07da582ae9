"""Tests of every component with every kind of model.

The suite of a component derives from `ComponentSuite` and defines its annotation. The suite of a
kind of model, such as `NetworkSuite`, defines `add` and the values of `head` and `any_head`. A test
class derives from one suite of each kind.
"""

import copy
import json
import pickle
import warnings
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest
import spacy
import srsly
from spacy.lang.xx import MultiLanguage
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, raise_error
from thinc.api import Adam
from tiny_training import LISTENER, TOK2VEC, network, optimizer, train, update

# Most tests run with HEADS. Tests that depend on the objective run with ALL_HEADS.
HEADS = ("CRF", "BCRF")
OTHER_HEADS = ("MeanField", "Unstructured", "SAPO", "Perceptron", "MIRA")
ALL_HEADS = (*HEADS, "BCRF/pairwise", *OTHER_HEADS)


def fail_on(text: str, pipe, monkeypatch) -> None:
    """Let a component fail to predict a document with this text."""
    predict = pipe.predict

    def fail(docs):
        if any(doc.text == text for doc in docs):
            raise ValueError(f"no {text}")
        return predict(docs)

    monkeypatch.setattr(pipe, "predict", fail)


TRAINED: dict[tuple[type, str], tuple[Language, dict[str, float]]] = {}
"""What `ComponentSuite.trained` copies."""

Data = list[tuple[str, dict[str, Any]]]


class ComponentSuite:
    """Tests of a component with any model."""

    factory: ClassVar[str]
    settings: ClassVar[dict[str, Any]] = {}
    steps: ClassVar[int] = 20
    labels: ClassVar[tuple[str, ...]]
    """The labels of `data`, in the order in which `initialize` finds them."""
    data: ClassVar[Data]
    """Complete annotation that a component learns in a few steps."""
    partial: ClassVar[Data]
    """Misaligned tokens and missing annotation."""
    unannotated: ClassVar[Data] = [("I'm so happy .", {"cats": {"POSITIVE": 1.0}})]
    """No annotation of the component's kind."""
    other_code_settings: ClassVar[dict[str, Any]] = {}
    """Values of the component's own settings that code can change."""
    other_settings: ClassVar[dict[str, Any]]
    """Settings that do not match a saved component."""
    new_label: ClassVar[str]
    new_data: ClassVar[Data]
    """Examples with `new_label`."""

    @staticmethod
    def blank() -> Language:
        """Return a pipeline without components."""
        return MultiLanguage()

    @staticmethod
    def annotation(doc: Doc) -> list:
        """Return the annotation that the component writes."""
        raise NotImplementedError

    @staticmethod
    def check_partial(nlp: Language) -> None:
        """Assert that a pipeline trained on `partial` predicts its annotation."""
        raise NotImplementedError

    def add(self, nlp: Language, head: str | None = None, name: str | None = None, **settings):
        """Add the component with a model.

        head: a value of the fixtures `head` and `any_head`, or None for a default.
        """
        raise NotImplementedError

    @staticmethod
    def examples(nlp, data):
        return [Example.from_dict(nlp.make_doc(text), gold) for text, gold in data]

    def newly_trained(self, head=None, data=None, steps=None, **options):
        """Train a pipeline. Return it and the losses of the last step."""
        nlp = self.blank()
        self.add(nlp, head, **options)
        examples = self.examples(nlp, data or self.data)
        return nlp, train(nlp, examples, self.steps if steps is None else steps)

    def trained(self, *arguments, **options):
        """Return a copy of what `newly_trained` returns. Equal arguments are trained once."""
        key = type(self), repr((arguments, options))
        if key not in TRAINED:
            TRAINED[key] = self.newly_trained(*arguments, **options)
        fix_random_seed(0)
        return copy.deepcopy(TRAINED[key])

    def assert_learned(self, nlp, data=None):
        for text, gold in data or self.data:
            expected = Example.from_dict(nlp.make_doc(text), gold).reference
            assert self.annotation(nlp(text)) == self.annotation(expected)

    def test_initialize_without_annotation_is_an_error(self):
        nlp = self.blank()
        pipe = self.add(nlp)
        with pytest.raises(ValueError, match="no labels: none of the 1 training documents"):
            nlp.initialize()
        examples = self.examples(nlp, self.unannotated) * 2
        message = rf"\[{self.factory}\] no labels: none of the 2 training documents.*add_label"
        with pytest.raises(ValueError, match=message):
            nlp.initialize(lambda: examples)
        pipe.add_label(self.labels[0])
        with pytest.warns(UserWarning, match="none of the 2 training documents"):
            nlp.initialize(lambda: examples)
        with pytest.raises(ValueError, match=f"labels must be a list.*got {self.labels[0]!r}"):
            pipe.initialize(lambda: examples, labels=self.labels[0])

    def test_other_objects_than_documents_are_refused(self):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe(self.factory)
        doc = nlp.make_doc(self.data[0][0])
        calls = [pipe.nbest, pipe.token_marginals, pipe.uncertainty, pipe.predict]
        calls += [pipe.entity_candidates] if hasattr(pipe, "entity_candidates") else []
        for call in calls:
            with pytest.raises(TypeError, match=rf"\[{self.factory}\] .* got a Doc: pass \[doc\]"):
                call(doc)
            with pytest.raises(
                TypeError, match=r"expected documents, got str 'some text'.*make_doc"
            ):
                call(["some text"])
        with pytest.raises(TypeError, match="expected documents, got str"):
            list(pipe.pipe(["some text"]))
        with pytest.raises(TypeError, match="Example"):
            pipe.update([doc])

    def test_initialize_with_an_empty_corpus_is_an_error(self):
        nlp = self.blank()
        pipe = self.add(nlp)
        pipe.add_label(self.labels[0])
        with pytest.raises(ValueError, match="E923"):
            pipe.initialize(lambda: [])
        with pytest.raises(TypeError, match="E930"):
            pipe.initialize([])
        with pytest.raises(ValueError, match="E109"):
            nlp("not yet")

    def test_initialize_reads_the_corpus_once(self):
        nlp = self.blank()
        pipe = self.add(nlp)
        examples = self.examples(nlp, self.data)
        readings = []

        def read():
            readings.append(len(readings))
            yield from examples

        pipe.initialize(read, nlp=nlp)
        assert len(readings) == 1

    def test_initialize_keeps_no_document(self):
        nlp = self.blank()
        pipe = self.add(nlp)
        alive = []

        def read():
            for i in range(300):
                example = self.examples(nlp, self.data)[i % len(self.data)]
                alive.append(weakref.ref(example.reference))
                yield example

        pipe.initialize(read, nlp=nlp)
        assert sum(reference() is not None for reference in alive) < 20

    def test_a_model_of_another_kind_is_refused(self):
        nlp = self.blank()
        tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": TOK2VEC}
        with pytest.raises(ValueError, match=r"spacy-bcrf\.SequenceLabeler\.v1"):
            nlp.add_pipe(self.factory, config={"model": tagger})

    @pytest.mark.parametrize(
        "label, message",
        [
            (9, "must be a string, got 9"),
            (None, "must be a string, got None"),
            (b"X", "must be a string, got b'X'"),
            ("", "cannot be blank, got ''"),
            (" \t", "cannot be blank, got "),
        ],
    )
    def test_an_invalid_label_is_refused(self, label, message):
        nlp = self.blank()
        pipe = self.add(nlp)
        with pytest.raises(ValueError, match=message):
            pipe.add_label(label)
        assert pipe.labels == ()

    def test_settings_changed_in_code_are_saved(self, tmp_path):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe(self.factory)
        configured = pipe.settings_as_json()
        unchanged = pipe.to_bytes()
        settings = {"temperature": 0.3, "annotate": ["entropy"], "decoder": "argmax"}
        settings |= self.other_code_settings
        for name, value in settings.items():
            pipe.change_setting(name, value)
        nlp.to_disk(tmp_path)
        expected = {**configured, **settings}
        assert spacy.load(tmp_path).get_pipe(self.factory).settings_as_json() == expected
        assert pickle.loads(pickle.dumps(pipe)).settings == pipe.settings
        # Twice: a loaded component saves its settings again.
        loaded = pipe
        for _ in range(2):
            loaded = self.add(self.blank()).from_bytes(loaded.to_bytes())
            assert loaded.settings_as_json() == expected
        # The config given to `spacy.load` wins over a change in code.
        config = {"components": {self.factory: {"temperature": 4.0}}}
        overridden = spacy.load(tmp_path, config=config).get_pipe(self.factory).settings_as_json()
        assert overridden == {**expected, "temperature": 4.0}
        assert self.add(self.blank()).from_bytes(unchanged).settings_as_json() == configured

    def test_an_unknown_saved_setting_is_refused(self):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe(self.factory)
        saved = srsly.msgpack_loads(pipe.to_bytes())
        cfg = {**srsly.json_loads(saved["cfg"]), "changed": json.dumps({"vocab": [1, 2]})}
        saved["cfg"] = srsly.json_dumps(cfg)
        with pytest.raises(ValueError, match="unknown setting 'vocab'; expected one of annotate"):
            pipe.from_bytes(srsly.msgpack_dumps(saved))
        cfg["changed"] = json.dumps({"temperature": [1.0, -1.0]})
        saved["cfg"] = srsly.json_dumps(cfg)
        with pytest.raises(ValueError, match=r"temperature must be .* got -1\.0"):
            pipe.from_bytes(srsly.msgpack_dumps(saved))

    def test_a_component_without_saved_settings_loads(self):
        """Version 0.1.0 saved only the labels and the settings of the tags."""
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe(self.factory)
        saved = srsly.msgpack_loads(pipe.to_bytes())
        cfg = srsly.json_loads(saved["cfg"])
        del cfg["changed"]
        saved["cfg"] = srsly.json_dumps(cfg)
        pipe.from_bytes(srsly.msgpack_dumps(saved))
        assert pipe.labels == self.labels

    def test_a_failing_document_does_not_take_its_batch_along(self, monkeypatch):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe(self.factory)
        fail_on("poison", pipe, monkeypatch)
        texts = [self.data[0][0], "poison", self.data[1][0]]
        reported = []
        pipe.set_error_handler(lambda name, proc, docs, error: reported.append((name, docs, error)))
        for batch_size in (1, 2, 10):
            reported.clear()
            docs = list(pipe.pipe(map(nlp.make_doc, texts), batch_size=batch_size))
            assert [doc.text for doc in docs] == [texts[0], texts[2]]
            ((name, (failed,), error),) = reported
            assert (name, failed.text, str(error)) == (self.factory, "poison", "no poison")
        pipe.set_error_handler(raise_error)
        stream = pipe.pipe(map(nlp.make_doc, texts))
        assert next(stream).text == texts[0]
        with pytest.raises(ValueError, match="no poison"):
            next(stream)

    def test_a_batch_size_that_would_lose_documents_is_refused(self):
        nlp = self.blank()
        pipe = nlp.add_pipe(self.factory)
        for size in (0, -1, 1.5, "3"):
            with pytest.raises(ValueError, match=f"batch_size must be .* got {size!r}"):
                list(pipe.pipe([nlp.make_doc("some words")], batch_size=size))

    def test_a_batch_without_annotation_changes_no_weights(self):
        nlp, _ = self.trained(steps=2)
        pipe = nlp.get_pipe(self.factory)
        optimizer = Adam(0.01, L2=0.1, use_averages=True)
        nlp.update(self.examples(nlp, self.data), sgd=optimizer)
        before, averages = pipe.model.to_bytes(), copy.deepcopy(optimizer.averages)
        for _ in range(2):
            nlp.update(self.examples(nlp, self.unannotated), sgd=optimizer)
        assert pipe.model.to_bytes() == before
        assert all((optimizer.averages[key] == averages[key]).all() for key in averages)
        # Batches whose gradients are added up before one step.
        nlp.update(self.examples(nlp, self.data), sgd=False)
        nlp.update(self.examples(nlp, self.unannotated), sgd=optimizer)
        assert pipe.model.to_bytes() != before

    def test_learns_and_survives_bytes_disk_and_pickle(self, any_head, tmp_path):
        nlp, losses = self.newly_trained(any_head)
        assert losses[self.factory] < 0.5
        self.assert_learned(nlp)
        assert nlp.get_pipe(self.factory).labels == self.labels
        scores = nlp.evaluate(self.examples(nlp, self.data))
        weights = nlp.get_factory_meta(self.factory).default_score_weights
        assert any(scores.get(key) == 1.0 for key, weight in weights.items() if weight)
        nlp.to_disk(tmp_path)
        from_disk = spacy.load(tmp_path)
        from_bytes = spacy.blank("xx", config=nlp.config).from_bytes(nlp.to_bytes())
        texts = [text for text, _ in [*self.data, *self.partial]]
        expected = [self.annotation(doc) for doc in nlp.pipe(texts)]
        for loaded in (from_disk, from_bytes):
            assert [self.annotation(doc) for doc in loaded.pipe(texts)] == expected
            assert loaded.get_pipe(self.factory).label_data == self.labels
        pickled = pickle.loads(pickle.dumps(nlp.get_pipe(self.factory)))
        assert [self.annotation(pickled(nlp.make_doc(text))) for text in texts] == expected

    def test_learns_from_incomplete_and_misaligned_annotation(self, any_head):
        if any_head == "MeanField":
            text = self.partial[0][0]
            with pytest.raises(ValueError, match=f"{text!r} is partially annotated"):
                self.trained(any_head, self.partial, steps=1)
            return
        nlp, losses = self.trained(any_head, self.partial)
        assert losses[self.factory] < 0.5
        self.check_partial(nlp)

    def test_missing_annotation_has_zero_loss_and_gradient(self, any_head):
        nlp, _ = self.trained(any_head, steps=3)
        pipe = nlp.get_pipe(self.factory)
        examples = self.examples(nlp, self.unannotated)
        scores, _ = pipe.model.begin_update([eg.predicted for eg in examples])
        loss, gradient = pipe.get_loss(examples, scores)
        assert loss == 0
        assert not gradient.unary.any()
        assert not gradient.transitions.any()

    def test_empty_documents(self, any_head):
        nlp, _ = self.trained(any_head)
        pipe = nlp.get_pipe(self.factory)
        text = self.data[0][0]
        expected = self.annotation(nlp(text))
        assert self.annotation(nlp("")) == []
        for texts in ([""], ["", ""], ["", text, ""], []):
            docs = list(nlp.pipe(texts))
            assert [self.annotation(doc) for doc in docs] == [expected if t else [] for t in texts]
        assert pipe.update([]) == {self.factory: 0.0}
        empty = Example(nlp.make_doc(""), nlp.make_doc(""))
        full = self.examples(nlp, self.data)[0]
        for batch in ([empty], [empty, empty], [empty, full, empty]):
            losses = nlp.update(batch, losses={})
            assert np.isfinite(losses[pipe.name])
        assert nlp.update([], losses={}) == {}

    def test_initialize_on_empty_documents(self):
        nlp = self.blank()
        self.add(nlp).add_label(self.labels[0])
        empty = Example(nlp.make_doc(""), nlp.make_doc(""))
        with pytest.warns(UserWarning, match="Training cannot learn the labels"):
            optimizer = nlp.initialize(lambda: [empty, empty])
        nlp.update([empty], sgd=optimizer)

    def test_prediction_does_not_depend_on_the_batch_size(self, head):
        nlp, _ = self.trained(head)
        texts = [text for text, _ in [*self.data, *self.partial]] * 3
        expected = [self.annotation(nlp(text)) for text in texts]
        for batch_size in (1, 2, 100):
            docs = nlp.pipe(texts, batch_size=batch_size)
            assert [self.annotation(doc) for doc in docs] == expected

    @pytest.mark.slow
    def test_several_processes_predict_the_same(self):
        nlp, _ = self.trained()
        texts = [text for text, _ in self.data] * 5
        expected = [self.annotation(doc) for doc in nlp.pipe(texts)]
        docs = nlp.pipe(texts, n_process=2, batch_size=3)
        assert [self.annotation(doc) for doc in docs] == expected

    def test_a_sourced_component_is_renamed_and_frozen(self):
        source, _ = self.trained()
        pipe = source.get_pipe(self.factory)
        nlp = self.blank()
        nlp.add_pipe(self.factory, source=source, name="renamed")
        self.assert_learned(nlp)
        other = self.add(nlp, name="other")
        examples = self.examples(nlp, self.data)
        before = pipe.model.to_bytes()
        with nlp.select_pipes(disable=["renamed"]):
            optimizer = nlp.initialize(lambda: examples)
        losses = nlp.update(examples, sgd=optimizer, losses={}, exclude=["renamed"])
        assert set(losses) == {"other"}
        assert pipe.model.to_bytes() == before
        assert other.labels == pipe.labels
        assert set(nlp.update(examples, losses={})) == {"renamed", "other"}

    def test_resumed_training_learns(self):
        nlp, _ = self.trained(steps=2)
        nlp.resume_training(sgd=optimizer())
        update(nlp, self.examples(nlp, self.data), self.steps)
        self.assert_learned(nlp)

    def test_given_labels_keep_their_order_and_must_cover_the_data(self):
        nlp = self.blank()
        pipe = self.add(nlp)
        examples = self.examples(nlp, self.data)
        message = f"{self.labels[0]}.*The component has {self.labels[1]}"
        with pytest.raises(ValueError, match=message):
            pipe.initialize(lambda: examples, nlp=nlp, labels=self.labels[1:])
        nlp = self.blank()
        pipe = self.add(nlp)
        labels = list(reversed(self.labels))
        pipe.initialize(lambda: examples, nlp=nlp, labels=labels)
        assert pipe.labels == tuple(labels)
        assert pipe.head.get_dim("nO") == len(pipe.tags)

    def test_the_number_of_tags_in_the_config_must_be_right(self):
        def initialized(n_tags):
            nlp = self.blank()
            pipe = self.add(nlp)
            if n_tags:
                pipe.head.set_dim("nO", n_tags)
            nlp.initialize(lambda: self.examples(nlp, self.data))
            return pipe

        n_tags = len(initialized(None).tags)
        assert initialized(n_tags).head.get_dim("nO") == n_tags
        with pytest.raises(ValueError, match=f"nO = 2, but {n_tags} tags"):
            initialized(2)

    def test_initialize_twice(self):
        nlp, _ = self.trained(steps=1)
        train(nlp, self.examples(nlp, self.data), 1)
        assert nlp.get_pipe(self.factory).labels == self.labels

    def test_add_label_after_training(self, any_head):
        nlp, _ = self.trained(any_head)
        pipe = nlp.get_pipe(self.factory)
        nlp.update(self.examples(nlp, self.data))
        texts = [text for text, _ in [*self.data, *self.partial, *self.new_data]]
        before = [self.annotation(doc) for doc in nlp.pipe(texts)]
        assert pipe.add_label(self.new_label) == 1
        assert pipe.add_label(self.new_label) == 0
        assert pipe.labels == (*self.labels, self.new_label)
        assert [self.annotation(doc) for doc in nlp.pipe(texts)] == before
        data = [*self.data, *self.new_data]
        update(nlp, self.examples(nlp, data), self.steps + 10)
        self.assert_learned(nlp, data)
        loaded = spacy.blank("xx", config=nlp.config).from_bytes(nlp.to_bytes())
        self.assert_learned(loaded, data)

    def test_unknown_gold_labels_give_one_warning_and_no_gradient(self, head):
        nlp, _ = self.trained(head, steps=1)
        pipe = nlp.get_pipe(self.factory)
        examples = self.examples(nlp, [*self.data, *self.new_data])
        with pytest.warns(UserWarning) as caught:
            for _ in range(3):
                scores, _ = pipe.model.begin_update([eg.predicted for eg in examples])
                _, gradient = pipe.get_loss(examples, scores)
        (warning,) = [str(w.message) for w in caught]
        assert f"{len(self.new_data)} of {len(examples)} documents" in warning
        assert f"document {len(self.data)}, {self.new_data[0][0][:20]!r}"[:-1] in warning
        assert f"unknown labels {self.new_label}" in warning
        known = pipe.codec.n_chains * sum(len(eg) for eg in examples[: len(self.data)])
        assert gradient.unary[:known].any()
        assert not gradient.unary[known:].any()

    def test_texts_that_do_not_align_give_a_warning_and_no_loss(self, head):
        nlp, _ = self.trained(head, steps=1)
        pipe = nlp.get_pipe(self.factory)
        reference = self.examples(nlp, self.data)[0].reference
        examples = [Example(nlp.make_doc("something else entirely"), reference)]
        scores, _ = pipe.model.begin_update([eg.predicted for eg in examples])
        with pytest.warns(UserWarning, match="1 of 1 documents in a batch"):
            loss, _ = pipe.get_loss(examples, scores)
        assert loss == 0

    def test_valid_data_gives_no_warning(self, head):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", message=".*other tokens than the pipeline")
            self.newly_trained(head, [*self.data, *self.partial, *self.unannotated], steps=2)

    def test_loading_with_other_settings_is_refused(self):
        nlp, _ = self.trained(steps=1)
        other = self.blank()
        self.add(other, **self.other_settings)
        (setting, value), *_ = self.other_settings.items()
        with pytest.raises(ValueError, match=f"config sets {setting} = {value!r}, but"):
            other.from_bytes(nlp.to_bytes())

    def test_loading_a_model_of_other_labels_is_refused(self, tmp_path):
        nlp, _ = self.trained(steps=1)
        other, _ = self.trained(data=self.new_data, steps=1)
        nlp.to_disk(tmp_path / "one")
        other.to_disk(tmp_path / "other")
        model = (tmp_path / "other" / self.factory / "model").read_bytes()
        (tmp_path / "one" / self.factory / "model").write_bytes(model)
        with pytest.raises(ValueError, match=f"trained on the tags.*{self.labels[0]}"):
            spacy.load(tmp_path / "one")


class NetworkSuite(ComponentSuite):
    """Tests of a component whose model is a tok2vec and a head."""

    # Classes whose components share their code sample the heads among them.
    some_heads: ClassVar = HEADS
    heads: ClassVar = ALL_HEADS
    default_architecture = "spacy-bcrf.LinearChain.v1"

    def add(self, nlp, head=None, name=None, tok2vec=TOK2VEC, **settings):
        config = {"model": network(head or "BCRF", tok2vec), **self.settings, **settings}
        return nlp.add_pipe(self.factory, name=name or self.factory, config=config)

    def test_the_default_config_trains(self):
        nlp = self.blank()
        nlp.add_pipe(self.factory, config=self.settings)
        config = nlp.get_pipe_config(self.factory)["model"]
        assert config["@architectures"] == self.default_architecture
        examples = self.examples(nlp, self.data)
        first, last = train(nlp, examples, 1), update(nlp, examples, 10)
        assert last[self.factory] < first[self.factory]
        assert nlp.evaluate(examples)["speed"] > 0

    def test_mean_field_leaves_out_misaligned_documents(self):
        nlp = self.blank()
        self.add(nlp, "MeanField")
        examples = self.examples(nlp, self.data)
        reference = examples[0].reference
        words = [token.text for token in reference]
        words[1:3] = [" ".join(words[1:3])]
        examples.append(Example(Doc(nlp.vocab, words=words), reference))
        with pytest.warns(UserWarning, match="1 of 3 documents.*tokens differ from the pipeline's"):
            nlp.initialize(lambda: examples)

    def test_the_loss_is_the_sum_over_documents(self, head):
        nlp, _ = self.trained(head, steps=3)
        pipe = nlp.get_pipe(self.factory)

        def loss(examples):
            scores, _ = pipe.model.begin_update([eg.predicted for eg in examples])
            return pipe.get_loss(examples, scores)[0]

        examples = self.examples(nlp, [*self.data, *self.unannotated])
        assert loss(examples) == pytest.approx(sum(loss([eg]) for eg in examples), rel=1e-4)
        losses = {self.factory: 10.0}
        nlp.update(examples, sgd=False, losses=losses)
        assert losses[self.factory] > 10.0

    def test_two_components_share_a_tok2vec_until_one_replaces_it(self, head, tmp_path):
        nlp = self.blank()
        nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
        self.add(nlp, head, "first", LISTENER)
        # Otherwise the second tagger's output could not appear, and two groups would be one.
        settings = {"bcrf_tagger": {"overwrite": True}, "bcrf_spans": {"spans_key": "second"}}
        self.add(nlp, head, "second", LISTENER, **settings.get(self.factory, {}))
        examples = self.examples(nlp, self.data)
        for spans in (example.reference.spans for example in examples):
            if "sc" in spans:
                spans["second"] = [*spans["sc"]]
        assert train(nlp, examples)["tok2vec"] > 0
        assert set(nlp.get_pipe("tok2vec").listening_components) == {"first", "second"}
        with nlp.select_pipes(disable="second"):
            self.assert_learned(nlp)
        nlp.to_disk(tmp_path / "shared")
        self.assert_learned(spacy.load(tmp_path / "shared", disable=["second"]))
        pipe = nlp.get_pipe("first")
        nlp.replace_listeners("tok2vec", "first", ["model.tok2vec"])
        assert nlp.get_pipe("tok2vec").listening_components == ["second"]
        assert pipe.model.get_ref("tok2vec") is pipe.model.layers[0]
        nlp.remove_pipe("second")
        nlp.remove_pipe("tok2vec")
        self.assert_learned(nlp)
        nlp.to_disk(tmp_path / "alone")
        self.assert_learned(spacy.load(tmp_path / "alone"))
        nlp.update(examples)

    def test_config_and_component_set_the_decoder(self, tmp_path):
        nlp, _ = self.trained()
        nlp.to_disk(tmp_path)
        for decoder in ("argmax", "mbr", "bcrf(5)", "mf(10)"):
            override = {"components": {self.factory: {"model": {"head": {"decoder": decoder}}}}}
            loaded = spacy.load(tmp_path, config=override)
            self.assert_learned(loaded)
            assert loaded.get_pipe(self.factory).decoder == decoder
            nlp.get_pipe(self.factory).set_decoder(decoder)
            assert nlp.get_pipe(self.factory).decoder == decoder
            self.assert_learned(nlp)
        for unknown in "beam", None:
            message = f"unknown decoder {unknown!r}; expected one of viterbi"
            with pytest.raises(ValueError, match=message):
                nlp.get_pipe(self.factory).set_decoder(unknown)
