"""Learning from soft gold, and new labels."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import TOK2VEC, network, optimizer, train

from bcrf.chain import CRF
from spacy_bcrf.layers.linear_chain import sparse_chains
from spacy_bcrf.pipeline.platt_scaling import PlattScaling
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.pipeline.soft_gold import update_towards
from spacy_bcrf.training.distill import learn_targets, teacher_chain
from spacy_bcrf.training.extend import RATE, extend, read_extension

SPARSE = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"], "objective": "crf"}
HYBRID = {
    "@architectures": "spacy-bcrf.Hybrid.v1",
    "tok2vec": TOK2VEC,
    "head": {"@layers": "spacy-bcrf.CRF.v1"},
    "templates": ["w[0]"],
}
MODELS = {
    # Averages of weights move slowly.
    "sparse": {**SPARSE, "averaged": False},
    "sapo": {**SPARSE, "averaged": False, "objective": "sapo"},
    "hybrid": HYBRID,
    **{head: network(head) for head in ("CRF", "BCRF", "MeanField", "Unstructured", "Perceptron")},
}
WORDS = ["Ann", "left", "Rome", "today"]
OLD = ["B-PER", "O", "O", "O"]


def sum_of(one, other):
    """Return the config of a sum."""
    model = {"@architectures": "spacy-bcrf.Sum.v1", "parts": {"one": one, "other": other}}
    return {**model, "weights": {"one": 0.5, "other": 0.5}}


def make(model, scheme="BILUO", ents=OLD):
    """Return a trained pipeline and its component."""
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_ner", config={"model": model, "scheme": scheme})
    train(nlp, [Example(nlp.make_doc("Ann left Rome today"), reference(nlp, ents))], 15)
    return nlp, pipe


def reference(nlp, ents, words=WORDS, **attributes):
    doc = Doc(nlp.vocab, words=words, ents=ents)
    for name, value in attributes.items():
        doc._.set(name, value)
    return doc


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_soft_gold(model):
    nlp, pipe = make(MODELS[model])
    doc = nlp.make_doc("Ann left Rome today")
    # Softer than the model is.
    target = CRF().marginals(teacher_chain(pipe, [doc], 3.0), edges=True)
    sgd = optimizer()
    losses = [update_towards(pipe, [doc], target, sgd=sgd) for _ in range(30)]
    assert losses[-1] < losses[0]
    found = CRF().marginals(pipe.posterior(pipe.find_potentials([doc]))).unary
    np.testing.assert_allclose(found, target.unary, atol=0.1)


@pytest.mark.parametrize("scheme", ["BIO", "BILUO"])
def test_a_new_label_beside_an_old_one(scheme):
    nlp, _ = make(SPARSE, scheme)
    found = extend(nlp, [reference(nlp, ["O", "O", "B-LOC", "I-LOC"])], ["LOC"], passes=10)
    assert found.losses[-1] < found.losses[0] and not found.problems
    ents = nlp("Ann left Rome today").ents
    assert [(ent.text, ent.label_) for ent in ents] == [("Ann", "PER"), ("Rome today", "LOC")]


def test_annotation_of_old_labels_wins_over_the_old_model():
    nlp, _ = make(SPARSE)
    labels = ["LOC", "PER"]
    docs = [reference(nlp, ["O", "O", "B-LOC", "O"], annotated_labels=labels)]
    extend(nlp, docs, ["LOC"], passes=20)
    ents = nlp("Ann left Rome today").ents
    assert [(ent.text, ent.label_) for ent in ents] == [("Rome", "LOC")]


def test_promise_and_calibration_are_removed_and_the_rate_is_set():
    nlp, pipe = make(SPARSE)
    pipe.control = Control("precision", ("PER",), (0.5,))
    pipe.calibration = PlattScaling("label", ("PER",), (2.0, 2.0), (0.5, 0.5))
    docs = [reference(nlp, ["O", "O", "B-LOC", "O"])]
    extend(nlp, docs, ["LOC"], passes=1)
    assert pipe.control is None
    assert pipe.calibration is None
    assert pipe.model.attrs["chain"].settings.rate == RATE


def test_all_chains_of_a_sum_get_the_rate():
    nlp, pipe = make(sum_of(SPARSE, SPARSE))
    extend(nlp, [reference(nlp, ["O", "O", "B-LOC", "O"])], ["LOC"], passes=1, learn_rate=0.7)
    assert [chain.settings.rate for chain in sparse_chains(pipe.model)] == [0.7, 0.7]


def test_documents_that_teach_nothing_are_named():
    nlp, _ = make(SPARSE)
    docs = [
        reference(nlp, ["O", "O", "B-LOC", "O"]),
        reference(nlp, ["", "O", "B-LOC", "O"]),
        reference(nlp, ["O", "O", "O", "O"], words=["a", "b", "c", "d"], annotated_labels=["PER"]),
    ]
    found = extend(nlp, docs, ["LOC"], passes=1)
    assert found.problems == {
        1: "'Ann' (token 0) has no annotation of LOC",
        2: "'a' (token 0) has no annotation of LOC",
    }


def test_a_tag_replaces_any_old_tag():
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": SPARSE})
    gold = Doc(nlp.vocab, words=WORDS, tags=["N", "V", "N", "A"])
    train(nlp, [Example(nlp.make_doc("Ann left Rome today"), gold)], 15)
    chain = teacher_chain(pipe, [gold])
    pipe.add_label("NEW")
    new = Doc(nlp.vocab, words=WORDS, tags=["", "", "NEW", "N"])
    ((tags, allowed),), problems = read_extension(
        pipe, 3, [Example(nlp.make_doc("Ann left Rome today"), new)], chain
    )
    assert not problems
    assert tags.tolist() == [-1, -1, 3, -1]
    assert allowed.all(axis=1).tolist() == [True, True, True, False]


def test_empty_documents_are_left_out():
    nlp, pipe = make(SPARSE)
    empty = nlp.make_doc("")
    assert learn_targets(pipe, [empty], lambda at: pytest.fail("no target"), passes=2) == [0, 0]
    found = extend(nlp, [empty, reference(nlp, ["O", "O", "B-LOC", "O"])], ["LOC"], passes=1)
    assert not found.problems


@pytest.mark.parametrize("in_sum", [False, True])
@pytest.mark.parametrize("settings", [{"order": 2}, {"l1": 0.1}])
def test_a_chain_that_needs_online_steps_gets_no_label(settings, in_sum):
    model = {**SPARSE, **settings}
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_ner", config={"model": sum_of(SPARSE, model) if in_sum else model})
    nlp.initialize(lambda: [Example(nlp.make_doc("Ann left Rome today"), reference(nlp, OLD))])
    ((name, value),) = settings.items()
    with pytest.raises(
        ValueError, match=rf"\[bcrf_ner\] .*but {name} = {value} needs online steps"
    ):
        extend(nlp, [reference(nlp, ["O", "O", "B-LOC", "O"])], ["LOC"])
    assert pipe.labels == ("PER",)
