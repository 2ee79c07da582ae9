"""Tests of components whose model is the sum of a network and a sparse linear chain."""

import pickle
from typing import ClassVar

import numpy as np
import pytest
import spacy
from component_suite import HEADS, ComponentSuite
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc
from spacy.training import Example
from test_ner import NerSuite
from test_tagger import TaggerSuite
from tiny_training import LISTENER, TOK2VEC, network, train, update

from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.sparse.model import SparseChain
from spacy_bcrf.sparse.named_weights import explain_choice

TEMPLATES = ["w[-1..1]"]
SPARSE = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": TEMPLATES}
CHARACTERS = {"nlp": {"tokenizer": {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}}}


def hybrid(head="CRF", tok2vec=TOK2VEC, **options):
    """Return the config of a hybrid model."""
    parts = network(head, tok2vec)
    return {
        **parts,
        "@architectures": "spacy-bcrf.Hybrid.v1",
        "templates": TEMPLATES,
        "feature_dropout": 0.0,
        **options,
    }


class HybridSuite(ComponentSuite):
    """Tests of a component whose model is hybrid."""

    some_heads: ClassVar = HEADS
    heads: ClassVar = HEADS

    def add(self, nlp, head=None, name=None, tok2vec=TOK2VEC, **settings):
        config = {"model": hybrid(head or "CRF", tok2vec), **self.settings, **settings}
        return nlp.add_pipe(self.factory, name=name or self.factory, config=config)

    def test_it_listens_to_a_tok2vec_until_it_has_its_own(self, head, tmp_path):
        nlp = self.blank()
        nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
        self.add(nlp, head, self.factory, LISTENER)
        train(nlp, self.examples(nlp, self.data))
        self.assert_learned(nlp)
        pipe, text = nlp.get_pipe(self.factory), self.data[0][0]
        assert pipe.nbest([nlp(text), nlp.make_doc("")])
        with pytest.raises(ValueError, match="a document has no vectors of the tok2vec component"):
            pipe.nbest([nlp.make_doc(text)])
        nlp.replace_listeners("tok2vec", self.factory, ["model.tok2vec"])
        nlp.remove_pipe("tok2vec")
        nlp.to_disk(tmp_path)
        self.assert_learned(spacy.load(tmp_path))


class TestHybridTagger(TaggerSuite, HybridSuite):
    pass


class TestHybridNer(NerSuite, HybridSuite):
    pass


def tagger(model, n=12, steps=10):
    """Return a trained tagger of the words a to c, its component and its data."""
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": model})
    words = ["a", "b", "c"]
    data = []
    for i in range(n):
        text = " ".join(words[(i + k) % 3] for k in range(3))
        tags = [word.upper() for word in text.split()]
        data.append(Example.from_dict(nlp.make_doc(text), {"tags": tags}))
    train(nlp, data, steps)
    return nlp, pipe, data


@pytest.mark.parametrize("sparse_weight", [0.5, "learned"])
def test_both_parts_learn(sparse_weight):
    nlp, pipe, data = tagger(hybrid(sparse_weight=sparse_weight), steps=0)
    before = pipe.model.layers[0].to_bytes()
    update(nlp, data, 5)
    assert pipe.model.layers[0].to_bytes() != before
    assert np.abs(sparse_chain(pipe.model).learner.weights).max() > 0.1
    if sparse_weight == "learned":
        weight = pipe.model.get_param("weights")[1]
        assert weight != 1
        assert pickle.loads(pickle.dumps(pipe)).model.get_param("weights")[1] == weight


