"""Two passes: pooled values against loops over tokens, cross-fitting, and round trips."""

import copy
import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import fix_random_seed

from bcrf.linear.model_bytes import unpack
from bcrf.linear.templates import TemplateError
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.sparse.named_weights import name_known
from spacy_bcrf.sparse.two_pass import ENDS, FOLDS, LEAST_SENTENCES, are_long, pool_posteriors

CHAIN = {"@architectures": "spacy-bcrf.LinearChain.v1", "objective": "crf"}
TEMPLATES = ["w[-1..1]", "suffix(1..3)[0]"]
TAGS = ["O", "B-X", "I-X", "L-X", "U-X", "B-Y", "I-Y", "L-Y", "U-Y"]


def expected_values(words, posterior, bounds):
    """Return the values of the tokens of documents [a, b), by loops."""
    values = [[] for _ in words]
    for a, b in bounds:
        sentence, number = [], 0
        for word in words[a:b]:
            sentence.append(number)
            number += word in ENDS
        if len(set(sentence)) < LEAST_SENTENCES:
            continue
        for i in range(a, b):
            others = [
                j
                for j in range(a, b)
                if words[j] == words[i] and sentence[j - a] != sentence[i - a]
            ]
            if not others or words[i] in ENDS:
                continue
            mean = {"O": np.mean([posterior[j, 0] for j in others])}
            for label in "XY":
                at = [k for k, tag in enumerate(TAGS) if tag.endswith(f"-{label}")]
                mean[label] = np.mean([posterior[j, at].sum() for j in others])
                longer = sum(posterior[j, at[:3]].sum() for j in others)
                if mean[label] * len(others) >= 0.5:
                    values[i].append(f"some {label}")
                if longer >= 0.5:
                    values[i].append(f"part {label}")
                if mean[label] >= 0.05:
                    limits = (0.05, 0.2, 0.5, 0.8, 0.95)
                    values[i].append(f"mean {label} {sum(mean[label] >= x for x in limits)}")
            best = max(mean, key=lambda label: mean[label])
            values[i].append(f"most {best} {min(len(others), 3)}")
    return [sorted(found) for found in values]


@pytest.mark.parametrize("seed", range(5))
def test_pooled_values_equal_those_of_loops(seed):
    rng = np.random.default_rng(seed)
    words = rng.choice(["a", "b", "c", "."], 60).tolist()
    posterior = rng.dirichlet(np.full(len(TAGS), 0.2), len(words))
    lengths = np.array([25, 0, 5, 30], dtype="int32")
    vocab = spacy.blank("en").vocab
    orths = np.array([vocab[word].orth for word in words], dtype="uint64")
    is_punct = np.array([word == "." for word in words])
    found = pool_posteriors(posterior, TAGS, orths, is_punct, lengths)
    expected = expected_values(words, posterior, [(0, 25), (25, 30), (30, 60)])
    assert [sorted(values) for values in found] == expected


def test_documents_are_long_from_five_sentences_on():
    vocab = spacy.blank("en").vocab
    docs = ["a . a ? a ! a . a", "a . a ? a ! a .", "", ". . . . .", ". . . .", "a " * 99]
    words = [doc.split() for doc in docs]
    orths = np.array([vocab[word].orth for doc in words for word in doc], dtype="uint64")
    lengths = np.array([len(doc) for doc in words], dtype="int32")
    assert are_long(orths, lengths).tolist() == [True, False, False, True, False, False]
    assert not are_long(orths[:0], lengths[:0]).size


