"""`spacy-bcrf.ScoreHead.v1` and scores in chains: what they decode without training, and after."""

import json
import pickle
import warnings
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import spacy
from catalogue import REGISTRY
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_model_from_config, registry
from tiny_training import TOK2VEC, optimizer

from bcrf.schemes import read_spans
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.scores.biases import NAMES, spread_biases, write_biases
from spacy_bcrf.training.init import init

SCHEMES = {
    "BIO": ["O", "B-A", "I-A", "B-B", "I-B"],
    "BIES": ["O", "B-A", "I-A", "E-A", "S-A"],
    "plain": ["O", "A", "B"],
}
VALUES: dict[str, np.ndarray] = {}


class Given:
    """Scores from `VALUES`, by the text. Other texts are silent."""

    identity = "given"

    def __init__(self, labels, key=""):
        self.labels, self.key = labels, key

    def load(self):
        pass

    def __call__(self, docs):
        silent = np.full((1, len(self.labels)), np.nan, "float32")
        return [VALUES.get(self.key + doc.text, silent.repeat(len(doc), 0)) for doc in docs]


@pytest.fixture(autouse=True)
def source():
    registry.misc.register("tests.Given.v1", func=Given)
    yield
    VALUES.clear()
    REGISTRY.pop(("spacy", "misc", "tests.Given.v1"))


def make(labels, architecture="ScoreHead", names=("A", "B"), factory="bcrf_ner", **options):
    scores = [{"name": "given", "@misc": "tests.Given.v1", "labels": {}}]
    scores[0] |= {"labels": options.pop("merge", {})}
    scores += options.pop("more", [])
    config = {"@architectures": f"spacy-bcrf.{architecture}.v1", "scores": scores, **options}
    registry.misc.register(
        "tests.Given.v1", func=lambda key="": Given(labels[: len(labels) - 2 * bool(key)], key)
    )
    nlp = spacy.blank("xx")
    ner = nlp.add_pipe(factory, config={"model": config})
    for name in names:
        ner.add_label(name)
    nlp.initialize()
    return nlp


def draw(rng, text, labels):
    logits = rng.normal(0, 2, (len(text.split()), len(labels)))
    values = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    VALUES[text] = values.astype("float32")
    return VALUES[text]


def find_ends(doc):
    return [(e.start, e.end, e.label_) for e in doc.ents]


def is_valid(labels, tags):
    """Return whether labels of a scheme are spans: reading and writing them changes nothing."""
    if not any("-" in label for label in labels):
        return True
    spans = read_spans(tags)
    written = ["O"] * len(tags)
    is_bies = any(label.startswith("E-") for label in labels)
    for start, end, label in spans:
        for i in range(start, end):
            first, last = i == start, i == end - 1
            prefix = "B" if first else "I"
            if is_bies:
                prefix = "S" if first and last else "B" if first else "E" if last else "I"
            written[i] = f"{prefix}-{label}"
    return written == list(tags)


def best_spans(labels, values):
    """Return the spans of the best valid labeling of the source, by enumeration."""
    rows = product(range(len(labels)), repeat=len(values))
    valid = (r for r in rows if is_valid(labels, [labels[i] for i in r]))
    best = max(valid, key=lambda r: sum(float(values[i, k]) for i, k in enumerate(r)))
    tags = [labels[k] for k in best]
    if not any("-" in label for label in labels):
        tags = [t if t == "O" else f"I-{t}" for t in tags]
    return read_spans(tags)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_training_it_decodes_the_best_valid_labeling(scheme):
    labels = SCHEMES[scheme]
    names = ("A",) if scheme == "BIES" else ("A", "B")
    nlp = make(labels, names=names)
    rng = np.random.default_rng(0)
    for i in range(30):
        text = f"{i} x y z w"
        values = draw(rng, text, labels)
        assert find_ends(nlp(text)) == best_spans(labels, values), text


def test_biases_move_the_decoding_as_in_their_file(tmp_path):
    labels = SCHEMES["BIES"]
    path = tmp_path / "viterbi_calibration.json"
    biases = dict(zip(NAMES, (-2, 0.5, 0.7, -0.4, 0.3, -1.5), strict=True))
    tags = ["O", "B-A", "I-A", "L-A", "U-A"]
    write_biases(path, spread_biases(biases, tags), tags)
    nlp = make(labels, names=["A"], biases=str(path))
    transitions = spread_biases(biases, labels)
    rng = np.random.default_rng(1)
    for i in range(30):
        text = f"{i} x y z w"
        values = draw(rng, text, labels)
        rows = product(range(len(labels)), repeat=len(values))
        valid = [r for r in rows if is_valid(labels, [labels[k] for k in r])]
        best = max(
            valid,
            key=lambda r: (
                sum(float(values[i, k]) for i, k in enumerate(r))
                + sum(float(transitions[a, b]) for a, b in pairwise(r))
            ),
        )
        assert find_ends(nlp(text)) == read_spans([labels[k] for k in best]), text


