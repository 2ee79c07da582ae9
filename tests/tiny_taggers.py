"""Foreign token classifiers made on the spot: no test reads a network."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
WORDS = ["ann", "smith", "left", "rome", "in", "to", "##me", "ro", ".", "a"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LABEL_OF = {"ann": "B-PER", "smith": "I-PER", "rome": "B-LOC", "ro": "B-LOC", "##me": "I-LOC"}


def write_tokenizer(folder: Path, max_positions: int = 64) -> list[str]:
    """Write tokenizer.json and config.json of a small BERT. RETURNS the sub-words by id."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    folder.mkdir(parents=True, exist_ok=True)
    vocab = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": "bert",
        "id2label": {str(i): label for i, label in enumerate(LABELS)},
        "label2id": {label: i for i, label in enumerate(LABELS)},
        "max_position_embeddings": max_positions,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return list(vocab)


def write_onnx_model(folder: Path, max_positions: int = 64) -> None:
    """Write a model whose logits are a table by sub-word: it reads no context."""
    subwords = write_tokenizer(folder, max_positions)
    table = np.zeros((len(subwords), len(LABELS)), dtype="float32")
    for i, word in enumerate(subwords):
        table[i, LABELS.index(LABEL_OF.get(word, "O"))] = 5
    (folder / "model.onnx").write_bytes(_gather_model(table))


def write_bert(folder: Path) -> None:
    """Write a random small BERT, as `save_pretrained` does."""
    import torch
    from transformers import BertConfig, BertForTokenClassification

    subwords = write_tokenizer(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(subwords),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
    )
    BertForTokenClassification(config).save_pretrained(folder)


def _gather_model(table: NDArray[np.float32]) -> bytes:
    """Return an ONNX model of one node: logits = table[input_ids]. It needs no onnx."""
    weights = b"".join(_number(1, n) for n in table.shape)
    weights += _number(2, 1) + _bytes(8, b"table") + _bytes(9, table.tobytes())
    node = _bytes(1, b"table") + _bytes(1, b"input_ids") + _bytes(2, b"logits")
    node += _bytes(4, b"Gather")
    graph = _bytes(1, node) + _bytes(2, b"tiny") + _bytes(5, weights)
    graph += _bytes(11, _value(b"input_ids", 7, [b"b", b"s"]))
    graph += _bytes(12, _value(b"logits", 1, [b"b", b"s", b"l"]))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _number(2, 13))


def _value(name: bytes, kind: int, dims: list[bytes]) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, dim)) for dim in dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data
