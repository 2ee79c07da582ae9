"""`nlp.rehearse`: old labels stay while the component learns new ones."""

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from tiny_training import LISTENER, TOK2VEC, network, optimizer, train

SPARSE = {
    "@architectures": "spacy-bcrf.LinearChain.v1",
    "templates": ["w[0]", "w[-1]"],
    "objective": "crf",
    "averaged": False,
}
HYBRID = {
    "@architectures": "spacy-bcrf.Hybrid.v1",
    "tok2vec": TOK2VEC,
    "head": {"@layers": "spacy-bcrf.CRF.v1"},
    "templates": ["w[0]"],
}
OURS = {**TOK2VEC, "@architectures": "spacy-bcrf.HashEmbedCNN.v1"}
MODELS = {
    "sparse": SPARSE,
    "hybrid": HYBRID,
    "CRF": network("CRF/pairwise"),
    "BCRF": network("BCRF", OURS),
}
TEXT = ["Ann", "left"]


def example(nlp, words, ents):
    """Return an example. The prediction starts from a Doc without annotation."""
    return Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, ents=ents))


def make(model, component="bcrf_ner", **config):
    """Return a pipeline trained to find a person, and its component."""
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe(component, config={"model": model, **config})
    train(nlp, [example(nlp, ["Ann", "left"], ["B-PER", "O"])], 15)
    return nlp, pipe


def raw_example(nlp):
    return Example(nlp.make_doc("Ann left"), nlp.make_doc("Ann left"))


def learn_places(nlp, pipe, rehearse):
    """Learn a new label from a text in which the person is not annotated."""
    pipe.add_label("LOC")
    new = [example(nlp, ["Ann", "saw", "Rome"], ["O", "O", "B-LOC"])]
    for _ in range(10):
        nlp.update(new)
        if rehearse:
            nlp.rehearse([raw_example(nlp)])


def probability(nlp, pipe, tag):
    """Return the probability that the first word has a tag."""
    (marginals,) = pipe.token_marginals([nlp.make_doc("Ann left")])
    return marginals[0, pipe.tags.index(tag)]


@pytest.mark.parametrize("model", MODELS)
def test_an_old_label_is_forgotten_less(model):
    found = []
    for rehearse in (False, True):
        nlp, pipe = make(MODELS[model])
        nlp.resume_training(sgd=optimizer())
        learn_places(nlp, pipe, rehearse)
        found.append(probability(nlp, pipe, "U-PER"))
        assert [ent.label_ for ent in nlp("Ann saw Rome").ents] == ["LOC"]
    assert found[1] > found[0] + 0.15
    # A cache of weights or of embeddings would be out of date.
    loaded = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    again = probability(loaded, loaded.get_pipe("bcrf_ner"), "U-PER")
    assert again == pytest.approx(found[1], abs=1e-3)


@pytest.mark.parametrize("model", ["hybrid", "BCRF"])
def test_a_later_label_is_not_taught(model):
    nlp, pipe = make(MODELS[model])
    nlp.resume_training(sgd=optimizer())
    pipe.add_label("LOC")
    gradients = []

    def record(key, weights, gradient):
        gradients.append(abs(gradient).max())
        return weights, gradient

    losses = pipe.rehearse([raw_example(nlp)], sgd=record)
    # The model is still the teacher, so the loss is an entropy, and its gradient is 0.
    assert losses["bcrf_ner"] > 0
    assert gradients and max(gradients) < 1e-3


def test_a_tagger_rehearses():
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": network("CRF")})
    train(nlp, [Example.from_dict(nlp.make_doc("Ann left"), {"tags": ["N", "V"]})], 15)
    nlp.resume_training(sgd=optimizer())
    wrong = [Example.from_dict(nlp.make_doc("Ann left"), {"tags": ["V", "N"]})]
    for _ in range(5):
        nlp.update(wrong)
    forgotten = probability(nlp, pipe, "N")
    for _ in range(10):
        losses = nlp.rehearse([raw_example(nlp)])
    assert losses["bcrf_tagger"] > 0
    assert probability(nlp, pipe, "N") > forgotten + 0.2


def test_spans_that_may_overlap_rehearse():
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_spans", config={"model": network("CRF")})
    gold = [
        Example.from_dict(nlp.make_doc("Ann left"), {"spans": {"sc": spans}})
        for spans in ([(0, 3, "PER"), (0, 8, "EVENT")], [])
    ]
    train(nlp, gold[:1], 30)
    nlp.resume_training(sgd=optimizer())
    before = nlp.rehearse([raw_example(nlp)])
    pipe.add_label("LOC")
    # The entropy of the old chains: the chain of the new label adds nothing.
    assert nlp.rehearse([raw_example(nlp)]) == pytest.approx(before, abs=1e-5)
    for _ in range(10):
        nlp.update(gold[1:])
    forgotten = probability(nlp, pipe, "U-PER")
    for _ in range(30):
        losses = nlp.rehearse([raw_example(nlp)])
    assert losses["bcrf_spans"] > 0
    assert probability(nlp, pipe, "U-PER") > forgotten + 0.2


def test_nothing_to_rehearse():
    nlp, pipe = make(network())
    nlp.resume_training(sgd=optimizer())
    pipe.add_label("LOC")
    preset = nlp.make_doc("Ann left")
    preset.set_ents([Span(preset, 0, 1, "LOC")])
    empty = nlp.make_doc("")
    before = pipe.to_bytes(exclude=["vocab"])
    assert nlp.rehearse([Example(doc, doc) for doc in (preset, empty)]) == {"bcrf_ner": 0}
    assert pipe.to_bytes(exclude=["vocab"]) == before


def test_no_rehearsal_without_an_earlier_model():
    nlp, pipe = make(network())
    before = pipe.to_bytes(exclude=["vocab"])
    with pytest.warns(UserWarning, match=r"\[bcrf_ner\] .*call nlp.resume_training before"):
        assert nlp.rehearse([raw_example(nlp)]) == {"bcrf_ner": 0}
    assert pipe.to_bytes(exclude=["vocab"]) == before


def test_a_listener_cannot_rehearse():
    nlp = spacy.blank("xx")
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    nlp.add_pipe("bcrf_ner", config={"model": network("CRF", LISTENER)})
    train(nlp, [example(nlp, TEXT, ["B-PER", "O"])], 1)
    nlp.resume_training(sgd=optimizer())
    with pytest.raises(ValueError, match=r"\[bcrf_ner\] .* listens to '\*'. Call nlp.replace_list"):
        nlp.rehearse([raw_example(nlp)])
    nlp.replace_listeners("tok2vec", "bcrf_ner", ["model.tok2vec"])
    nlp.resume_training()
    assert nlp.rehearse([raw_example(nlp)])["bcrf_ner"] > 0


@pytest.mark.parametrize("settings", [{"order": 2}, {"l1": 0.1}])
def test_a_chain_that_needs_online_steps_cannot_rehearse(settings):
    nlp, _ = make({**SPARSE, **settings})
    nlp.resume_training()
    ((name, value),) = settings.items()
    with pytest.raises(
        ValueError, match=rf"\[bcrf_ner\] .*but {name} = {value} needs online steps"
    ):
        nlp.rehearse([raw_example(nlp)])