def make_docs(nlp, n, seed=0, n_sentences=6):
    """Documents about one name each, which only some sentences show to be a person or a place."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        name = "".join(rng.choice(list("abcdefgh"), 5)).title()
        label = ["PER", "LOC"][k % 2]
        shown = {"PER": f"Mr {name} said", "LOC": f"in {name} there"}[label]
        rest = [f"then {name} went", f"about {name} again"]
        n_shown = (n_sentences + 1) // 2
        lines = [shown] * n_shown
        lines += [rest[int(k)] for k in rng.integers(2, size=n_sentences - n_shown)]
        words = [*" . ".join(lines[i] for i in rng.permutation(n_sentences)).split(), "."]
        doc = Doc(nlp.vocab, words=words)
        doc.ents = [Span(doc, i, i + 1, label=label) for i, w in enumerate(words) if w == name]
        yield doc


def train(docs, two_pass=True, passes=6, **options):
    nlp = spacy.blank("en")
    model = {**CHAIN, "templates": TEMPLATES, "two_pass": two_pass, **options}
    nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    examples = [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in docs]
    fit_sparse_chain(nlp, examples, passes)
    return nlp


def score(nlp, docs):
    words = ([token.text for token in doc] for doc in docs)
    return nlp.evaluate(
        [Example(Doc(nlp.vocab, words=w), d) for w, d in zip(words, docs, strict=True)]
    )["ents_f"]


@pytest.fixture(scope="module")
def corpus():
    nlp = spacy.blank("en")
    return [list(make_docs(nlp, 60, seed)) for seed in (0, 1)]


@pytest.fixture(scope="module")
def trained(corpus):
    return train(corpus[0])


def entities(doc):
    return [(e.start, e.end, e.label_) for e in doc.ents]


def blank_docs(nlp, docs):
    return [Doc(nlp.vocab, words=[token.text for token in doc]) for doc in docs]


def test_the_second_chain_reads_other_sentences(corpus, trained):
    one = score(train(corpus[0], two_pass=False), corpus[1])
    two = score(trained, corpus[1])
    assert two > one + 0.1 and two > 0.8


def test_a_document_does_not_depend_on_its_batch(corpus, trained):
    docs = corpus[1][:20]
    alone = [entities(trained(doc)) for doc in blank_docs(trained, docs)]
    for size in (3, 20):
        batch = trained.pipe(blank_docs(trained, docs), batch_size=size)
        assert [entities(doc) for doc in batch] == alone
    potentials = trained.get_pipe("ner").find_potentials(blank_docs(trained, docs)).unary
    lengths = np.cumsum([len(doc) for doc in docs])[:-1]
    for doc, found in zip(blank_docs(trained, docs), np.split(potentials, lengths), strict=True):
        own = trained.get_pipe("ner").find_potentials([doc]).unary
        assert np.allclose(own, found, atol=1e-5)


def test_documents_of_one_sentence_equal_one_pass():
    nlp = spacy.blank("en")
    docs = list(make_docs(nlp, 40, n_sentences=1))
    one, two = train(docs, two_pass=False), train(docs)
    found = [nlp.get_pipe("ner").find_potentials(blank_docs(nlp, docs)).unary for nlp in (one, two)]
    assert np.array_equal(*found)


def test_training_values_come_from_other_folds(corpus):
    """Names that occur in one document only are new to the chain of its fold."""
    nlp = train(corpus[0])
    first = sparse_chain(nlp.get_pipe("ner").model).first
    docs = blank_docs(nlp, corpus[0])
    held_out, own = first.values(docs, held_out=True), first.values(docs)
    assert held_out != own
    # The full chain knows the name of each training document, a chain of the others does not.
    wrong = [
        sum(
            f"most {doc.ents[0].label_} 3" not in values[doc.ents[0].start] for doc, values in pairs
        )
        for pairs in (zip(corpus[0], held_out, strict=True), zip(corpus[0], own, strict=True))
    ]
    assert wrong[0] > wrong[1]
    # A document that was no training data has the values of the full chain.
    other = blank_docs(nlp, make_docs(nlp, 2, 99))
    assert first.values(other, held_out=True) == first.values(other)
    # So have equal documents all the same values: they share a fold.
    assert first.values([docs[0], docs[0]], held_out=True) == [held_out[0]] * 2


def test_training_is_deterministic_and_reads_every_fold(corpus, trained, monkeypatch):
    again = train(corpus[0])
    chains = [sparse_chain(nlp.get_pipe("ner").model) for nlp in (trained, again)]
    assert np.array_equal(*(chain.learner.weights for chain in chains))
    assert np.array_equal(*(chain.first.chain.learner.weights for chain in chains))
    assert FOLDS == 5


def test_a_saved_pipeline_predicts_the_same(corpus, trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    docs = corpus[1][:20]
    expected = [entities(doc) for doc in trained.pipe(blank_docs(trained, docs))]
    loaded = spacy.load(tmp_path / "model")
    assert [entities(doc) for doc in loaded.pipe(blank_docs(loaded, docs))] == expected
    chain = sparse_chain(trained.get_pipe("ner").model)
    for other in (pickle.loads(pickle.dumps(chain)), copy.deepcopy(chain)):
        found = [c.potentials(blank_docs(trained, docs)).unary for c in (other, chain)]
        # Rounded weights of the first chain can move a posterior to another class.
        assert np.isclose(*found, atol=0.01).mean() > 0.98
        assert other.to_bytes() == chain.to_bytes()
    saved = unpack(chain.to_bytes())
    assert saved.first.templates == TEMPLATES and saved.first_tags == chain.first.tags


def test_chains_side_by_side_pool_the_labels_of_all(corpus):
    nlp = spacy.blank("en")
    model = {**CHAIN, "templates": TEMPLATES, "two_pass": True}
    pipe = nlp.add_pipe("bcrf_spans", config={"model": model})
    gold = blank_docs(nlp, corpus[0])
    for doc, known in zip(gold, corpus[0], strict=True):
        doc.spans["sc"] = [Span(doc, e.start, e.end, label=e.label_) for e in known.ents]
    examples = [Example(*pair) for pair in zip(blank_docs(nlp, gold), gold, strict=True)]
    fit_sparse_chain(nlp, examples, 6)
    first = sparse_chain(pipe.model).first
    (values,) = first.values([gold[0]])
    name = corpus[0][0].ents[0]
    assert f"most {name.label_} 3" in values[name.start]
    assert f"part {name.label_}" not in values[name.start]
    assert all(text.startswith("most O") for text in values[0])
    copy_of = spacy.blank("en", config=nlp.config).from_bytes(nlp.to_bytes())
    docs = [copy_of(Doc(copy_of.vocab, words=[token.text for token in gold[0]]))]
    assert {span.label_ for span in docs[0].spans["sc"]} == {name.label_}


def test_one_and_two_passes_do_not_load_each_other(corpus, trained):
    one = train(corpus[0][:8], two_pass=False)
    chains = [sparse_chain(nlp.get_pipe("ner").model) for nlp in (one, trained)]
    for chain, other in (chains, chains[::-1]):
        with pytest.raises(ValueError, match="the saved linear chain was trained with"):
            chain.from_bytes(other.to_bytes())


def test_updates_of_spacy_learn_the_second_chain(corpus):
    fix_random_seed(0)
    nlp = spacy.blank("en")
    model = {**CHAIN, "templates": TEMPLATES, "two_pass": True, "min_freq": 2}
    nlp.add_pipe("bcrf_ner", config={"model": model})
    words = [[token.text for token in doc] for doc in corpus[0]]
    examples = [Example(Doc(nlp.vocab, words=w), d) for w, d in zip(words, corpus[0], strict=True)]
    nlp.initialize(lambda: examples)
    for _ in range(6):
        nlp.update(examples)
    assert score(nlp, corpus[1]) > 0.75
    # Another initialization forgets the first chain.
    nlp.initialize(lambda: examples[:4])
    first = sparse_chain(nlp.get_pipe("bcrf_ner").model).first
    assert len(first.chain.dictionary) < 200


def test_explanations_name_pooled_features(corpus, trained):
    chain = sparse_chain(trained.get_pipe("ner").model)
    doc = blank_docs(trained, corpus[1])[0]
    names = [[name for name, _ in token] for token in name_known(chain, doc)]
    name = corpus[1][0].ents[0].start
    assert any(text.startswith("pooled[0]=most ") for text in names[name])


def test_tags_and_own_templates():
    nlp = spacy.blank("en")
    templates = ["w[0]", "pooled[0]|w[0]"]
    model = {**CHAIN, "templates": templates, "two_pass": True}
    nlp.add_pipe("bcrf_tagger", config={"model": model})
    words = [*"ab.ba.ab.c.c."]
    tags = ["X" if word == "a" else "Y" if word == "b" else "Z" for word in words]
    docs = [Doc(nlp.vocab, words=words[i:] + words[:i], tags=tags[i:] + tags[:i]) for i in range(9)]
    fit_sparse_chain(nlp, [Example(d, d) for d in docs], 4)
    chain = sparse_chain(nlp.get_pipe("bcrf_tagger").model)
    assert chain.features.texts == templates and chain.first.chain.features.texts == ["w[0]"]
    assert "most X 2" in chain.first.values([docs[0]])[0][0]


def test_errors_name_the_setting():
    nlp = spacy.blank("en")
    with pytest.raises(TemplateError, match="pooled needs the setting two_pass = true"):
        nlp.add_pipe("bcrf_ner", config={"model": {**CHAIN, "templates": ["pooled[0]"]}})
