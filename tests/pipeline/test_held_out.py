"""Training documents that a component does not learn, and the temperature fitted on them."""

import copy
from collections import defaultdict

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry
from tiny_training import LISTENER, TOK2VEC, network, optimizer

from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.pipeline.calibration import Calibration, measure_reliability
from spacy_bcrf.pipeline.factories import LINEAR_CHAIN, NER_MODEL
from spacy_bcrf.pipeline.held_out import BLOCK, MOST, Blocks, hash_texts
from spacy_bcrf.promises.calibrate import calibrate
from spacy_bcrf.promises.control import control

N_WORDS = 10
HYBRID = {
    "@architectures": "spacy-bcrf.Hybrid.v1",
    "templates": "ner",
    "tok2vec": TOK2VEC,
    "head": {"@layers": "spacy-bcrf.CRF.v1"},
}


def noisy_docs(nlp, n, seed=0):
    """Return documents of 10 words. Half of the words "a.." are entities, by a coin."""
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        words = [f"{'ab'[k % 2]}{k}" for k in rng.integers(400, size=N_WORDS - 1).tolist()]
        words.append(f"unique{seed}.{i}")
        is_ent = [word[0] == "a" and rng.random() < 0.5 for word in words]
        ents = ["B-X" if found else "O" for found in is_ent]
        docs.append(
            Doc(nlp.vocab, words=words, ents=ents, tags=["E" if e else "N" for e in is_ent])
        )
    return docs


def make_examples(nlp, docs):
    return [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in docs]


def learn(nlp, examples, passes, size=64):
    sgd = nlp.create_optimizer()
    for _ in range(passes):
        for start in range(0, len(examples), size):
            nlp.update(examples[start : start + size], sgd=sgd)


def train(factory, n_docs, passes, **config):
    """Return a sparse chain that has learned noisy documents, and these."""
    nlp = spacy.blank("xx")
    nlp.add_pipe(factory, config=config)
    examples = make_examples(nlp, noisy_docs(nlp, n_docs))
    nlp.initialize(lambda: examples)
    learn(nlp, examples, passes)
    return nlp, examples


@pytest.fixture(scope="module", params=["bcrf_ner", "bcrf_tagger"])
def trained(request):
    return train(request.param, 1600, 4)


@pytest.fixture
def decoded_for_f():
    nlp, examples = train("bcrf_ner", 1600, 2, model={**NER_MODEL, "decoder": "f"})
    return nlp, nlp.get_pipe("bcrf_ner"), examples


def test_probabilities_of_new_documents_are_right_after_training(trained):
    nlp, _ = trained
    ((_, pipe),) = nlp.pipeline
    new = Calibration(pipe, make_examples(nlp, noisy_docs(nlp, 400, seed=1)))
    nlp.to_bytes()
    assert pipe.temperature == pytest.approx(new.fit(), rel=0.2)
    errors = [
        measure_reliability(new.confidence(t), new.correct).error for t in (1.0, pipe.temperature)
    ]
    assert errors[1] < 0.08 < 0.09 < errors[0]


