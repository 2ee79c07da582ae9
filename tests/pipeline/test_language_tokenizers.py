"""Components over tokenizers of other libraries: Chinese, Japanese and Vietnamese."""

import pytest
import spacy
from spacy.training import Example

CHINESE = {"@tokenizers": "spacy.zh.ChineseTokenizer", "segmenter": "jieba"}
CASES = [
    ("zh", "jieba", {"nlp": {"tokenizer": CHINESE}}, ["王小明住在北京", "北京在中国"], "北京"),
    ("ja", "sudachipy", {}, ["田中さんは東京に住む", "東京は大きい"], "東京"),
    ("vi", "pyvi", {}, ["Lan sống ở Huế", "Huế rất đẹp"], "Huế"),
]


@pytest.mark.parametrize(("lang", "library", "config", "texts", "place"), CASES)
def test_a_pipeline_learns_and_predicts_on_the_tokens_of_a_language(
    lang, library, config, texts, place, tmp_path
):
    pytest.importorskip(library, reason="needs the extra tokenizers-test")
    nlp = spacy.blank(lang, config=config)
    nlp.add_pipe("bcrf_ner")
    examples = []
    for text in texts:
        start = text.index(place)
        entities = [(start, start + len(place), "LOC")]
        examples.append(Example.from_dict(nlp.make_doc(text), {"entities": entities}))
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(20):
        nlp.update(examples, sgd=optimizer)
    nlp.to_disk(tmp_path)
    found = [[(ent.text, ent.label_) for ent in doc.ents] for doc in nlp.pipe(texts)]
    assert found == [[(place, "LOC")]] * len(texts)
    loaded = spacy.load(tmp_path)
    again = loaded.pipe(texts, n_process=2)
    assert [[(ent.text, ent.label_) for ent in doc.ents] for doc in again] == found
    assert [doc.text for doc in loaded.pipe(texts)] == texts
