"""The command `python -m spacy bcrf combine`."""

import numpy as np
import pytest
import spacy
from commands import command
from sentences import make_docs
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from tiny_training import LISTENER, TOK2VEC, network, train

from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.pipeline.platt_scaling import PlattScaling
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.training.combine import Combination, combine

run = command("combine")
SPARSE = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"], "objective": "crf"}


def make_pipeline(path, model, steps=5, wrong=0, factory="bcrf_ner", before=(), **settings):
    nlp = spacy.blank("xx")
    for other, config in before:
        nlp.add_pipe(other, config=config)
    nlp.add_pipe(factory, "ner", config={"model": model, **settings})
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in make_docs(nlp.vocab, wrong=wrong)]
    train(nlp, examples, steps)
    nlp.to_disk(path)
    return nlp


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a sparse pipeline, a neural one with a shared tok2vec, and noise."""
    folder = tmp_path_factory.mktemp("parts")
    make_pipeline(folder / "sparse", SPARSE)
    listening = network("CRF", LISTENER)
    make_pipeline(folder / "neural", listening, 10, before=[("tok2vec", {"model": TOK2VEC})])
    noise = spacy.load(folder / "sparse")
    learner = noise.get_pipe("ner").model.attrs["chain"].learner
    learner.weights = np.random.default_rng(0).permuted(learner.weights) * 10
    noise.to_disk(folder / "noise")
    DocBin(docs=make_docs(spacy.blank("xx").vocab, wrong=3)).to_disk(folder / "dev.spacy")
    return folder


@pytest.fixture
def parts(trained, monkeypatch):
    monkeypatch.chdir(trained)
    return trained


def values(line):
    """Return the numbers of an output line."""
    return [float(word.strip(",")) for word in line.split() if word.strip(",")[-1].isdigit()]


def test_the_result_is_a_pipeline_with_the_summed_potentials(parts):
    result = run("sparse", "neural", "--dev", "dev.spacy", "-o", "both")
    first, header, sparse, neural, total, _ = result.stdout.splitlines()
    assert first == "ner: 36 tokens of dev" and header.endswith("log-likelihood per token")
    (w_sparse, alone_sparse), (w_neural, alone_neural) = values(sparse), values(neural)
    assert values(total)[1] > max(alone_sparse, alone_neural)
    nlp = spacy.load("both")
    assert nlp.pipe_names == ["ner"]
    weights = nlp.config["components"]["ner"]["model"]["weights"]
    assert weights == pytest.approx({"sparse": w_sparse, "neural": w_neural}, abs=1e-4)
    doc = nlp("Ann saw Rome .")
    assert [ent.label_ for ent in doc.ents] == ["PERSON", "LOC"]
    found = nlp.get_pipe("ner").find_potentials([nlp.make_doc(doc.text)])
    alone = [
        other.get_pipe("ner").find_potentials([run_before(other, doc.text)])
        for other in map(spacy.load, ("sparse", "neural"))
    ]
    allowed = np.isfinite(found.unary)
    assert (np.isfinite(alone[0].unary) == allowed).all()
    expected = w_sparse * alone[0].unary[allowed] + w_neural * alone[1].unary[allowed]
    np.testing.assert_allclose(found.unary[allowed], expected, rtol=1e-4, atol=1e-4)


def test_references_between_sections_become_values(parts):
    """As `spacy init config` writes them."""
    path = parts / "neural/config.cfg"
    config = path.read_text()
    referring = config.replace("window_size = 1", "window_size = ${components.tok2vec.model.depth}")
    assert referring != config
    path.write_text(referring)
    run("sparse", "neural", "--dev", "dev.spacy", "-o", "referring")
    path.write_text(config)
    assert [ent.label_ for ent in spacy.load("referring")("Ann saw Rome .").ents]


def run_before(nlp, text):
    with nlp.select_pipes(disable="ner"):
        return nlp(text)


def test_what_was_fitted_to_a_part_goes(parts, tmp_path):
    nlp = spacy.load("sparse")
    pipe = nlp.get_pipe("ner")
    pipe.temperature, pipe.threshold = 2.0, 0.5
    pipe.control = Control("precision", ("LOC", "PERSON"), (0.9, 0.9), 2.0)
    pipe.calibration = PlattScaling("label", ("LOC",), (2.0, 2.0), (0.5, 0.5))
    pipe.calibrated_on = ("0" * 16,)
    nlp.to_disk(tmp_path / "fitted")
    run(tmp_path / "fitted", "neural", "--dev", "dev.spacy", "-o", tmp_path / "both")
    settings = spacy.load(tmp_path / "both").get_pipe("ner").settings_as_json()
    fitted = ("temperature", "threshold", "control", "calibration", "calibrated_on")
    assert [settings[name] for name in fitted] == [1.0, 0.0, None, None, []]


@pytest.mark.parametrize("factory", ["bcrf_tagger", "bcrf_ner", "bcrf_chunker", "bcrf_segmenter"])
def test_every_component_can_be_combined(tmp_path, factory):
    tokenizer = {"tokenizer": {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}}
    for name in "a", "b":
        nlp = spacy.blank("xx", config={"nlp": tokenizer if factory == "bcrf_segmenter" else {}})
        nlp.add_pipe(factory, "pipe", config={"model": SPARSE})
        annotation = {"tags": ["N", "V"], "ents": ["B-PERSON", "O"]}
        doc = Doc(nlp.vocab, words=["Ann", "saw"], spaces=[True, False], **annotation)
        doc.spans["chunks"] = [Span(doc, 0, 1, label="NP")]
        nlp.initialize(lambda nlp=nlp, doc=doc: [Example(nlp.make_doc(doc.text), doc)])
        nlp.to_disk(tmp_path / name)
    DocBin(docs=[doc]).to_disk(tmp_path / "dev.spacy")
    output = tmp_path / "both"
    run(tmp_path / "a", tmp_path / "b", "--dev", tmp_path / "dev.spacy", "-o", output)
    assert spacy.load(output)("Ann saw").text == "Ann saw"


def test_parts_of_other_layers_are_refused():
    pipelines = {}
    for name, spans in (("a", [(0, 1)]), ("b", [(0, 1), (0, 2)])):
        nlp = spacy.blank("xx")
        nlp.add_pipe("bcrf_spans", "pipe", config={"model": SPARSE})
        doc = Doc(nlp.vocab, words=["Ann", "saw"])
        doc.spans["sc"] = [Span(doc, *bounds, label="PER") for bounds in spans]
        nlp.initialize(lambda nlp=nlp, doc=doc: [Example(nlp.make_doc(doc.text), doc)])
        pipelines[name] = nlp
    with pytest.raises(ValueError, match=r"pipe has other tags: .* in a, but .*PER 2.* in b"):
        combine(pipelines, [doc], "pipe")


def test_noise_gets_no_weight():
    words = [f"w{i}" for i in range(1000)]
    rng = np.random.default_rng(0)
    pipes = []
    for is_right in (0.8, 0.5):
        nlp = spacy.blank("xx")
        pipe = nlp.add_pipe("bcrf_tagger", config={"model": SPARSE})
        doc = Doc(nlp.vocab, words=words, tags=["A", "B"] * 500)
        examples = [Example(Doc(nlp.vocab, words=words), doc)]
        nlp.initialize(lambda examples=examples: examples)
        sparse = sparse_chain(pipe.model)
        weights = np.zeros_like(sparse.learner.weights)
        tags = (np.arange(1000) + (rng.random(1000) > is_right)) % 2
        weights[5 + sparse.rows([doc]).rows, tags] = 1
        sparse.learner.weights = weights
        pipes.append(pipe)
    combination = Combination(pipes, examples)
    good, noise = combination.fit()
    # The scale of the best potentials is the logit of 0.8.
    assert good == pytest.approx(np.log(0.8 / 0.2), abs=0.2)
    assert abs(noise) < 0.2
    best = combination.log_likelihood([good, noise])
    assert best >= max(map(combination.log_likelihood, ([1, 0], [0, 1], [good, 0.3], [1, 1])))


def combine_one(scores, words, **gold):
    """Return the combination of one tagger, by its scores of the tags A to D for each word."""
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": SPARSE})
    for label in "ABCD":
        pipe.add_label(label)
    reference = Doc(nlp.vocab, words=words, **gold)
    examples = [Example(Doc(nlp.vocab, words=words), reference)]
    nlp.initialize(lambda: examples)
    sparse = sparse_chain(pipe.model)
    weights = np.zeros_like(sparse.learner.weights)
    weights[7 + sparse.rows([reference]).rows, :4] = scores
    sparse.learner.weights = weights
    return reference, lambda: Combination([pipe], examples)


def test_partial_annotation_gets_weights_where_the_likelihood_is_convex():
    doc, make = combine_one([[0.5, -0.5, 0, 0]], ["w"])
    doc[0]._.allowed_tags = ["A", "B"]
    combination = make()
    (weight,) = combination.fit()
    assert combination.log_likelihood([1.0]) == pytest.approx(-0.635, abs=1e-3)
    assert combination.log_likelihood([weight]) > -0.02


def test_very_large_potentials_get_small_weights():
    scores = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]) * 3e4
    _, make = combine_one(scores, ["v", "w", "x"], tags=["A", "A", "B"])
    combination = make()
    (weight,) = combination.fit()
    # Two of three are right, so p is 2/3, and each of the three others has 1/9.
    assert weight == pytest.approx(np.log(6) / 3e4, rel=1e-3)
    assert combination.log_likelihood([weight]) > combination.log_likelihood([0])


def test_the_likelihood_is_stationary_at_the_weights(parts):
    pipelines = [spacy.load(path) for path in ("sparse", "noise")]
    dev = make_docs(pipelines[0].vocab, wrong=3)
    examples = [Example(pipelines[0].make_doc(doc.text), doc) for doc in dev]
    combination = Combination([nlp.get_pipe("ner") for nlp in pipelines], examples)
    weights = np.array(combination.fit())
    best = combination.log_likelihood(weights)
    for k in range(2):
        for step in (-0.05, 0.05):
            assert combination.log_likelihood(weights + step * np.eye(2)[k]) < best


def test_a_combination_can_be_combined_trained_and_extended(parts, tmp_path):
    run("sparse", "noise", "--dev", "dev.spacy", "-o", tmp_path / "pair")
    run(tmp_path / "pair", "neural", "--dev", "dev.spacy", "-o", tmp_path / "nested")
    nlp = spacy.load(tmp_path / "nested")
    docs = make_docs(nlp.vocab)
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    nlp.resume_training()
    before = nlp.update(examples, losses={})["ner"]
    for _ in range(5):
        after = nlp.update(examples, losses={})["ner"]
    assert after < 0.5 * before
    nlp.get_pipe("ner").add_label("FOOD")
    nlp.to_disk(tmp_path / "more")
    loaded = spacy.load(tmp_path / "more")
    assert [ent.label_ for ent in loaded("Ann saw Rome .").ents] == ["PERSON", "LOC"]


def other_labels(folder):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", "ner", config={"model": SPARSE})
    gold = {"entities": [(0, 3, "FOOD"), (8, 12, "LOC")]}
    train(nlp, [Example.from_dict(nlp.make_doc("Ham saw Rome"), gold)], 1)
    nlp.to_disk(folder)


def other_tokenizer(folder):
    nlp = spacy.load("sparse")
    nlp.tokenizer.add_special_case("saw", [{"ORTH": "s"}, {"ORTH": "aw"}])
    nlp.to_disk(folder)


def other_vectors(folder):
    nlp = spacy.load("sparse")
    nlp.vocab.set_vector("Ann", np.ones(3, "float32"))
    nlp.to_disk(folder)


def other_components(folder):
    nlp = spacy.load("sparse")
    nlp.add_pipe("sentencizer", first=True)
    nlp.to_disk(folder)


def renamed(folder):
    nlp = spacy.load("sparse")
    nlp.rename_pipe("ner", "entities")
    nlp.to_disk(folder)


@pytest.mark.parametrize(
    "make, message",
    [
        (other_labels, "other labels: LOC, PERSON in sparse, but FOOD, LOC in other"),
        (lambda path: make_pipeline(path, SPARSE, 1, scheme="BIO"), "settings of the tags: {'sch"),
        (other_tokenizer, "other tokenizers: spacy.Tokenizer.v1 with rules"),
        (other_vectors, "other vectors: none in sparse, but 1 of width 3 in other"),
        (other_components, "components before it: none in sparse, but sentencizer in other"),
        (renamed, "no enabled component of spacy-bcrf in common: sparse has ner; other has enti"),
        (lambda path: None, "other: the pipeline cannot be loaded"),
    ],
)
def test_pipelines_that_do_not_fit_are_refused(parts, tmp_path, make, message):
    make(tmp_path / "other")
    output = tmp_path / "out"
    args = ("sparse", tmp_path / "other", "--dev", "dev.spacy", "-o", output)
    result = run(*args, exit_code=1)
    assert message in result.output.replace(str(tmp_path) + "/", "")
    assert not output.exists()


@pytest.mark.parametrize(
    "args, message",
    [
        (("sparse", "--dev", "dev.spacy"), "expected at least two pipelines"),
        (("sparse", "neural", "--dev", "nope"), "nope: found no such file"),
        (("sparse", "neural", "--dev", "empty.spacy"), "none of the 1 documents has"),
        (("sparse", "neural", "--dev", "dev.spacy", "-p", "tagger"), "component 'tagger' of spacy"),
    ],
)
def test_wrong_arguments_write_nothing(parts, tmp_path, args, message):
    DocBin(docs=[Doc(spacy.blank("xx").vocab, words=["Ann"])]).to_disk("empty.spacy")
    result = run(*args, "-o", tmp_path / "out", exit_code=1)
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_refused(parts):
    before = sorted(parts.rglob("*"))
    result = run("sparse", "neural", "--dev", "dev.spacy", "-o", "noise", exit_code=1)
    assert "noise: expected a new or empty folder" in result.output
    assert sorted(parts.rglob("*")) == before
