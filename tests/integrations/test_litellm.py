"""The guardrail for LiteLLM, with a stand-in for its base class and its chunks."""

import asyncio
import sys
from types import ModuleType, SimpleNamespace

import pytest
import spacy
from spacy.tokens import Doc

from spacy_bcrf.analysis import RedactionStream
from spacy_bcrf.analysis.cross_fitting import train_sparse_chain

PARTS = ["Ann", " L", "ee saw Ro", "me and w", "ill see", " it."]


class CustomGuardrail:
    """LiteLLM's class takes its own options."""

    def __init__(self, guardrail_name=None):
        self.guardrail_name = guardrail_name


def make_chunk(text, finish=None, index=0, calls=None):
    choice = SimpleNamespace(
        index=index,
        delta=SimpleNamespace(content=text, tool_calls=calls),
        finish_reason=finish,
        logprobs={"content": [{"token": text}]},
    )
    return SimpleNamespace(choices=[choice])


async def answer(chunks):
    for chunk in chunks:
        yield chunk


@pytest.fixture
def guardrail(monkeypatch):
    module = ModuleType("litellm.integrations.custom_guardrail")
    module.CustomGuardrail = CustomGuardrail
    for name in ("litellm", "litellm.integrations"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "spacy_bcrf.integrations.litellm", raising=False)
    from spacy_bcrf.integrations.litellm import BCRFGuardrail

    vocab, words = (
        spacy.blank("en").vocab,
        ["Ann", "Lee", "saw", "Rome", "and", "will", "see", "it", "."],
    )
    docs = [Doc(vocab, words=words, ents=["B-PER", "I-PER", "O", "B-LOC", *["O"] * 5])] * 8
    nlp = train_sparse_chain(docs, ["LOC", "PER"], lang="en")
    return BCRFGuardrail(lambda: RedactionStream(nlp, threshold=0.3), guardrail_name="bcrf")


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_streamed_answer(guardrail, is_cut_off):
    chunks = [make_chunk(part) for part in PARTS]
    if not is_cut_off:
        chunks.append(make_chunk(None, "stop"))
    usage = SimpleNamespace(choices=[])  # LiteLLM ends with a chunk without choices

    async def read():
        hook = guardrail.async_post_call_streaming_iterator_hook
        return [chunk async for chunk in hook(None, answer([*chunks, usage]), {})]

    found = asyncio.run(read())
    texts = [choice.delta.content for chunk in found for choice in chunk.choices]
    assert "".join(text or "" for text in texts) == "[PER] saw [LOC] and will see it."
    assert not any(text and "Ann" in text for text in texts)
    assert texts[0] is None  # the name may go on
    assert guardrail.guardrail_name == "bcrf"


def test_choices_that_are_cut_off(guardrail):
    """Each choice keeps its text, calls of tools come once, and no old token is left."""
    chunks = [make_chunk("Ann L"), make_chunk("Ann Lee saw Ro", index=1, calls=["call"])]

    async def read():
        hook = guardrail.async_post_call_streaming_iterator_hook
        return [chunk async for chunk in hook(None, answer(chunks), {})]

    choices = [choice for chunk in asyncio.run(read()) for choice in chunk.choices]
    texts = ["".join(c.delta.content or "" for c in choices if c.index == k) for k in (0, 1)]
    assert all("Ann" not in text for text in texts)
    assert texts[0].startswith("[PER]") and "saw" in texts[1]
    assert [c.delta.tool_calls for c in choices if c.delta.tool_calls] == [["call"]]
    assert all(c.logprobs is None for c in choices)