def test_a_weight_of_the_config_wins_over_the_saved_model(tmp_path):
    nlp, _, _ = tagger(hybrid())
    nlp.to_disk(tmp_path)
    override = {"components": {"bcrf_tagger": {"model": {"sparse_weight": 3.0}}}}
    doc = nlp.make_doc("a b c")
    potentials = [
        loaded.get_pipe("bcrf_tagger").find_potentials([doc]).unary
        for loaded in (spacy.load(tmp_path), spacy.load(tmp_path, config=override))
    ]
    sparse = sparse_chain(nlp.get_pipe("bcrf_tagger").model).potentials([doc]).unary
    difference = potentials[1] - potentials[0]
    np.testing.assert_allclose(difference, 2 * sparse, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("option, model", [("init_sparse", SPARSE), ("init_neural", network())])
def test_a_trained_component_starts_a_part(tmp_path, option, model):
    source, _, _ = tagger(model)
    source.to_disk(tmp_path)
    folder = str(tmp_path / "bcrf_tagger")
    nlp, _, _ = tagger(hybrid("BCRF", **{option: folder}), steps=0)
    assert [token.tag_ for token in nlp("b c")] == ["B", "C"]
    # The finished pipeline does not need the folder.
    nlp.config["components"]["bcrf_tagger"]["model"][option] = "missing"
    assert [t.tag_ for t in spacy.blank("xx", config=nlp.config).from_bytes(nlp.to_bytes())("c")]


def test_a_start_that_does_not_fit_is_refused(tmp_path):
    source, _, _ = tagger(network(), n=2, steps=0)
    other, pipe, _ = tagger(SPARSE, steps=1)
    source.to_disk(tmp_path / "neural")
    other.to_disk(tmp_path / "sparse")
    neural, sparse = (str(tmp_path / name / "bcrf_tagger") for name in ("neural", "sparse"))
    narrow = network("BCRF", {**TOK2VEC, "width": 8})
    cases = [
        ({"init_sparse": "nowhere"}, "init_sparse = 'nowhere' has no file `model`"),
        ({"init_sparse": neural}, "has no boolean features; expected a component with"),
        ({"init_neural": sparse}, "has another network than tok2vec and head"),
        ({"init_neural": neural, "tok2vec": narrow["tok2vec"]}, "has another network than"),
        ({"init_sparse": sparse, "templates": ["w[0]"]}, "was trained with"),
        ({"init_sparse": sparse, "templates": "segmentation"}, "of the set 'segmentation', but"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            tagger(hybrid("BCRF", **options), steps=0)
    pipe.add_label("D")
    other.to_disk(tmp_path / "more")
    with pytest.raises(ValueError, match=r"has the tags \['A', 'B', 'C', 'D'\], but the data have"):
        tagger(hybrid(init_sparse=str(tmp_path / "more/bcrf_tagger")), steps=0)


def test_a_sparse_start_keeps_the_features_of_the_data(tmp_path):
    source, trained, _ = tagger(SPARSE)
    source.to_disk(tmp_path)
    nlp = MultiLanguage()
    model = hybrid(init_sparse=str(tmp_path / "bcrf_tagger"), min_freq=2)
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": model})
    gold = [(["d", "a"], ["C", "A"]), (["d"], ["B"])]
    data = [Example.from_dict(Doc(nlp.vocab, words=w), {"words": w, "tags": t}) for w, t in gold]
    train(nlp, data, 0)
    old, new = sparse_chain(trained.model), sparse_chain(pipe.model)
    assert new.learner.n_sequences == 2
    docs = [Doc(nlp.vocab, words=words) for words in (["b", "c"], ["d"])]
    saved = SparseChain(TEMPLATES, old.settings).from_bytes(old.to_bytes())
    expected = saved.potentials(docs)
    np.testing.assert_array_equal(new.potentials(docs).unary, expected.unary)
    np.testing.assert_array_equal(new.potentials(docs).transitions, expected.transitions)
    # The word d is a feature although the trained chain does not have it.
    assert len(new.rows(docs[1:]).rows) > len(saved.rows(docs[1:]).rows)


def test_a_start_with_other_clusters_is_refused(tmp_path):
    lexicon = {"templates": ["cluster.c[0]"], "clusters": {"c": {"a": "1", "b": "2"}}}
    source, _, _ = tagger({**SPARSE, **lexicon}, steps=1)
    source.to_disk(tmp_path)
    options = {**lexicon, "init_sparse": str(tmp_path / "bcrf_tagger")}
    tagger(hybrid(**options), steps=0)
    with pytest.raises(ValueError, match=r"trained with another table cluster\.c"):
        tagger(hybrid(**{**options, "clusters": {"c": {"a": "2", "b": "1"}}}), steps=0)


def test_a_start_that_is_damaged_or_untrained_is_refused(tmp_path):
    source, _, _ = tagger(SPARSE, steps=0)
    source.to_disk(tmp_path)
    folder = tmp_path / "bcrf_tagger"
    with pytest.raises(ValueError, match=r"init_sparse = .* no weights; expected a trained one"):
        tagger(hybrid(init_sparse=str(folder)), steps=0)
    (folder / "model").write_bytes(b"damaged")
    for option in ("init_sparse", "init_neural"):
        with pytest.raises(ValueError, match=f"{option} = .*model is damaged"):
            tagger(hybrid(**{option: str(folder)}), steps=0)


def test_reasons_include_the_network_and_add_up():
    nlp, pipe, _ = tagger(hybrid(sparse_weight=0.5))
    doc = nlp.make_doc("a b c")
    potentials = pipe.find_potentials([doc])
    best = pipe.decode(potentials)
    (marginals,) = pipe.token_marginals([doc])
    choice = explain_choice(
        sparse_chain(pipe.model), doc, potentials, pipe.tags, best, marginals, 1, weight=0.5
    )
    reasons = dict(choice.reasons)
    assert {"orth[0]=b", "other parts of the model"} <= reasons.keys()
    other = best.copy()
    other[1] = choice.rival
    scores = []
    for tags in (best, other):
        score = potentials.unary[np.arange(3), tags].sum()
        scores.append(score + potentials.transitions[tags[:-1], tags[1:]].sum())
    assert sum(reasons.values()) == pytest.approx(scores[0] - scores[1], rel=1e-3)


def test_chunker_and_segmenter_learn():
    nlp = MultiLanguage()
    nlp.add_pipe("bcrf_chunker", config={"model": hybrid()})
    gold = {"spans": {"chunks": [(0, 2, "NP"), (3, 10, "VP")]}}
    train(nlp, [Example.from_dict(nlp.make_doc("He reckons"), gold)])
    doc = nlp("He reckons")
    assert [span.label_ for span in doc.spans["chunks"]] == ["NP", "VP"]
    nlp = spacy.blank("zh", config=CHARACTERS)
    nlp.add_pipe("bcrf_segmenter", config={"model": hybrid()})
    gold = {"words": ["我", "喜欢"], "spaces": [False] * 2, "tags": ["PRON", "VERB"]}
    train(nlp, [Example.from_dict(nlp.make_doc("我喜欢"), gold)])
    assert [word.text for word in nlp("我喜欢")] == ["我", "喜欢"]


def test_damaged_weights_are_refused(tmp_path):
    nlp, _, _ = tagger(hybrid())
    nlp.to_disk(tmp_path)
    path = tmp_path / "bcrf_tagger/model"
    data = bytearray(path.read_bytes())
    at = data.index(b"features", data.index(b"checksum")) + 20
    data[at] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="bytes of the linear chain are damaged"):
        spacy.load(tmp_path)
