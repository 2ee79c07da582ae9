"""Token classifiers in PyTorch and ONNX, with tiny models."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
from tiny_taggers import LABELS, write_bert, write_onnx_model

from spacy_bcrf.scores.token_scores import Scorer

pytest.importorskip("tokenizers", reason="spacy-bcrf[onnx] is not installed")
NLP = spacy.blank("xx")
TEXT = "Ann Smith left Rome ."
EXPECTED = ["B-PER", "I-PER", "O", "B-LOC", "O"]


def onnx(folder: Path, **options) -> Scorer:
    pytest.importorskip("onnxruntime", reason="spacy-bcrf[onnx] is not installed")
    if not folder.exists():
        write_onnx_model(folder)
    return Scorer(
        {"name": "tiny", "@misc": "spacy-bcrf.OnnxScores.v1", "path": str(folder)} | options
    )


def best(scorer: Scorer, text: str) -> list[str]:
    (scores,) = scorer.find([NLP(text)])
    return [LABELS[i] for i in scores.values.argmax(axis=1)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "model"


def test_an_onnx_model(folder):
    assert best(onnx(folder), TEXT) == EXPECTED
    assert onnx(folder).labels == LABELS


def test_the_first_subword_of_a_token_counts_by_default(folder):
    assert best(onnx(folder), "Rome Rome") == ["B-LOC", "B-LOC"]
    assert best(onnx(folder), "rome. Xyz") == ["B-LOC", "O", "O"]


def test_a_long_text_is_read_in_windows_without_a_gap(folder):
    text = " ".join([TEXT] * 5000)
    assert len(text) > 100_000
    (scores,) = onnx(folder, window=32, overlap=8).find([NLP(text)])
    assert not scores.silent.any()
    found = [LABELS[i] for i in scores.values.argmax(axis=1)]
    assert found == EXPECTED * 5000


def test_an_emoji_has_an_opinion_and_whitespace_has_none(folder):
    (scores,) = onnx(folder).find([NLP("Ann 😀  \n 東京 👩🏽‍🚀")])
    words = [token.text for token in NLP("Ann 😀  \n 東京 👩🏽‍🚀")]
    silent = [word for word, mask in zip(words, scores.silent.tolist(), strict=True) if mask]
    assert all(not word.strip() for word in silent)
    assert len(silent) < len(words) - 2


def test_several_models_in_a_folder(folder):
    write_onnx_model(folder)
    (folder / "onnx").mkdir()
    (folder / "onnx" / "q4.onnx").write_bytes((folder / "model.onnx").read_bytes())
    with pytest.raises(ValueError, match=r"one \.onnx file, got model\.onnx, onnx/q4"):
        onnx(folder).source.identity  # noqa: B018
    assert best(onnx(folder, file="onnx/q4.onnx"), TEXT) == EXPECTED


def test_another_model_has_another_identity(folder):
    first = onnx(folder).source.identity
    (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes() + b"\0\0")
    assert onnx(folder).source.identity != first
    assert onnx(folder, pooling="max").source.identity != onnx(folder).source.identity


@pytest.mark.parametrize("function", ["OnnxScores", "HuggingFaceScores"])
def test_a_missing_model_is_named(function, tmp_path):
    path = tmp_path / "gone"
    scorer = Scorer({"name": "pf", "@misc": f"spacy-bcrf.{function}.v1", "path": str(path)})
    with pytest.raises(ValueError, match=r"scores 'pf': .*gone.*no such file"):
        scorer.find([NLP("Ann")])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"pooling": "last"}, "first, mean or max"), ({"overlap": 300}, "from 0 to window / 2")],
)
def test_wrong_options(folder, options, message):
    with pytest.raises(ValueError, match=message):
        onnx(folder, **options)


def test_a_hugging_face_model(folder):
    torch = pytest.importorskip("torch", reason="spacy-bcrf[transformers] is not installed")
    transformers = pytest.importorskip(
        "transformers", reason="spacy-bcrf[transformers] is not installed"
    )
    write_bert(folder)
    function = "spacy-bcrf.HuggingFaceScores.v1"
    scorer = Scorer({"name": "tiny", "@misc": function, "path": str(folder)})
    # Of different lengths, in one call, with a split token.
    texts = [TEXT, "Rome", "ann in roMe to"]
    found = [scores.values for scores in scorer.find([NLP(text) for text in texts])]
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    for text, values in zip(texts, found, strict=True):
        words = text.split()
        encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            p = model(**{k: v for k, v in encoded.items() if k != "token_type_ids"}).logits[0]
        of_words = [encoded.word_ids().index(i) for i in range(len(words))]
        expected = torch.log_softmax(p, dim=1)[of_words].numpy()
        np.testing.assert_allclose(values, expected, atol=1e-5)


def test_a_config_without_labels(folder):
    write_onnx_model(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ValueError, match=r"config\.json: expected two labels or more in id2label"):
        onnx(folder).find([NLP("Ann")])


def test_a_missing_extra_is_named(folder, monkeypatch):
    write_onnx_model(folder)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    config = {"name": "tiny", "@misc": "spacy-bcrf.OnnxScores.v1", "path": str(folder)}
    with pytest.raises(ImportError, match=r"onnxruntime is not installed.*the extra onnx"):
        Scorer(config).find([NLP("Ann")])
