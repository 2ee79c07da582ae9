"""`spacy bcrf migrate` of CRFsuite's model files."""

from pathlib import Path
from struct import pack_into

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from typer.testing import CliRunner

from bcrf.linear.crfsuite_model import read_crfsuite_model
from bcrf.sklearn import CRF
from spacy_bcrf.cli import app
from spacy_bcrf.corpora.formats.crfsuite import set_features

pycrfsuite = pytest.importorskip("pycrfsuite")

TEXTS = [
    ("Ann left Rome .", "B-PER O B-LOC O"),
    ("Bob saw the Tate Modern in Paris", "B-PER O O B-LOC I-LOC O B-LOC"),
    ("солнце не светит", "O O O"),
]


def features(words: list[str]) -> list[dict]:
    return [
        {"w": word, "end": word[-2:], "length": len(word) / 4, "before": words[i - 1] if i else "<"}
        for i, word in enumerate(words)
    ]


@pytest.fixture(scope="module", params=[False, True], ids=["names", "values"])
def model(request, tmp_path_factory) -> tuple[str, list]:
    """A model file of python-crfsuite, and sequences with or without real values."""
    X = [features(text.split()) for text, _ in TEXTS]
    if not request.param:
        X = [pycrfsuite.ItemSequence(x).items() for x in X]
        X = [[[name for name in token if name != "length"] for token in x] for x in X]
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set("feature.possible_transitions", True)
    for x, (_, tags) in zip(X, TEXTS, strict=True):
        trainer.append(x, tags.split())
    path = str(tmp_path_factory.mktemp("crf") / "model.crfsuite")
    trainer.train(path)
    return path, X


def theirs(path: str, X: list) -> tuple[list, list]:
    with pycrfsuite.Tagger().open(path) as tagger:
        tags = [tagger.tag(x) for x in X]
        marginals = []
        for x in X:
            tagger.set(x)
            marginals += [[tagger.marginal(n, i) for n in tagger.labels()] for i in range(len(x))]
    return tags, marginals


def test_the_module_has_equal_labelings_and_marginals(model):
    path, X = model
    crf = CRF(model_filename=path)
    tags, marginals = theirs(path, X)
    assert crf.predict(X).tolist() == tags
    found = [list(token.values()) for sequence in crf.predict_marginals(X) for token in sequence]
    assert np.allclose(found, marginals, rtol=0, atol=1e-12)
    with pycrfsuite.Tagger().open(path) as tagger:
        info = tagger.info()
        assert crf.classes_ == tagger.labels()
    for ours, other in (
        (crf.transition_features_, info.transitions),
        (crf.state_features_, info.state_features),
    ):
        assert ours == pytest.approx({key: w for key, w in other.items() if w}, abs=1e-6)


def test_the_pipeline_has_equal_labelings_and_marginals(model, tmp_path):
    path, X = model
    result = CliRunner().invoke(app, ["migrate", path, "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "Values other than 1 have no counterpart" in " ".join(result.output.split())
    if isinstance(X[0][0], dict):
        return
    nlp = spacy.load(tmp_path / "out")
    docs = [
        set_features(Doc(nlp.vocab, words=text.split()), x)
        for (text, _), x in zip(TEXTS, X, strict=True)
    ]
    docs = list(nlp.pipe(docs))
    tags, marginals = theirs(path, X)
    assert [[token.tag_ for token in doc] for doc in docs] == tags
    tagger = nlp.get_pipe("bcrf_tagger")
    order = [CRF(model_filename=path).classes_.index(label) for label in tagger.labels]
    found = np.concatenate(tagger.token_marginals(docs))
    assert np.allclose(found, np.array(marginals)[:, order], rtol=0, atol=1e-6)


def test_damaged_files_are_errors(model, tmp_path):
    data = bytearray(Path(model[0]).read_bytes())
    path = tmp_path / "bad.crfsuite"
    for change, message in {
        b"lCRFfoo" * 9: "damaged CRFsuite model: kind",
        b"PK": "not a CRFsuite model",
        bytes(data[:-9]): "bytes by its header",
        b"lCRF": "damaged CRFsuite model",
    }.items():
        path.write_bytes(change)
        with pytest.raises(ValueError, match=rf"bad\.crfsuite: .*{message}"):
            read_crfsuite_model(path)
    output = tmp_path / "out"
    result = CliRunner().invoke(app, ["migrate", str(path), "-o", str(output)])
    assert result.exit_code == 1 and "bad.crfsuite" in result.output and not output.exists()


def test_no_damage_is_a_crash(model, tmp_path):
    """Whatever number is wrong in the file, the answer is a model or a ValueError."""
    original = Path(model[0]).read_bytes()
    path = tmp_path / "bad.crfsuite"
    random = np.random.default_rng(0)
    n_errors = 0
    for at in [*range(12, 48, 4), *random.integers(48, len(original) - 4, 60).tolist()]:
        for value in (0, 1, 2**31 - 1, 2**32 - 1):
            data = bytearray(original)
            pack_into("<I", data, at, value)
            path.write_bytes(data)
            try:
                read_crfsuite_model(path)
            except ValueError:
                n_errors += 1
    assert n_errors > 20
