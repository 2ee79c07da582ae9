"""Commands from CoNLL-U to a trained segmenter."""

import json
from io import StringIO
from pathlib import Path

import pytest
import spacy
from spacy_commands import run_spacy, train
from tiny_training import RATE

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = ["我/PRON 喜欢/VERB 绿/ADJ 鸡蛋/NOUN 。/PUNCT", "吃/VERB 蓝色/ADJ 火腿/NOUN 。/PUNCT"]


@pytest.mark.slow
def test_convert_train_evaluate_and_rank(tmp_path):
    lines = []
    for sentence in SENTENCES * 2:
        for i, word in enumerate(sentence.split(), start=1):
            form, upos = word.split("/")
            lines.append("\t".join([str(i), form, "_", upos, *"______"]))
        lines.append("")
    source, corpus = tmp_path / "corpus.conllu", tmp_path / "corpus.spacy"
    source.write_text("\n".join([*lines, ""]), encoding="utf8")
    # Like UD Chinese GSD 1.4, the file has neither a text nor SpaceAfter.
    assert "unknown spaces" not in run_spacy("bcrf", "convert", source, corpus, "--lang", "zh")
    overrides = {f"paths.{name}": str(corpus) for name in ("train", "dev")}
    overrides |= {"training.max_steps": 20, "training.eval_frequency": 10}
    overrides |= {"training.optimizer.learn_rate": RATE, "training.dropout": 0.0}
    log = StringIO()
    # The file does not name the optimizer, so only its filled version takes an override of it.
    run_spacy("init", "fill-config", ROOT / "configs/segmentation.cfg", tmp_path / "full.cfg")
    train(tmp_path / "full.cfg", tmp_path / "out", overrides, log)
    assert "TAGGED_TOK" in log.getvalue()
    model = tmp_path / "out/model-best"
    run_spacy("evaluate", model, corpus, "--output", tmp_path / "scores.json")
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["token_f"] == scores["tagged_token_f"] == 1.0
    doc = spacy.load(model)("我喜欢 火腿。")
    assert [(word.text, word.pos_) for word in doc] == [
        ("我", "PRON"),
        ("喜欢", "VERB"),
        ("火腿", "NOUN"),
        ("。", "PUNCT"),
    ]
    assert doc.text == "我喜欢 火腿。"
    ranked = tmp_path / "ranked.jsonl"
    (tmp_path / "texts.jsonl").write_text('{"text": "我吃"}\n{"text": "喜欢鸡蛋x"}\n')
    run_spacy("bcrf", "rank", model, tmp_path / "texts.jsonl", "--pipe", "segmenter", "-o", ranked)
    assert len(ranked.read_text().splitlines()) == 2
