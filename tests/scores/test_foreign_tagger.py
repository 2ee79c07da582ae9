"""The interface of all sources: checks, failures, and the file that keeps scores."""

import inspect
import pickle
import sqlite3
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
import spacy
from catalogue import REGISTRY
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from spacy_bcrf.scores import foreign_tagger
from spacy_bcrf.scores.foreign_tagger import FailedTextError, ForeignTagger, make_taggers

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
    tagger = ForeignTagger(make_config())
    first, empty = tagger.find([NLP("Ann left 3"), NLP("")])
    assert (first.name, first.labels) == ("caps", ["O", "B-PER"])
    assert first.values.dtype == "float32"
    assert first.values.argmax(axis=1).tolist()[:2] == [1, 0]
    assert first.silent.tolist() == [False, False, True]
    assert np.isfinite(first.values[:2]).all()
    assert empty.values.shape == (0, 2)


def test_a_text_is_scored_once():
    tagger = ForeignTagger(make_config())
    tagger.find([NLP("Ann left")])
    tagger.find([NLP("Ann left"), NLP("Ann left")])
    assert Capitals.n_calls == 1


def test_a_file_keeps_scores(tmp_path):
    path = tmp_path / "scores.sqlite"
    first = ForeignTagger(make_config(cache=str(path)))
    expected = first.find([NLP("Ann left 3")], store=True)[0].values
    read = ForeignTagger(make_config(cache=str(path))).find([NLP("Ann left 3")])[0].values
    assert Capitals.n_calls == 1
    np.testing.assert_array_equal(read, expected)
    # Other tokens, and another model. None of them writes, as in production.
    content = path.read_bytes()
    ForeignTagger(make_config(cache=str(path))).find([Doc(NLP.vocab, ["Ann", "lef", "t", "3"])])
    assert Capitals.n_calls == 2
    other = ForeignTagger(make_config(cache=str(path)))
    other.source.identity = "2"
    other.find([NLP("Ann left 3")])
    assert Capitals.n_calls == 3
    assert path.read_bytes() == content
    path.unlink()
    ForeignTagger(make_config(cache=str(path))).find([NLP("Ann left 3")])
    assert not path.exists()


@pytest.mark.parametrize("damage", ["short", "infinite", "positive", "text", "null"])
def test_a_damaged_row_of_the_file_is_named(tmp_path, damage):
    path = tmp_path / "scores.sqlite"
    tagger = ForeignTagger(make_config(cache=str(path)))
    values = tagger.find([NLP("Ann left")], store=True)[0].values
    data = {
        "short": values[:1].tobytes(),
        "infinite": np.full_like(values, np.inf).tobytes(),
        "positive": np.full_like(values, 0.5).tobytes(),
        "text": "Ann",
        "null": None,
    }[damage]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE scores SET data = ?", [data])
    with pytest.raises(ValueError, match=r"'caps': cache .*scores\.sqlite.*(damaged|no scores)"):
        ForeignTagger(make_config(cache=str(path))).find([NLP("Ann left")])


@pytest.mark.parametrize("architecture", ["LinearChain", "ScoreHead"])
def test_neither_training_nor_prediction_writes_the_file(tmp_path, architecture):
    path = tmp_path / "scores.sqlite"
    model = {
        "@architectures": f"spacy-bcrf.{architecture}.v1",
        "scores": [make_config(cache=str(path))],
    }
    if architecture == "LinearChain":
        model["templates"] = "ner"
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", config={"model": model})
    entities = {"entities": [(0, 3, "PER")]}
    examples = [Example.from_dict(nlp.make_doc("Ann left"), entities)]
    nlp.initialize(lambda: examples)
    nlp.update(examples)
    nlp("Bob left")
    assert not path.exists()


def test_sentence_starts_are_a_part_of_the_key():
    tagger = ForeignTagger(make_config())
    for starts in (None, [True, False], [True, True], [True, False]):
        tagger.find([Doc(NLP.vocab, ["Ann", "left"], sent_starts=starts)])
    assert Capitals.n_calls == 3


def test_threads_share_what_is_kept(monkeypatch):
    monkeypatch.setattr("spacy_bcrf.scores.foreign_tagger.KEPT", 800)
    tagger = ForeignTagger(make_config())
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: tagger.find([NLP.make_doc(f"Ann {i % 97} x")]), range(2000)))
    finally:
        sys.setswitchinterval(before)
    assert tagger._size == sum(values.nbytes for values in tagger._kept.values()) <= 800


def test_the_model_is_loaded_before_the_first_call(monkeypatch):
    loaded = []
    monkeypatch.setattr(Capitals, "load", lambda self: loaded.append(self))
    # As under python -O, which removes assertions.
    code = compile(inspect.getsource(foreign_tagger), foreign_tagger.__file__, "exec", optimize=1)
    names = {"__name__": foreign_tagger.__name__, "__package__": "spacy_bcrf.scores"}
    exec(code, names)
    tagger = names["ForeignTagger"](make_config())
    tagger.find([NLP("Ann")])
    assert len(loaded) == 1


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "scores.sqlite"
    path.write_text("not a database, but a text that is long enough to look like one" * 20)
    with pytest.raises(ValueError, match=r"scores\.sqlite: .*; expected a file"):
        ForeignTagger(make_config(cache=str(path))).find([NLP("Ann")])


def test_a_text_that_fails_is_an_error_and_in_training_silent_and_counted():
    tagger = ForeignTagger(make_config())
    with pytest.warns(UserWarning, match=r"'caps': the source fails for a text: \w+Error") as found:
        good, bad = tagger.find([NLP("Ann"), NLP("a bad text")], strict=False)
    assert "a bad text" not in str(found[0].message)
    assert not good.silent.any() and bad.silent.all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.find([NLP("bad again")], strict=False)
    assert tagger.n_failed == 2
    for text in ("a bad text", "bad again"):  # what was silent before is not kept
        with pytest.raises(FailedTextError, match="'caps': the source fails for a text"):
            tagger.find([NLP("Ann"), NLP(text)])


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
        ForeignTagger(make_config(wrong=wrong)).find([NLP("Ann left")])


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
        ForeignTagger(config)


def test_names_differ():
    with pytest.raises(ValueError, match="names of sources must differ, got caps, caps"):
        make_taggers([make_config(), make_config()])


def test_a_copy_of_a_scorer():
    tagger = pickle.loads(pickle.dumps(ForeignTagger(make_config(labels={"PER": "NAME"}))))
    assert (tagger.labels, tagger.merge.labels) == (["O", "B-PER"], ["O", "B-NAME"])