def test_a_tenth_of_a_small_corpus_is_not_learned_in_blocks(trained):
    nlp, examples = trained
    ((_, pipe),) = nlp.pipeline
    held_out = pipe._held_out.find(examples)
    assert len(held_out) == len(examples) // 10
    starts = [i for i in held_out if i - 1 not in held_out]
    assert np.diff(starts).tolist() == [10 * BLOCK // N_WORDS] * (len(starts) - 1)
    before = sparse_chain(pipe.model).to_bytes()
    nlp.update([examples[i] for i in held_out])
    assert sparse_chain(pipe.model).to_bytes() == before


def test_what_calibrated_cannot_give_a_promise(trained):
    nlp, examples = trained
    ((_, pipe),) = nlp.pipeline
    nlp.to_bytes()
    gold = [examples[i].reference for i in pipe._held_out.find(examples)]
    with pytest.raises(ValueError, match="neither training nor"):
        control(nlp, gold, precision=0.5)


def test_a_network_with_a_shared_tok2vec_learns_nothing_from_them():
    nlp = spacy.blank("xx")
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    nlp.add_pipe("bcrf_ner", config={"model": network("CRF", LISTENER)})
    examples = make_examples(nlp, noisy_docs(nlp, 1100))
    sgd = nlp.initialize(lambda: examples)
    pipe = nlp.get_pipe("bcrf_ner")
    held_out = pipe._held_out.find(examples)
    losses = nlp.update([examples[i] for i in held_out[:8]], sgd=sgd, losses={})
    assert losses["bcrf_ner"] == 0
    nlp.update(examples[:64], sgd=optimizer())
    nlp("a1 b2")
    assert pipe.temperature != 1


def test_the_end_of_a_training_says_how_right_the_probabilities_are(tmp_path, capsys):
    nlp, examples = train("bcrf_ner", 1100, 1)
    nlp.evaluate(make_examples(nlp, noisy_docs(nlp, 20, seed=2)))
    nlp.to_disk(tmp_path)
    assert not capsys.readouterr().err
    nlp.to_disk(tmp_path)  # as `spacy train` ends
    nlp.to_disk(tmp_path)
    printed = capsys.readouterr().err
    assert "fitted on 120 of 1,100 training documents" in printed
    assert printed.count("Calibration error") == 1
    loaded = spacy.load(tmp_path).get_pipe("bcrf_ner")
    assert loaded.temperature == nlp.get_pipe("bcrf_ner").temperature != 1
    learn(nlp, examples, 1)
    assert nlp.get_pipe("bcrf_ner").temperature == loaded.temperature
    nlp("a1")
    assert nlp.get_pipe("bcrf_ner").temperature != loaded.temperature


@pytest.mark.parametrize(
    ("n_docs", "low", "high"),
    [(900, 0, 0), (3000, 0.09, 0.11), (15_000, 0.03, 0.051), (100_000, 0.01, 0.021)],
)
def test_share_of_words_that_is_held_out(n_docs, low, high):
    nlp = spacy.blank("xx")
    example = make_examples(nlp, noisy_docs(nlp, 1))[0]
    blocks = Blocks()
    for _ in range(n_docs):
        blocks.add(example, (), is_whole=True)
        blocks.add(example, (), is_whole=False)  # of no block
    share = len(blocks.choose()) / n_docs
    assert low <= share <= high
    assert share * n_docs * N_WORDS <= MOST * 1.05


@pytest.mark.parametrize(("n_docs", "length"), [(400, 50), (20, 1000), (10, 2000)])
def test_a_tenth_of_a_small_corpus_is_held_out_however_long_its_documents_are(n_docs, length):
    nlp = spacy.blank("xx")
    example = make_examples(nlp, [Doc(nlp.vocab, words=["a"] * length)])[0]
    blocks = Blocks()
    for _ in range(n_docs):
        blocks.add(example, (), is_whole=True)
    assert len(blocks.choose()) / n_docs == 0.1


def test_partial_and_rare_annotation_is_learned():
    nlp = spacy.blank("xx")
    examples = make_examples(nlp, noisy_docs(nlp, 1100))
    blocks = Blocks()
    for i, example in enumerate(examples):
        blocks.add(example, {"RARE"} if i in (201, 202) else (), is_whole=i != 200)
    chosen = {id(example) for example in blocks.choose()}
    assert [i for i in range(199, 205) if id(examples[i]) in chosen] == [203, 204]


def test_copies_and_loaded_components_learn_all(trained):
    nlp, examples = trained
    ((name, pipe),) = nlp.pipeline
    assert not copy.deepcopy(pipe._held_out).find(examples)
    loaded = spacy.blank("xx")
    loaded.add_pipe(name)
    loaded.from_bytes(nlp.to_bytes())
    assert not loaded.get_pipe(name)._held_out.find(examples)


def test_all_is_learned_on_request():
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner")
    nlp.config["initialize"]["components"] = {"bcrf_ner": {"hold_out": False}}
    examples = make_examples(nlp, noisy_docs(nlp, 1100))
    nlp.initialize(lambda: examples)
    assert not nlp.get_pipe("bcrf_ner")._held_out.find(examples)


def test_evaluation_measures_the_calibration_error_of_written_probabilities(trained):
    nlp, _ = trained
    ((name, pipe),) = nlp.pipeline
    examples = make_examples(nlp, noisy_docs(nlp, 50, seed=3))
    assert f"{name}_ece" not in nlp.evaluate(examples)
    pipe.annotate = ["confidence"]
    scores = nlp.evaluate(examples)
    docs = list(nlp.pipe([example.predicted.copy() for example in examples]))
    pipe.annotate = []
    bins = defaultdict(list)
    for doc, gold in zip(docs, (eg.reference for eg in examples), strict=True):
        spans = [*doc.ents] if name == "bcrf_ner" else [doc[i : i + 1] for i in range(len(doc))]
        for span in spans:
            p = span._.confidence if name == "bcrf_ner" else span[0]._.tag_confidence
            bounds = [(ent.start, ent.end) for ent in gold.ents]
            is_right = (span.start, span.end) in bounds
            if name == "bcrf_tagger":
                is_right = gold[span.start].tag_ == span[0].tag_
            bins[min(9, int(10 * p))].append(p - is_right)
    n = sum(map(len, bins.values()))
    assert scores[f"{name}_ece"] == pytest.approx(sum(abs(sum(each)) for each in bins.values()) / n)


def test_the_threshold_of_the_decoder_for_f_is_half_of_the_f_that_it_reaches(
    decoded_for_f, tmp_path
):
    nlp, pipe, examples = decoded_for_f
    held_out = [examples[i] for i in pipe._held_out.find(examples)]
    f = nlp.evaluate(make_examples(nlp, [eg.reference for eg in held_out]))["ents_f"]
    assert pipe.threshold == pytest.approx(f / 2, abs=0.02)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path).get_pipe("bcrf_ner")
    assert (loaded.threshold, loaded.decoder) == (pipe.threshold, "f")
    loaded.set_decoder("viterbi")
    assert loaded.threshold == 0


