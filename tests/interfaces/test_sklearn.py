"""`bcrf.sklearn.CRF`: sklearn-crfsuite's interface, without spaCy."""

import io
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcrf.chain import CRF as Chain
from bcrf.chain import Potentials
from bcrf.linear.crfsuite_attributes import Attributes
from bcrf.sklearn import CRF

WORDS = ["Ann", "left", "Rome", ".", "Bob", "saw", "the", "Tate", "Modern", "with", "Ann", "Lee"]
TAGS = ["B-PER", "O", "B-LOC", "O", "B-PER", "O", "O", "B-LOC", "I-LOC", "O", "B-PER", "I-PER"]


def sequences(n: int = 30, seed: int = 0) -> tuple[list, list]:
    """Make sequences of dicts whose words determine most labels."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        start, stop = sorted(random.choice(len(WORDS) + 1, 2, replace=False))
        words = WORDS[start:stop]
        X.append([{"word": word, "upper": word[0].isupper(), "bias": 1.0} for word in words])
        y.append(TAGS[start:stop])
    return X, y


@pytest.mark.parametrize("algorithm", [None, "lbfgs", "l2sgd", "ap", "pa"])
def test_it_learns(algorithm):
    X, y = sequences()
    crf = CRF(algorithm, random_state=1).fit(X, y)
    assert crf.score(X, y) == 1
    assert crf.predict(X).tolist() == y
    assert crf.predict_single(X[0]) == y[0]
    assert set(crf.classes_) == set(TAGS)
    assert crf.fit(X, y).predict(X).tolist() == y  # and again


def test_neither_spacy_nor_torch_is_imported():
    code = (
        "import sys, bcrf.sklearn as ours\n"
        "ours.CRF(max_iterations=2).fit([[['a']]], [['A']]).predict([[['a']]])\n"
        "print([name for name in ('spacy', 'thinc', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from bcrf.sklearn import CRF\n"
        "print(CRF().fit([[['a']]], [['A']]).predict([[['a']]]).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[['A']]"


@pytest.mark.parametrize("algorithm", ["lbfgs", "ap", "pa"])
def test_values_scale_the_weights(algorithm):
    """The sign of a value decides the label, and marginals follow the sum of weights by values."""
    X = [[{"x": value} for value in values] for values in ([2.0, -2.0], [-1.5, 1.0], [3, -3])]
    y = [["up" if token["x"] > 0 else "down" for token in sequence] for sequence in X]
    crf = CRF(algorithm, c2=0.01 if algorithm == "lbfgs" else None).fit(X, y)
    assert crf.predict([[{"x": 0.5}, {"x": -0.5}]]).tolist() == [["up", "down"]]
    weights = crf.state_features_
    if algorithm == "lbfgs":
        p = crf.predict_marginals_single([{"x": 0.5}])[0]["up"]
        q = crf.predict_marginals_single([{"x": 1.5}])[0]["up"]
        slope = np.log(q / (1 - q)) - np.log(p / (1 - p))
        assert slope == pytest.approx(weights["x", "up"] - weights["x", "down"], rel=1e-4)


def test_a_value_of_1_is_the_value_of_a_name():
    X = [[{"a": 1, "b": 0.0, "c": False, "d": {"e": True, "f": "g"}, "h": {"i"}}], [["a"]]]
    crf = CRF().fit(X, [["A"], ["B"]])
    assert set(crf.attributes_) == {"a", "d:e", "d:f:g", "h:i"}
    same = [[["a", "d:e", "d:f:g", "h:i"]], [{"a": True}]]
    expected = [m[0] for m in crf.predict_marginals(X)]
    assert [m[0] for m in crf.predict_marginals(same)] == expected


def test_each_way_to_write_an_attribute_has_its_row():
    """In any order, new or known; names beyond those of CRFsuite's rules do not exist."""
    ways: dict[str, list[Any]] = {
        "a": [["a"], {"a": 1}, {"a": 1.0}, {"a": True}, {"a": np.float64(1)}, [b"a"]],
        "a:b": [["a:b"], {"a": "b"}, {"a:b": True}, {"a": ["b"]}, {"a": {"b": 1}}, {b"a": "b"}],
        "a:b:c": [{"a": "b:c"}, {"a:b": "c"}, {"a:b:c": 1}, {"a": {"b": "c"}}],
        ":": [{"": ""}, [":"]],
    }
    off = [{"a": 0}, {"a": 0.0}, {"a": False}, {"a": np.bool_(0)}, {}, []]
    pairs = [(name, way) for name, some in ways.items() for way in some] + [("", x) for x in off]
    random = np.random.default_rng(0)
    for _ in range(20):
        pairs = [pairs[i] for i in random.permutation(len(pairs))]
        names, tokens = zip(*pairs, strict=True)
        attributes = Attributes()
        for _ in range(2):
            batch = attributes.read([list(tokens)], add=True)
            assert batch.values is None
            rows = np.split(batch.rows, batch.starts[1:-1])
            for name, found in zip(names, rows, strict=True):
                known = found[found >= 0].tolist()
                assert known == ([attributes.rows[name]] if name else []), name
        assert set(attributes.rows) == set(ways)
        unknown = attributes.read([[{"a": "c"}, {"b": 1}, ["a:c"], {"a": ["c"]}, {"b": 0.5}]])
        assert (unknown.rows < 0).all() and set(attributes.rows) == set(ways)


