"""Token classifiers in PyTorch and ONNX, with tiny models."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
from tiny_taggers import LABELS, write_bert, write_onnx_model

from spacy_bcrf.scores.foreign_tagger import ForeignTagger

pytest.importorskip("tokenizers", reason="spacy-bcrf[onnx] is not installed")
NLP = spacy.blank("xx")
TEXT = "Ann Smith left Rome ."
EXPECTED = ["B-PER", "I-PER", "O", "B-LOC", "O"]


def onnx(folder: Path, **options) -> ForeignTagger:
    pytest.importorskip("onnxruntime", reason="spacy-bcrf[onnx] is not installed")
    if not folder.exists():
        write_onnx_model(folder)
    return ForeignTagger(
        {"name": "tiny", "@misc": "spacy-bcrf.OnnxScores.v1", "path": str(folder)} | options
    )


def best(tagger: ForeignTagger, text: str) -> list[str]:
    (scores,) = tagger.find([NLP(text)])
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


@pytest.mark.parametrize("name", ["model.onnx.data", "weights.bin", "parts/w0"])
def test_all_files_that_the_model_names_are_a_part_of_its_identity(folder, name):
    write_onnx_model(folder)
    (folder / "parts").mkdir()
    content = (folder / "model.onnx").read_bytes()
    # A comment in the model stands for the location of a tensor.
    (folder / "model.onnx").write_bytes(content + _comment(name))
    before = onnx(folder).source.identity
    (folder / "unrelated").write_bytes(b"1")
    (folder / name).write_bytes(b"1")
    first = onnx(folder).source.identity
    (folder / name).write_bytes(b"2")
    (folder / "unrelated").write_bytes(b"2")
    assert len({before, first, onnx(folder).source.identity}) == 3
    (folder / name).write_bytes(b"1")
    assert onnx(folder).source.identity == first


def _comment(text: str) -> bytes:
    """Return the field doc_string of an ONNX model."""
    return b"\x32" + bytes([len(text)]) + text.encode()


@pytest.mark.parametrize("function", ["OnnxScores", "HuggingFaceScores"])
def test_a_missing_model_is_named(function, tmp_path):
    path = tmp_path / "gone"
    tagger = ForeignTagger({"name": "pf", "@misc": f"spacy-bcrf.{function}.v1", "path": str(path)})
    with pytest.raises(ValueError, match=r"scores 'pf': .*gone.*no such file"):
        tagger.find([NLP("Ann")])


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
    tagger = ForeignTagger({"name": "tiny", "@misc": function, "path": str(folder)})
    # Of different lengths, in one call, with a split token.
    texts = [TEXT, "Rome", "ann in roMe to"]
    found = [scores.values for scores in tagger.find([NLP(text) for text in texts])]
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


@pytest.mark.parametrize(
    "labels",
    [{"0": "O", "2": "PER"}, {"0": "O", "1": None}, {"0": "O", "1": 3}, {"0": "O", "x": "P"}],
)
def test_odd_labels_are_named(folder, labels):
    write_onnx_model(folder)
    (folder / "config.json").write_text(json.dumps({"id2label": labels}))
    with pytest.raises(ValueError, match=r"config\.json: id2label has .* for the label 1 of 2"):
        onnx(folder).find([NLP("Ann")])


@pytest.mark.parametrize("name", ["tokenizer.json", "model.onnx"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00"])
def test_a_damaged_file_is_named(folder, name, content):
    write_onnx_model(folder)
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"scores 'tiny': .*{name}: cannot be read"):
        onnx(folder).find([NLP("Ann")])


def test_positions_that_are_no_number_are_named(folder):
    write_onnx_model(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": "x"}))
    with pytest.raises(ValueError, match=r"config\.json: .*max_position_embeddings"):
        onnx(folder).find([NLP("Ann")])


def test_another_number_of_labels_than_the_model_is_an_error(folder):
    write_onnx_model(folder)
    (folder / "config.json").write_text(json.dumps({"id2label": {"0": "O", "1": "PER"}}))
    with pytest.raises(ValueError, match=r"logits of the shape .* has 2 labels"):
        onnx(folder).find([NLP("Ann")])


def hugging_face(folder: Path) -> ForeignTagger:
    pytest.importorskip("transformers", reason="spacy-bcrf[transformers] is not installed")
    function = "spacy-bcrf.HuggingFaceScores.v1"
    return ForeignTagger({"name": "hf", "@misc": function, "path": str(folder)})


def test_the_code_of_a_folder_never_runs(folder, monkeypatch):
    tagger, ran = hugging_face(folder), folder / "ran"
    write_bert(folder)
    code = {"AutoConfig": "code.C", "AutoModelForTokenClassification": "code.M"}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"model_type": "unheard", "auto_map": code})
    )
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w')")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(ValueError, match="Python code of its folder, which is never run"):
        tagger.find([NLP("Ann")])
    assert not ran.exists()


def test_pickled_weights_are_not_read(folder):
    tagger = hugging_face(folder)
    write_bert(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"has no \*\.safetensors, but pytorch_model\.bin; expected"
    ):
        tagger.find([NLP("Ann")])


def test_missing_weights_are_an_error(folder):
    tagger = hugging_face(folder)
    write_bert(folder)
    from safetensors.numpy import load_file, save_file

    file = folder / "model.safetensors"
    weights = {k: v for k, v in load_file(file).items() if not k.startswith("classifier")}
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"the weights lack classifier\.bias, classifier\.weight"):
        tagger.find([NLP("Ann")])
    file.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"scores 'hf': .*model: cannot be read"):
        hugging_face(folder).find([NLP("Ann")])


def test_a_missing_extra_is_named(folder, monkeypatch):
    write_onnx_model(folder)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    config = {"name": "tiny", "@misc": "spacy-bcrf.OnnxScores.v1", "path": str(folder)}
    with pytest.raises(ImportError, match=r"onnxruntime is not installed.*the extra onnx"):
        ForeignTagger(config).find([NLP("Ann")])
