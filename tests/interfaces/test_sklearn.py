"""`bcrf.sklearn.CRF`: sklearn-crfsuite's interface, without spaCy."""

import io
import itertools
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
from bcrf.linear import OnlineSettings
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


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "lbfgs", "linesearch": "StrongBacktracking"},
        {"algorithm": "lbfgs", "all_possible_states": True},
        {"algorithm": "lbfgs", "all_possible_transitions": True},
        {"algorithm": "l2sgd", "calibration_eta": 0.5, "calibration_samples": 5},
        {"algorithm": "ap", "epsilon": 0.5},
    ],
)
def test_arguments_without_effect(options):
    """Nor is one of them an error: old calls work unchanged."""
    X, y = sequences()
    algorithm = options["algorithm"]
    with_it, without = (CRF(**o).fit(X, y) for o in (options, {"algorithm": algorithm}))
    assert with_it.state_features_ == without.state_features_
    assert with_it.transition_features_ == without.transition_features_


@pytest.mark.parametrize("algorithm", [None, "lbfgs", "l2sgd", "ap", "pa"])
def test_it_learns(algorithm):
    X, y = sequences()
    crf = CRF(algorithm).fit(X, y)
    assert crf.score(X, y) == 1
    assert crf.predict(X).tolist() == y
    assert crf.predict_single(X[0]) == y[0]
    assert set(crf.classes_) == set(TAGS)
    assert crf.fit(X, y).predict(X).tolist() == y  # and again


def test_settings_of_the_learner():
    X, y = sequences()
    X = words_of(X)
    weights = [CRF(learner=OnlineSettings("crf", seed=seed)).fit(X, y) for seed in (0, 0, 1)]
    first, same, other = (crf.state_features_ for crf in weights)
    assert first == same != other
    assert CRF(learner=OnlineSettings("sapo", l2=0.1)).fit(X, y).predict(X).tolist() == y
    with pytest.raises(ValueError, match=r"values other than 1 need .* no l1, l2 or decay"):
        CRF(learner=OnlineSettings("crf", l2=1)).fit(*noisy_sequences(values=True))


def words_of(X):
    """The words of sequences as lists of names, features without other values."""
    return [[[f"word={token['word']}"] for token in tokens] for tokens in X]


@pytest.mark.parametrize("algorithm", [None, "ap", "pa"])
@pytest.mark.parametrize("read", [words_of, list])
def test_partial_fit_learns_all_parts(algorithm, read):
    X, y = sequences(60)
    X = read(X) if read is words_of else [[{"word": t["word"], "n": 0.5} for t in x] for x in X]
    crf = CRF(algorithm)
    parts = [slice(k, k + 20) for k in range(0, 60, 20)]
    for part in parts:
        assert crf.partial_fit(X[part], y[part]) is crf
    assert crf.score(X, y) == 1


def test_labels_of_partial_fit_are_given_or_grow():
    X, y = words_of([[{"word": w} for w in "abcdefghij"]]), [list("ABCDEFGHIJ")]
    grown = CRF()
    for k in range(10):  # more labels than a vector has
        grown.partial_fit([X[0][: k + 1]], [y[0][: k + 1]])
    given = CRF().partial_fit([X[0][:2]], [y[0][:2]], classes=["J", "B", *"CDEFGHI"])
    assert grown.classes_ == y[0] and given.classes_ == ["J", "B", *"CDEFGHI", "A"]
    assert grown.predict(X).tolist() == y
    assert set(given.predict_marginals_single(X[0])[0]) == set(y[0])
    spans = CRF(scheme="BIO").partial_fit([X[0][:2]], [[(0, 2, "X")]], classes=["Y"])
    assert spans.classes_ == ["O", "B-Y", "I-Y", "B-X", "I-X"]
    parts, both = [X[0][:2], X[0][2:4]], [[(0, 2, "X")], [(1, 2, "Z")]]
    assert spans.partial_fit(parts, both).predict(parts).tolist() == both


def test_a_saved_model_goes_on_as_the_one_in_memory(tmp_path):
    X, y = sequences(40)
    file = str(tmp_path / "model")
    first = CRF(model_filename=file).partial_fit(X[:20], y[:20])
    pickled, loaded = pickle.loads(pickle.dumps(first)), CRF(model_filename=file)
    loaded.partial_fit(X[20:], y[20:])
    pickled.partial_fit(X[20:], y[20:])
    one = CRF().partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    for other in (loaded, pickled, CRF(model_filename=file)):
        assert other.state_features_ == one.state_features_
        assert other.transition_features_ == one.transition_features_