def test_marginals_are_those_of_the_weights():
    X, y = sequences()
    crf = CRF(c2=0.1).fit(X, y)
    labels, (found,) = crf.classes_, crf.predict_marginals(X[:1])
    state, transitions = crf.state_features_, crf.transition_features_
    labeled = {label: i for i, label in enumerate(labels)}
    unary = np.zeros((len(X[0]), len(labels)))
    general = crf._model.weights[len(labels) : len(labels) + 3, : len(labels)]
    unary += general[0]
    unary[0] += general[1]
    unary[-1] += general[2]
    for i, token in enumerate(X[0]):
        for name in (f"word:{token['word']}", "upper" if token["upper"] else "", "bias"):
            for label, k in labeled.items():
                unary[i, k] += state.get((name, label), 0)
    pairs = np.array([[transitions.get((a, b), 0) for b in labels] for a in labels])
    potentials = Potentials(unary, pairs, np.array([len(unary)], "int32"))
    expected = Chain().marginals(potentials).unary
    assert np.allclose([[m[label] for label in labels] for m in found], expected, atol=1e-5)


def test_partial_labels_teach_the_known_ones():
    X, y = sequences(60)
    half = [[label if i % 2 else None for i, label in enumerate(labels)] for labels in y]
    crf = CRF().fit(X, half)
    assert crf.score(X, half) == 1 and crf.score(X, y) > 0.9
    values = [[{**token, "x": 0.5} for token in sequence] for sequence in X]
    assert CRF().fit(values, half).score(values, half) == 1


@pytest.mark.parametrize("scheme", ["BIO", "BILUO"])
def test_spans(scheme):
    spans = [[(0, 1, "PER")], [], [(3, 5, "LOC"), (0, 2, "PER")]]
    X = [
        [[word] for word in text.split()]
        for text in ("Ann left", "He left", "Ann Lee saw Tate Modern")
    ]
    crf = CRF(scheme=scheme).fit(X, spans)
    assert crf.predict_single(X[2]) == [(0, 2, "PER"), (3, 5, "LOC")]
    assert crf.predict_single(X[1]) == []
    assert crf.score(X, spans) == 1
    with pytest.raises(ValueError, match=r"y\[0\]: span .* is empty or outside"):
        crf.fit(X, [[(0, 3, "PER")], [], []])