@pytest.mark.parametrize("scheme", ["BIO", "plain"])
@pytest.mark.parametrize("names", [("A",), ("A", "B")])
@pytest.mark.parametrize("architecture", ["ScoreHead", "LinearChain"])
def test_spans_of_scores_without_training(architecture, names, scheme):
    labels, best = SCHEMES[scheme], ["O", "A", "B", "O", "A"]
    options = {"templates": ["w[0]"], "objective": "crf"} if architecture == "LinearChain" else {}
    nlp = make(labels, architecture, names, "bcrf_spans", **options)
    text = "x A B x A"
    VALUES[text] = np.log(np.full((5, len(labels)), 0.02, "float32"))
    for token, name in enumerate(best):
        first = next(k for k, label in enumerate(labels) if label[-1] == name)
        VALUES[text][token, first] = -0.1
    doc = nlp(text)
    found = {(span.start, span.end, span.label_) for span in doc.spans["sc"]}
    assert found == {(i, i + 1, name) for i, name in enumerate(best) if name in names}


@pytest.mark.parametrize("architecture", ["ScoreHead", "LinearChain"])
def test_several_labels_of_one_of_ours_add_up_and_no_more(architecture):
    names = [f"A{i}" for i in range(8)]
    options = {"templates": ["w[0]"], "objective": "crf"} if architecture == "LinearChain" else {}
    merge = dict.fromkeys(names, "A")
    nlp = make(["O", *names], architecture, ["A"], merge=merge, **options)
    rare, frequent = [0.84] + [0.02] * 8, [0.2] + [0.1] * 8
    VALUES["x y"] = np.log(np.array([rare, frequent], dtype="float32"))
    assert find_ends(nlp("x y")) == [(1, 2, "A")]


def test_a_silent_text_has_no_entities():
    assert not make(SCHEMES["BIO"])("nothing is known of it").ents


@pytest.mark.parametrize("n_silent", [0, 1, 3])
def test_a_silent_source_changes_nothing(n_silent):
    labels = SCHEMES["BIO"]
    silent = {"@misc": "tests.Given.v1", "key": "none"}
    nlp = make(labels)
    several = make(labels, more=[{"name": f"s{i}"} | silent for i in range(n_silent)])
    rng = np.random.default_rng(2)
    for i in range(10):
        text = f"{i} x y z w"
        draw(rng, text, labels)
        assert find_ends(several(text)) == find_ends(nlp(text)), text


def test_labels_that_are_none_of_the_tags():
    with pytest.raises(ValueError, match="'given': none of its labels A, B is one of X"):
        make(SCHEMES["BIO"], names=["X"])


