"""The interface of all sources: checks, failures, and the file that keeps scores."""

import inspect
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from catalogue import REGISTRY
from spacy.tokens import Doc
from spacy.util import registry

from spacy_bcrf.scores import token_scores
from spacy_bcrf.scores.token_scores import Scorer, make_scorers

NLP = spacy.blank("xx")


class Capitals:
    """A source that takes capitals for names. It fails for `bad`, and says nothing of digits."""

    labels = ("O", "B-PER")
    identity = "1"
    n_calls = 0

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def load(self):
        pass

    def __call__(self, docs):
        Capitals.n_calls += 1
        if any(token.text == "bad" for doc in docs for token in doc):
            raise RuntimeError("no such word")
        if self.wrong == "shape":
            return [np.zeros((1, 1))]
        if self.wrong == "sign":
            return [np.ones((len(doc), 2)) for doc in docs]
        if self.wrong == "nan":
            return [np.array([[-1, np.nan]] * len(doc)) for doc in docs]
        return [self.score(doc) for doc in docs]

    def score(self, doc):
        p = [
            [np.nan] * 2 if t.is_digit else [0.1, 0.9] if t.text[0].isupper() else [1, 0]
            for t in doc
        ]
        with np.errstate(divide="ignore"):
            return np.log(np.array(p, dtype="float32").reshape(-1, 2))


@pytest.fixture(autouse=True)
def source():
    registry.misc.register("tests.Capitals.v1", func=Capitals)
    Capitals.n_calls = 0
    yield
    REGISTRY.pop(("spacy", "misc", "tests.Capitals.v1"))


def make_config(**options):
    return {"name": "caps", "@misc": "tests.Capitals.v1", **options}


def test_scores_of_documents():
    scorer = Scorer(make_config())
    first, empty = scorer.find([NLP("Ann left 3"), NLP("")])
    assert (first.name, first.labels) == ("caps", ["O", "B-PER"])
    assert first.values.dtype == "float32"
    assert first.values.argmax(axis=1).tolist()[:2] == [1, 0]
    assert first.silent.tolist() == [False, False, True]
    assert np.isfinite(first.values[:2]).all()
    assert empty.values.shape == (0, 2)


def test_a_text_is_scored_once():
    scorer = Scorer(make_config())
    scorer.find([NLP("Ann left")])
    scorer.find([NLP("Ann left"), NLP("Ann left")])
    assert Capitals.n_calls == 1


def test_a_file_keeps_scores(tmp_path):
    path = tmp_path / "scores.sqlite"
    first = Scorer(make_config(cache=str(path)))
    first.keeps = True
    expected = first.find([NLP("Ann left 3")])[0].values
    read = Scorer(make_config(cache=str(path))).find([NLP("Ann left 3")])[0].values
    assert Capitals.n_calls == 1
    np.testing.assert_array_equal(read, expected)
    # Other tokens, and another model. None of them writes, as in production.
    content = path.read_bytes()
    Scorer(make_config(cache=str(path))).find([Doc(NLP.vocab, ["Ann", "lef", "t", "3"])])
    assert Capitals.n_calls == 2
    other = Scorer(make_config(cache=str(path)))
    other.source.identity = "2"
    other.find([NLP("Ann left 3")])
    assert Capitals.n_calls == 3
    assert path.read_bytes() == content
    path.unlink()
    Scorer(make_config(cache=str(path))).find([NLP("Ann left 3")])
    assert not path.exists()


def test_sentence_starts_are_a_part_of_the_key():
    scorer = Scorer(make_config())
    for starts in (None, [True, False], [True, True], [True, False]):
        scorer.find([Doc(NLP.vocab, ["Ann", "left"], sent_starts=starts)])
    assert Capitals.n_calls == 3


def test_threads_share_what_is_kept(monkeypatch):
    monkeypatch.setattr("spacy_bcrf.scores.token_scores.KEPT", 800)
    scorer = Scorer(make_config())
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: scorer.find([NLP.make_doc(f"Ann {i % 97} x")]), range(2000)))
    finally:
        sys.setswitchinterval(before)
    assert scorer._size == sum(values.nbytes for values in scorer._kept.values()) <= 800


def test_the_model_is_loaded_before_the_first_call(monkeypatch):
    loaded = []
    monkeypatch.setattr(Capitals, "load", lambda self: loaded.append(self))
    # As under python -O, which removes assertions.
    code = compile(inspect.getsource(token_scores), token_scores.__file__, "exec", optimize=1)
    names = {"__name__": token_scores.__name__, "__package__": "spacy_bcrf.scores"}
    exec(code, names)
    scorer = names["Scorer"](make_config())
    scorer.find([NLP("Ann")])
    assert len(loaded) == 1


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "scores.sqlite"
    path.write_text("not a database, but a text that is long enough to look like one" * 20)
    with pytest.raises(ValueError, match=r"scores\.sqlite: .*; expected a file"):
        Scorer(make_config(cache=str(path))).find([NLP("Ann")])


def test_a_text_that_fails_is_silent_named_and_counted():
    scorer = Scorer(make_config())
    with pytest.warns(
        UserWarning, match=r"'caps': the source fails for the text 'a bad text'.*no such"
    ):
        good, bad = scorer.find([NLP("Ann"), NLP("a bad text")])
    assert not good.silent.any()
    assert bad.silent.all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer.find([NLP("bad again")])
    assert scorer.n_failed == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("shape", "expected arrays of tokens"),
        ("sign", "at most 0"),
        ("nan", "needs all log-probabilities, or NaN for all"),
    ],
)
def test_wrong_scores_are_an_error_of_the_source(wrong, message):
    with pytest.raises(ValueError, match=f"'caps': .*{message}"):
        Scorer(make_config(wrong=wrong)).find([NLP("Ann left")])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"@misc": "tests.Capitals.v1"}, "needs the key 'name'"),
        ({"name": "a"}, "needs the key '@misc'"),
        ({"name": "a-b", "@misc": "tests.Capitals.v1"}, "letters, digits and _, got 'a-b'"),
        ({"name": "a", "@misc": "tests.Missing.v1"}, "'a': tests.Missing.v1: "),
        ({"name": "a", "@misc": "tests.Capitals.v1", "size": 3}, "Capitals.v1: got an .*'size'"),
        ({"name": 5, "@misc": "tests.Capitals.v1"}, "letters, digits and _, got 5"),
        ({"name": "a", "@misc": "tests.Capitals.v1", "labels": ["A"]}, "'a': labels must be such"),
        ({"name": "a", "@misc": "tests.Capitals.v1", "labels": {"A": 5}}, "'a': labels must be"),
    ],
)
def test_a_wrong_config(config, message):
    with pytest.raises(ValueError, match=message):
        Scorer(config)


def test_names_differ():
    with pytest.raises(ValueError, match="names of sources must differ, got caps, caps"):
        make_scorers([make_config(), make_config()])


def test_a_copy_of_a_scorer():
    scorer = pickle.loads(pickle.dumps(Scorer(make_config(labels={"PER": "NAME"}))))
    assert (scorer.labels, scorer.merge.labels) == (["O", "B-PER"], ["O", "B-NAME"])