def test_spans_stay_tuples_if_all_sequences_have_one():
    X, y = [[["a"], ["b"]], [["b"], ["a"]]], [[(0, 1, "X")], [(1, 2, "X")]]
    assert CRF(scheme="BIO").fit(X, y).predict(X).tolist() == y


@pytest.mark.parametrize("method", ["predict", "predict_single", "fit"])
def test_a_document_says_which_function_makes_tokens(method):
    class Doc(list):
        vocab: Any = None

    crf = CRF().fit([[["a"]]], [["A"]])
    doc = Doc([["a"]])
    arguments = {"predict": ([doc],), "predict_single": (doc,), "fit": ([doc], [["A"]])}[method]
    with pytest.raises(ValueError, match=r"X\[0\].* got spaCy's Doc; .*crfsuite_tokens\(docs\)"):
        getattr(crf, method)(*arguments)


def test_pickle_and_model_file(tmp_path):
    X, y = sequences()
    path = str(tmp_path / "model.crf")
    crf = CRF(model_filename=path).fit(X, y)
    expected = crf.predict_marginals(X)[0]
    for copy in (pickle.loads(pickle.dumps(crf)), CRF(model_filename=path)):
        assert copy.predict_marginals(X)[0] == expected
    names = json.dumps({"labels": ["A"], "attributes": []})
    damaged = [b"PK no model", b"text", pickle.dumps([1]), as_npz(names="[1]", weights=np.zeros(1))]
    damaged += [as_npz(names=names, weights=w) for w in (np.zeros(4), np.array([[None] * 8] * 4))]
    # A version of ZIP that does not exist.
    damaged.append(re.sub(rb"(?s)(PK\x01\x02..).", b"\\1\xff", Path(path).read_bytes()))
    for content in damaged:
        Path(path).write_bytes(content)
        message = "no model of ours or of CRFsuite, or damaged; expected a file of `fit`"
        with pytest.raises(ValueError, match=rf"model\.crf: {message}$"):
            CRF(model_filename=path).predict(X)