def test_an_assigned_threshold_stays_beside_the_fitted_temperature(decoded_for_f):
    nlp, pipe, _ = decoded_for_f
    pipe.threshold = 0.9
    assert pipe.temperature != 1
    nlp("a1 b2")
    nlp.to_bytes()
    assert pipe.threshold == 0.9


def test_calibrate_fits_the_threshold_of_the_decoder_for_f(decoded_for_f):
    nlp, pipe, _ = decoded_for_f
    new = noisy_docs(nlp, 1000, seed=7)
    pipe.set_decoder("viterbi")
    best = calibrate(nlp, new)
    pipe.set_decoder("f")
    pipe.temperature, pipe.threshold = 5.0, 0.9
    found = calibrate(nlp, new)
    assert (found.temperature, found.n) == (best.temperature, best.n)  # not of few sure spans
    f = nlp.evaluate(make_examples(nlp, new))["ents_f"]
    assert pipe.threshold == pytest.approx(f / 2, abs=0.02)
    assert found.notes == [f"the threshold of the decoder for F is {pipe.threshold}"]
    # Neither prediction nor saving fits it to the held-out documents again.
    nlp.to_bytes()
    assert (pipe.temperature, pipe.calibrated_on[:1]) == (found.temperature, hash_texts(new)[:1])


@pytest.mark.parametrize("kind", ["spans", "chunker", "segmenter", "hybrid"])
def test_every_component_ends_calibrated(kind):
    nlp = spacy.blank("xx")
    docs = noisy_docs(nlp, 1100)
    if kind == "segmenter":
        nlp.tokenizer = registry.tokenizers.get("spacy-bcrf.CharTokenizer.v1")()(nlp)
        model = {**LINEAR_CHAIN, "templates": "segmentation"}
        pipe = nlp.add_pipe("bcrf_segmenter", config={"model": model})
        examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs[:400]]
    else:
        options = {"model": HYBRID} if kind == "hybrid" else {}
        pipe = nlp.add_pipe("bcrf_ner" if kind == "hybrid" else f"bcrf_{kind}", config=options)
        for doc in docs:
            doc.spans["sc"] = doc.spans["chunks"] = list(doc.ents)
        examples = make_examples(nlp, docs)
    nlp.initialize(lambda: examples)
    n = len(pipe._held_out.find(examples))
    assert 0.09 < n / len(examples) < 0.11
    learn(nlp, examples, 1)
    nlp.to_bytes()
    assert pipe.temperature != 1
    assert pipe.calibrated_on