def test_a_model_of_crfsuite_goes_on(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = sequences(40)
    trainer = pycrfsuite.Trainer(verbose=False)
    for tokens, labels in zip(X[:20], y[:20], strict=True):
        trainer.append(tokens, labels)
    trainer.train(str(tmp_path / "model"))
    crf = CRF(model_filename=str(tmp_path / "model"))
    X, y = [*X, [{"word": "Oslo"}]], [*y, ["B-CITY"]]
    assert crf.partial_fit(X[20:], y[20:]).score(X, y) == 1


def test_partial_fit_refuses_what_it_cannot_do_and_changes_nothing():
    X, y = sequences(20)
    for options in ({"c1": 0.1}, {"algorithm": "l2sgd"}, {"min_freq": 2}):
        with pytest.raises(ValueError, match="partial_fit learns online"):
            CRF(**options).partial_fit(X, y)
    crf = CRF().partial_fit(X, y)
    before = crf.state_features_, crf.classes_
    new = [[{"word": "new"}, {"word": {}}, {"word": object()}]], [["A", "B", "C"]]
    for X_bad, y_bad, classes in (
        (*new, None),
        (X, y[1:], None),
        (X, y, "PER"),
        (X, y, [1]),
        ([[{"word": "new"}]], [[5]], None),
    ):
        with pytest.raises(ValueError, match=r"new|sequences|classes|str|object"):
            crf.partial_fit(X_bad, y_bad, classes)
        assert (crf.state_features_, crf.classes_) == before
    crf.scheme = "BIO"
    with pytest.raises(ValueError, match="no tags of BIO"):
        crf.partial_fit(X, [[(0, 1, "PER")] for _ in X])
    with pytest.raises(ValueError, match="no label to learn"):
        CRF().partial_fit([], [])
    assert CRF().partial_fit([], [], ["A"]).classes_ == ["A"]


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
                assert known == ([attributes.names.index(name)] if name else []), name
        assert set(attributes.names) == set(ways)
        unknown = attributes.read([[{"a": "c"}, {"b": 1}, ["a:c"], {"a": ["c"]}, {"b": 0.5}]])
        assert (unknown.rows < 0).all() and set(attributes.names) == set(ways)


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
        ({"c1": -1}, "c1 must be at least 0, got -1"),
        ({"c2": -1}, "c2 must be at least 0, got -1"),
        ({"c2": "1"}, "c2 must be a number, got '1'"),
        ({"num_memories": 2.5}, "num_memories must be an int of at least 1, got 2.5"),
        ({"num_memories": True}, "num_memories must be a number, got True"),
        ({"algorithm": "l2sgd", "c1": 1}, "c1 is no parameter of algorithm='l2sgd'"),
        ({"algorithm": "pa", "c": 0}, "c must be positive and finite, got 0"),
        ({"learner": "lbfgs"}, "learner must be bcrf.linear.OnlineSettings, got 'lbfgs'"),
        ({"learner": OnlineSettings("bcrf")}, "learner has the objective bcrf"),
        ({"learner": OnlineSettings("crf", order=2)}, "learner has the objective crf and order 2"),
        ({"learner": OnlineSettings(), "c2": 1}, "learner takes the place of c2"),
        ({"learner": OnlineSettings(), "algorithm": "ap"}, "learner takes the place of algorithm"),
    ],
)
def test_an_error_names_the_parameter(parameters, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        CRF(**parameters).fit(*sequences())


def noisy_sequences(values: bool, n: int = 40, longest: int = 4) -> tuple[list, list]:
    """Make sequences whose features hint at their labels, so that no labels are certain."""
    random = np.random.default_rng(1)
    X, y = [], []
    for length in random.integers(1, longest + 1, n):
        tags = random.choice(list("ABC"), length, p=[0.5, 0.3, 0.2]).tolist()
        seen = [tag if random.random() < 0.6 else "ABCD"[random.integers(4)] for tag in tags]
        numbers = random.normal(size=length).round(1) if values else np.ones(length)
        X.append([{f"is {a}": True, "x": x} for a, x in zip(seen, numbers.tolist(), strict=True)])
        y.append(tags)
    return X, y


class Enumeration:
    """The objective of the class's documentation, by all labelings of each sequence."""

    def __init__(self, crf: CRF, X: list, y: list) -> None:
        labels = crf.labels()
        self.n_tags, names = len(labels), crf._model.attributes.names
        self.shape = (self.n_tags + 3 + len(names), self.n_tags)
        self.features = []  # of each sequence: its right labeling, then all
        for sequence, tags in zip(X, y, strict=True):
            tokens = np.zeros((len(sequence), self.shape[0]))
            for row, token in zip(tokens, sequence, strict=True):
                for name, value in token.items():
                    row[self.n_tags + 3 + names.index(name)] = value
            tokens[:, self.n_tags] = tokens[0, self.n_tags + 1] = tokens[-1, self.n_tags + 2] = 1
            gold = [labels.index(tag) for tag in tags]
            labelings = [gold, *itertools.product(range(self.n_tags), repeat=len(gold))]
            self.features.append(np.array([self._sum(tokens, path) for path in labelings]))

    def _sum(self, tokens: np.ndarray, path: Any) -> np.ndarray:
        found = np.zeros(self.shape)
        for row, tag in zip(tokens, path, strict=True):
            found[:, tag] += row
        np.add.at(found, (path[:-1], path[1:]), 1)
        return found.ravel()

    def __call__(self, w: np.ndarray, c1: float, c2: float) -> tuple[float, np.ndarray]:
        """Return the objective and, without c1, its gradient."""
        value, slope = c1 * np.abs(w).sum() + c2 * w @ w, 2 * c2 * w
        for features in self.features:
            scores = features @ w
            logs = scores[1:] - scores[1:].max()
            probabilities = np.exp(logs) / np.exp(logs).sum()
            value += np.log(np.exp(logs).sum()) + scores[1:].max() - scores[0]
            slope += probabilities @ features[1:] - features[0]
        return value, slope

    def minimum(self, c1: float, c2: float) -> float:
        """Return the least objective by SciPy: w = a - b with a, b >= 0 and the L1 term sum(a + b).

        With c1, SciPy's bounds are of use; without, there is one unknown a weight.
        """
        from scipy.optimize import minimize

        n = self.shape[0] * self.shape[1]
        if not c1:
            return minimize(self, np.zeros(n), (0, c2), jac=True, method="L-BFGS-B").fun

        def split(ab: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self(ab[:n] - ab[n:], 0, c2)
            return value + c1 * ab.sum(), np.concatenate([slope + c1, c1 - slope])

        bounds = [(0, None)] * (2 * n)
        return minimize(split, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=bounds).fun


@pytest.mark.parametrize("values", [False, True], ids=["ones", "values"])
def test_the_objective_is_minimal(values):
    """At all strengths of the regularizers, features with values or not."""
    pytest.importorskip("scipy")
    X, y = noisy_sequences(values)
    objective = Enumeration(CRF(max_iterations=1).fit(X, y), X, y)
    for c1, c2 in itertools.product([0, 0.1, 1, 10], repeat=2):
        crf = CRF(algorithm="lbfgs", c1=c1, c2=c2).fit(X, y)
        weights = crf._model.weights[:, : objective.n_tags].ravel().astype("float64")
        found, expected = objective(weights, c1, c2)[0], objective.minimum(c1, c2)
        assert found == pytest.approx(expected, rel=1e-3), (c1, c2)
        if not c1:
            same = CRF(algorithm="l2sgd", c2=c2).fit(X, y)
            assert np.array_equal(same._model.weights, crf._model.weights)
    assert CRF(c1=10).fit(X, y).num_attributes_ < CRF(c1=0.1).fit(X, y).num_attributes_ == 5


def test_one_value_changes_the_regularizer_little():
    X, y = sequences(100)
    other = [[dict(token) for token in sequence] for sequence in X]
    other[0][0]["x"] = 0.5
    norms = [
        sum(w * w for w in CRF(c2=10).fit(some, y).state_features_.values()) for some in (X, other)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=0.02)


def test_an_argument_of_lbfgs_chooses_it():
    X, y = noisy_sequences(False)
    expected = CRF(algorithm="lbfgs", c1=0.5, c2=1.0).fit(X, y)._model.weights
    assert np.array_equal(CRF(c1=0.5).fit(X, y)._model.weights, expected)
    online = CRF().fit(X, y)._model.weights
    assert np.array_equal(CRF(max_iterations=50).fit(X, y)._model.weights, online)


def test_settings_of_lbfgs(capsys):
    X, y = noisy_sequences(False)
    for n in 1, 5:
        CRF(algorithm="lbfgs", max_iterations=n, verbose=True).fit(X, y)
        assert len(capsys.readouterr().out.splitlines()) == n
    CRF(period=2, delta=0.5, verbose=True).fit(X, y)
    assert 2 <= len(capsys.readouterr().out.splitlines()) <= 5
    CRF(epsilon=1e6, verbose=True).fit(X, y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("values", [False, True], ids=["ones", "values"])
@pytest.mark.parametrize("least", [1, 2, 5.5, 12])
def test_min_freq_counts_as_crfsuite(values, least, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = noisy_sequences(values)
    trainer = pycrfsuite.Trainer("lbfgs", {"c2": 0.1, "feature.minfreq": least}, verbose=False)
    for some in zip(X, y, strict=True):
        trainer.append(*some)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    expected = tagger.info()
    crf = CRF(algorithm="lbfgs", c2=0.1, min_freq=least).fit(X, y)
    assert set(crf.state_features_) == set(expected.state_features)
    assert set(crf.transition_features_) == set(expected.transitions)


def test_min_freq_of_online_learning():
    """An attribute stays if it occurs often enough with a label."""
    X = [[["often", "rare"]], [["often"]], [["both"]], [["both"]]]
    crf = CRF(min_freq=2).fit(X, [["A"], ["A"], ["A"], ["B"]])
    assert set(crf.attributes_) == {"often"}
    assert CRF(min_freq=1).fit([[{"a": 0.4}]] * 2, [["A"], ["B"]]).attributes_ == []


def test_verbose_prints_each_pass(capsys):
    X, y = sequences()
    CRF(max_iterations=3, verbose=True).fit(X, y, X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[2].startswith("pass 3: loss ")
    assert lines[2].split()[-1] == f"{CRF(max_iterations=3).fit(X, y).score(X, y):.4f}"


def test_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.utils.validation import check_is_fitted

    X, y = sequences()
    search = GridSearchCV(CRF(max_iterations=3), {"c2": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["c2"] in (0.1, 1.0)
    copy = clone(CRF(c1=0.5, scheme="BIO"))
    assert (copy.c1, copy.scheme, copy.classes_) == (0.5, "BIO", None)
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)
    with pytest.raises(NotFittedError, match="call fit"):
        copy.predict(X)
    check_is_fitted(CRF().fit(X, y))
    half = [[label if i % 2 else None for i, label in enumerate(labels)] for labels in y]
    scores = cross_val_score(CRF(), X, half, cv=3, error_score="raise")
    assert (scores > 0.5).all()


def test_pipeline_of_scikit_learn(tmp_path):
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils.validation import check_is_fitted

    dicts, y = sequences()
    X = [[token["word"] for token in sequence] for sequence in dicts]
    features = FunctionTransformer(lambda X: [[{"w": word} for word in some] for some in X])
    pipeline = make_pipeline(features, CRF())
    with pytest.raises(ValueError, match="not fitted"):
        pipeline.predict(X)
    pipeline.fit(X, y)
    check_is_fitted(pipeline)
    assert pipeline.predict(X).tolist() == y and pipeline.score(X, y) == 1
    assert (cross_val_score(pipeline, X, y, cv=3, error_score="raise") > 0.5).all()
    assert len(cross_val_predict(pipeline, X, y, cv=3)) == len(y)
    grid = {"crf__c2": [1e-3, 1e3]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"crf__c2": 1e-3} and search.predict(X).tolist() == y
    # A file of a model is a fit.
    path = str(tmp_path / "model.crf")
    CRF(model_filename=path).fit([[{"w": word} for word in some] for some in X], y)
    assert make_pipeline(features, CRF(model_filename=path)).predict(X).tolist() == y


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
    "a value too large": ({"c2": 1}, [[{"a": 3e38}]] * 9, [["A"], ["B"], ["B"]] * 3, "scale the"),
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

    assert json.dumps("ключ").encode("utf-32-le")[4:-4] in crf._model.to_bytes()


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