def as_npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"c1": -1}, "c1 must be at least 0 and finite, got -1"),
        ({"c2": -1}, "2 [*] c2 must be at least 0 and finite, got -2"),
        ({"c2": 1e9}, "2 [*] c2 must be less than n_sequences"),
        ({"algorithm": "pa", "c": 0}, "c must be positive and finite, got 0"),
        ({"random_state": -1}, "random_state must be at least 0"),
    ],
)
def test_an_error_names_the_parameter(parameters, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        CRF(**parameters).fit(*sequences())


def test_min_freq_drops_rare_attributes():
    X = [[["often", "rare"]], [["often"]]]
    assert set(CRF(min_freq=2).fit(X, [["A"], ["B"]]).attributes_) == {"often"}


def test_verbose_prints_each_pass(capsys):
    X, y = sequences()
    CRF(max_iterations=3, verbose=True).fit(X, y, X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[2].startswith("pass 3: loss ")
    assert lines[2].split()[-1] == f"{CRF(max_iterations=3).fit(X, y).score(X, y):.4f}"


def test_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    X, y = sequences()
    search = GridSearchCV(CRF(max_iterations=3), {"c2": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["c2"] in (0.1, 1.0)
    copy = clone(CRF(c1=0.5, scheme="BIO"))
    assert (copy.c1, copy.scheme, copy.classes_) == (0.5, "BIO", None)


BAD = {
    "no sequences": ({}, [], [], "there is no label to learn"),
    "other lengths": ({}, [[["a"]]], [], "X has 1 sequences, y has 0"),
    "a label too many": ({}, [[["a"]]], [["A", "B"]], "sequence 0: X has 1 tokens, y has 2"),
    "a str as X": ({}, "text", [["A"]], "X: expected a list of sequences, got 'text'"),
    "a str as sequence": ({}, ["ab"], [["A"]], "sequence 0: expected a list of tokens"),
    "a str as token": ({}, [["ab"]], [["A"]], "sequence 0, token 0: expected a dict or a list"),
    "a number": ({}, [[["a"], 3]], [["A", "B"]], "sequence 0, token 1: expected a dict"),
    "a dict in a list": ({}, [[[{"a": 1}]]], [["A"]], "token 0: attribute .* is not a str"),
    "nan": ({}, [[{"a": float("nan")}]], [["A"]], "attribute 'a' has the value nan"),
    "none": (
        {},
        [[["b"], {"a": None}]],
        [["A", "B"]],
        "token 1: attribute 'a' has the value None",
    ),
    "no label": ({}, [[["a"]]], [[None]], "there is no label to learn"),
    "a number as label": ({}, [[["a"]]], [[1]], r"y\[0\]\[0\]: expected a str or None, got 1"),
    "a str as labels": ({}, [[["a"]]], ["A"], r"y\[0\]: expected a list of labels"),
    "arow": (
        {"algorithm": "arow"},
        [[["a"]]],
        [["A"]],
        "'arow' has no counterpart; use one of lb",
    ),
    "c1 of ap": ({"algorithm": "ap", "c1": 1}, [[["a"]]], [["A"]], "c1 is no parameter of .*'ap'"),
    "PA-II": (
        {"algorithm": "pa", "pa_type": 2},
        [[["a"]]],
        [["A"]],
        "pa_type=2 has no counterpart",
    ),
    "trainer": ({"trainer_cls": int}, [[["a"]]], [["A"]], "trainer_cls=.* has no counterpart"),
    "passes": ({"max_iterations": 0}, [[["a"]]], [["A"]], "max_iterations must be at least 1"),
    "c1 of values": ({"c1": 1.0}, [[{"a": 2}]], [["A"]], "c1=1.0 needs features with the value 1"),
}


@pytest.mark.parametrize("case", BAD, ids=lambda case: case)
def test_bad_input(case):
    options, X, y, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        CRF(**options).fit(X, y)


def test_bad_input_of_predictions():
    with pytest.raises(ValueError, match="not fitted"):
        CRF().predict([[["a"]]])
    crf = CRF().fit([[["a"]]], [["A"]])
    assert crf.score([[["a"], ["b"]]], [["A", "unseen"]]) == 0.5
    assert crf.predict([]).tolist() == [] and crf.predict([[]]).tolist() == [[]]
    assert crf.predict([[["unknown"], {"a": "unknown"}]]).tolist() == [["A", "A"]]
    with pytest.raises(ValueError, match="no labeled token to score"):
        crf.score([[["a"]]], [[None]])
    with pytest.raises(ValueError, match="sequence 1, token 0: attribute 'a'"):
        crf.predict([[["a"]], [{"a": float("inf")}]])


def test_features_of_many_sequences_are_named_by_their_place():
    X = [[["a"]]] * 450
    X[449] = [["a"], {"b": object()}]
    with pytest.raises(ValueError, match="sequence 449, token 1: attribute 'b'"):
        CRF().fit(X, [["A"]] * 449 + [["A", "B"]])


def test_names_survive_json():
    """A model file has its names as JSON, so it is no pickle."""
    crf = CRF().fit([[["ключ", 'a"\\']]], [["好"]])
    from bcrf.sklearn import _to_bytes

    assert json.dumps("ключ").encode("utf-32-le")[4:-4] in _to_bytes(crf._model)


CHECKS = [
    *("check_no_attributes_set_in_init", "check_parameters_default_constructible"),
    *("check_get_params_invariance", "check_set_params", "check_estimator_cloneable"),
    *("check_do_not_raise_errors_in_init_or_set_params", "check_estimator_repr"),
    *("check_mixin_order", "check_valid_tag_types"),
]
"""The checks of scikit-learn's `check_estimator` that pass no arrays of numbers as X."""


@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn(name):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    check = getattr(checks, name, None)
    if check is None:
        pytest.skip(f"this scikit-learn has no {name}")
    check("CRF", CRF())