ARCHITECTURES = {
    "ScoreHead": {},
    "LinearChain": {"templates": ["w[0]"], "objective": "crf"},
    "Hybrid": {"templates": ["w[0]"], "tok2vec": TOK2VEC, "head": {"@layers": "spacy-bcrf.CRF.v1"}},
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_learning_starts_from_the_source_and_goes_on(architecture, tmp_path):
    text, words = "Ann met Bob", ["Ann", "met", "Bob"]
    p = [[0.1, 0.8, 0.1], [0.9, 0.05, 0.05], [0.25, 0.7, 0.05]]
    VALUES[text] = np.log(np.array(p, dtype="float32"))
    nlp = make(["O", "B-A", "I-A"], architecture, names=["A"], **ARCHITECTURES[architecture])
    assert find_ends(nlp(text)) == [(0, 1, "A"), (2, 3, "A")]
    examples = [Example(nlp.make_doc(text), Doc(nlp.vocab, words=words, ents=["B-A", "O", "O"]))]
    sgd = optimizer()
    for _ in range(60):
        nlp.update(examples, sgd=sgd)
    assert find_ends(nlp(text)) == [(0, 1, "A")]
    # The source and what was learned are in the saved pipeline.
    nlp.to_disk(tmp_path / "model")
    again = spacy.load(tmp_path / "model")
    assert find_ends(again(text)) == [(0, 1, "A")]
    scores = again.config["components"]["bcrf_ner"]["model"]["scores"]
    assert [source["name"] for source in scores] == ["given"]
    copy = load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert find_ends(copy(text)) == [(0, 1, "A")]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_loaded_pipeline_needs_the_labels_that_it_learned_with(architecture, tmp_path):
    merge = {"A": "PER", "B": "PER"}
    options = dict(names=["PER"], merge=merge, **ARCHITECTURES[architecture])
    make(SCHEMES["BIO"], architecture, **options).to_disk(tmp_path / "model")
    spacy.load(tmp_path / "model")("Ann")
    source = {"name": "given", "@misc": "tests.Given.v1"}
    model = {"components": {"bcrf_ner": {"model": {"scores": [source]}}}}
    # An override without the key labels.
    nlp = spacy.load(tmp_path / "model", config=model)
    with pytest.raises(ValueError, match=r"the model learned with the labels O, .*, our PER, but"):
        nlp("Ann")
    source["labels"] = merge
    spacy.load(tmp_path / "model", config=model)("Ann")


@pytest.mark.parametrize("architecture", ["ScoreHead", "LinearChain"])
def test_a_source_without_o_is_named(architecture):
    options = dict(names=["PER"], **ARCHITECTURES[architecture])
    with pytest.warns(
        UserWarning, match=r"'given': no label of the source is O.*\"LABEL_0\": \"O\""
    ):
        make(["LABEL_0", "PER"], architecture, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(["LABEL_0", "PER"], architecture, merge={"LABEL_0": "O"}, **options)
        make(["LABEL_0", "PER"], architecture, factory="bcrf_tagger", **options)


def write_spans(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    span = {"start": 0, "end": 3, "label": "PER", "score": 0.9}
    path.write_text(json.dumps({"text": "Ann left", "spans": [span]}) + "\n")


def test_a_source_moves_with_the_pipeline_or_by_one_override(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_spans(Path("data/spans.jsonl"))
    init(Path("model"), scores="data/spans.jsonl", lang="en")
    assert spacy.load("model")("Ann left").ents[0].label_ == "PER"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(ValueError, match=r"data/spans\.jsonl has moved: it is sought in .*other"):
        spacy.load(tmp_path / "model")("Ann left")
    nlp = spacy.load(
        tmp_path / "model", config={"paths": {"source": str(tmp_path / "data/spans.jsonl")}}
    )
    assert nlp("Ann left").ents[0].label_ == "PER"
    write_spans(tmp_path / "model/data/spans.jsonl")
    nlp = spacy.load(tmp_path / "model")
    assert nlp("Ann left").ents[0].label_ == "PER"
    assert pickle.loads(pickle.dumps(nlp.get_pipe("ner")))(nlp("Ann left")).ents
    assert nlp.config["paths"]["source"] == "data/spans.jsonl"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_streams_name_the_scores(architecture):
    nlp = make(["O", "B-A", "I-A"], architecture, names=["A"], **ARCHITECTURES[architecture])
    with pytest.raises(ValueError, match=r"cannot stream: its scores given are other taggers'"):
        nlp.get_pipe("bcrf_ner").stream()


def test_names_and_templates_of_scores():
    VALUES["Ann left"] = np.log(np.array([[0.2, 0.8], [1 - 1e-6, 1e-6]], dtype="float32"))
    options = {"templates": ["w[0]", "score.given[0]|w[0]"], "objective": "crf"}
    nlp = make(["O", "A"], "LinearChain", names=["A"], **options)
    chain = sparse_chain(nlp.get_pipe("bcrf_ner").model)
    first, second = chain.features.describe(nlp.make_doc("Ann left"))
    assert "score.given[0]|w[0]=A>+1|Ann" in [name.replace("orth", "w") for name in first]
    assert not any("=A>" in name for name in second)
    keys, starts = chain.features.keys([nlp.make_doc("Ann left")])
    assert np.diff(starts).tolist() == [len(first), len(second)]
    (silent,) = chain.features.describe(nlp.make_doc("unknown"))
    assert any("silent" in name for name in silent)
    assert len(keys) == starts[-1]


def test_a_template_of_a_missing_source():
    with pytest.raises(ValueError, match=r"no source in scores 'other'; there are given"):
        make(["O", "A"], "LinearChain", templates=["score.other[0]"])
