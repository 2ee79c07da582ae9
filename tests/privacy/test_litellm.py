"""The guardrail for LiteLLM, with a stand-in for its base class and its chunks."""

import asyncio
import json
import sys
from copy import deepcopy
from types import ModuleType, SimpleNamespace

import pytest
import spacy
from spacy.tokens import Doc

from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.privacy.redact import Redactor
from spacy_bcrf.privacy.redact_stream import RedactionStream
from spacy_bcrf.privacy.replacer import Replacer

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


def make_calls(arguments):
    function = SimpleNamespace(name="look_up", arguments=arguments)
    return [SimpleNamespace(index=0, id="1", function=function)]


async def answer(chunks):
    for chunk in chunks:
        yield chunk


@pytest.fixture
def nlp():
    vocab = spacy.blank("en").vocab
    words = ["Ann", "Lee", "saw", "Rome", "and", "will", "see", "it", "."]
    docs = [Doc(vocab, words=words, ents=["B-PER", "I-PER", "O", "B-LOC", *["O"] * 5])] * 8
    return train_sparse_chain(docs, ["LOC", "PER"], lang="en")


@pytest.fixture
def guardrail(monkeypatch, nlp):
    module = ModuleType("litellm.integrations.custom_guardrail")
    module.CustomGuardrail = CustomGuardrail
    for name in ("litellm", "litellm.integrations"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "spacy_bcrf.privacy.litellm", raising=False)
    from spacy_bcrf.privacy.litellm import BCRFGuardrail

    return BCRFGuardrail(lambda: RedactionStream(nlp, threshold=0.3), guardrail_name="bcrf")


def test_each_class_has_its_own_hooks(guardrail):
    """A proxy of LiteLLM calls a hook only if `vars(type(callback))` has it."""
    from spacy_bcrf.privacy.litellm import BCRFGuardrail, BCRFRoundTrip

    answers = {"async_post_call_success_hook", "async_post_call_streaming_iterator_hook"}
    for each in (BCRFGuardrail, type("Own", (BCRFGuardrail,), {})):
        assert answers <= vars(each).keys() and "async_pre_call_hook" not in vars(each)
    for each in (BCRFRoundTrip, type("Own", (BCRFRoundTrip,), {})):
        assert answers | {"async_pre_call_hook"} <= vars(each).keys()


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
    calls = [make_calls(part) for part in ('{"x": "Ann ', 'Lee \\" saw Rome"}')]
    chunks = [make_chunk("Ann L"), make_chunk("Ann Lee saw Ro", index=1, calls=calls[0])]
    chunks.append(make_chunk(None, index=1, calls=calls[1]))

    async def read():
        hook = guardrail.async_post_call_streaming_iterator_hook
        return [chunk async for chunk in hook(None, answer(chunks), {})]

    choices = [choice for chunk in asyncio.run(read()) for choice in chunk.choices]
    texts = ["".join(c.delta.content or "" for c in choices if c.index == k) for k in (0, 1)]
    assert all("Ann" not in text for text in texts)
    assert texts[0].startswith("[PER]") and "saw" in texts[1]
    (called,) = [c.delta.tool_calls for c in choices if c.delta.tool_calls]
    assert [call.function.arguments for call in called] == ['{"x": "[PER] \\" saw [LOC]"}']
    assert all(c.logprobs is None for c in choices)


OTHERS = {"annotations": ["Ann Lee"], "thinking_blocks": [{"thinking": "Ann Lee"}], "audio": "Ann"}


def test_no_other_text_of_a_chunk_passes(guardrail):
    chunk = make_chunk("Ann Lee saw", "stop")
    choice = chunk.choices[0]
    for name, value in OTHERS.items():
        setattr(choice.delta, name, value)
        setattr(choice, name, value)
        setattr(chunk, name, value)
    choice.delta.refusal = choice.delta.reasoning_content = "Ann Lee saw"
    hook = guardrail.async_post_call_streaming_iterator_hook

    async def read(*given):
        return [chunk async for chunk in hook(None, answer(given), {})]

    (found,) = asyncio.run(read(chunk))
    assert "Ann" not in repr(found)
    assert found.choices[0].delta.reasoning_content == "[PER] saw"
    (completion,) = asyncio.run(
        read(SimpleNamespace(choices=[SimpleNamespace(index=0, text="Ann Lee", finish_reason="x")]))
    )
    assert completion.choices[0].text == "[PER]"
    for other in (b"Ann", SimpleNamespace(type="response.output_text.delta", delta="Ann")):
        with pytest.raises(ValueError, match="cannot redact an answer of the type"):
            asyncio.run(read(other))


def test_whole_answers(guardrail):
    message = SimpleNamespace(
        role="assistant",
        content="Ann Lee saw",
        refusal="Rome",
        tool_calls=make_calls('["Ann Lee"]'),
    )
    for name, value in OTHERS.items():
        setattr(message, name, value)
    parts = SimpleNamespace(role="x", content=[{"type": "text", "text": "Ann Lee"}, {"type": "y"}])
    choices = [SimpleNamespace(index=k, message=m) for k, m in enumerate((message, parts))]
    given = SimpleNamespace(choices=[*choices, SimpleNamespace(index=2, text="Ann Lee")], x="Ann")
    found = asyncio.run(guardrail.async_post_call_success_hook({}, None, given))
    assert "Ann" not in repr(found) and "Rome" not in repr(found)
    assert (message.content, message.role) == ("[PER] saw", "assistant")
    assert message.tool_calls[0].function.arguments == '["[PER]"]'
    assert parts.content == [{"type": "text", "text": "[PER]"}]
    with pytest.raises(ValueError, match="cannot redact an answer of the type bytes"):
        asyncio.run(guardrail.async_post_call_success_hook({}, None, b"Ann"))


REQUEST = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Ann Lee saw"},
        {"role": "user", "content": [{"type": "text", "text": "[PER_1] and Lee"}, {"type": "y"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "Ann", "function": {"name": "f", "arguments": '{"x": "Rome"}'}}],
        },
    ],
    "prompt": ["Ann Lee saw Rome"],
}


def make_round_trip(nlp, base):
    def make_redactor(vault):
        return Redactor(nlp, None, Replacer("numbered", vault=vault), threshold=0.3)

    return base(make_redactor, guardrail_name="bcrf")


def check_round_trip(trip, make_whole, make_stream):
    """A model sees placeholders only, and the user sees no placeholder."""
    data = asyncio.run(trip.async_pre_call_hook(None, None, deepcopy(REQUEST), "completion"))
    system, user, assistant = data["messages"]
    assert system == {"role": "system", "content": "[PER_1] saw"}
    assert user["content"] == [{"type": "text", "text": "[TEXT_1] and [PER_1.2]"}, {"type": "y"}]
    call = assistant["tool_calls"][0]
    assert call == {"id": "Ann", "function": {"name": "f", "arguments": '{"x": "[LOC_1]"}'}}
    assert data["prompt"] == ["[PER_1] saw [LOC_1]"]
    whole = make_whole("Dear per_1, [LOC_1], [LOC_7]", '{"y": "[PER_1.2]"}')
    whole = asyncio.run(trip.async_post_call_success_hook(data, None, whole))
    message = whole.choices[0].message
    assert message.content == "Dear Ann Lee, Rome, [LOC_7]"
    assert message.tool_calls[0].function.arguments == '{"y": "Lee"}'
    # The originals of a request are for one answer.
    again = asyncio.run(trip.async_post_call_success_hook(data, None, make_whole("[PER_1]", "")))
    assert again.choices[0].message.content == "[PER_1]"

    async def read():
        data = await trip.async_pre_call_hook(None, None, deepcopy(REQUEST), "completion")
        hook = trip.async_post_call_streaming_iterator_hook
        return [chunk async for chunk in hook(None, answer(make_stream()), data)]

    texts = [choice.delta.content for chunk in asyncio.run(read()) for choice in chunk.choices]
    assert "".join(text or "" for text in texts) == "Dear Ann Lee, Rome"


def test_a_request_and_its_answer(nlp, guardrail):
    from spacy_bcrf.privacy.litellm import BCRFRoundTrip

    def make_whole(text, arguments):
        message = SimpleNamespace(content=text, tool_calls=make_calls(arguments), audio="x")
        return SimpleNamespace(choices=[SimpleNamespace(index=0, message=message)])

    def make_stream():
        parts = [make_chunk(part) for part in ("Dear [P", "ER_", "1], LO", "C_1")]
        return [*parts, make_chunk(None, "stop")]

    trip = make_round_trip(nlp, BCRFRoundTrip)
    check_round_trip(trip, make_whole, make_stream)
    with pytest.raises(ValueError, match="cannot redact a request with 7 in place of a text"):
        asyncio.run(trip.async_pre_call_hook(None, None, {"prompt": [[7, 8]]}, "completion"))
    assert asyncio.run(trip.async_post_call_success_hook({}, None, b"x")) == b"x"


def test_no_string_of_a_request_passes(nlp):
    from spacy_bcrf.privacy.litellm import BCRFRoundTrip

    name = "Ann Lee saw"
    file = {"type": "base64", "media_type": "image/png", "data": "Ann Lee"}
    parts = [
        {"type": "tool_use", "id": "1", "name": "f", "input": {"person": {"full": [name, 7]}}},
        {"type": "function_call_output", "call_id": "1", "output": name},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": name}]},
        {"type": "document", "source": {"type": "text", "data": name}, "title": name},
    ]
    request = {
        "model": "Ann Lee",
        "messages": [{"role": "user", "name": "Ann Lee", "content": parts}],
        "instructions": name,
        "suffix": name,
        "prediction": {"type": "content", "content": name},
        "system": [{"type": "text", "text": name}],
    }
    kept = [{"role": "tool", "name": "Ann Lee", "content": [{"type": "image", "source": file}]}]
    data = {**deepcopy(request), "input": deepcopy(kept)}
    trip = make_round_trip(nlp, BCRFRoundTrip)
    asyncio.run(trip.async_pre_call_hook(None, None, data, "completion"))
    assert (data.pop("model"), data.pop("input")) == ("Ann Lee", kept)
    assert "Ann" not in json.dumps(data) and "Lee" not in json.dumps(data)
    assert data["messages"][0]["name"] == "PER_1"
    new = data["messages"][0]["content"][0]
    assert new == {**parts[0], "input": {"person": {"full": ["[PER_1] saw", 7]}}}


def test_litellm_takes_a_request_and_its_answer(nlp):
    utils = pytest.importorskip("litellm.types.utils")
    from spacy_bcrf.privacy.litellm import BCRFRoundTrip

    def make_whole(text, arguments):
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        message = {"content": text, "tool_calls": [call]}
        return utils.ModelResponse(choices=[{"index": 0, "message": message}])

    def make_stream():
        deltas = [{"content": part} for part in ("Dear [P", "ER_", "1], LO", "C_1", None)]
        ends = [None] * 4 + ["stop"]
        return [
            utils.ModelResponseStream(choices=[{"index": 0, "delta": d, "finish_reason": end}])
            for d, end in zip(deltas, ends, strict=True)
        ]

    check_round_trip(make_round_trip(nlp, BCRFRoundTrip), make_whole, make_stream)


def test_litellm_itself(nlp):
    """Without stand-ins."""
    utils = pytest.importorskip("litellm.types.utils")
    from spacy_bcrf.privacy.litellm import BCRFGuardrail

    guardrail = BCRFGuardrail(lambda: RedactionStream(nlp, threshold=0.3), guardrail_name="bcrf")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '["Ann Lee"]'}}
    message = {"content": "Ann Lee saw", "reasoning_content": "Ann Lee", "tool_calls": [call]}
    whole = utils.ModelResponse(choices=[{"index": 0, "message": message}])
    whole = asyncio.run(guardrail.async_post_call_success_hook({}, None, whole))
    assert "Ann" not in whole.model_dump_json() and "[PER] saw" in whole.model_dump_json()
    call["index"] = 0
    deltas = [{"content": "Ann L"}, {"content": "ee saw", "tool_calls": [call]}, {"audio": "Ann"}]
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {"content": None}, "finish_reason": "stop"})
    chunks = [utils.ModelResponseStream(choices=[choice]) for choice in choices]

    async def read():
        hook = guardrail.async_post_call_streaming_iterator_hook
        return [chunk async for chunk in hook(None, answer(chunks), {})]

    found = asyncio.run(read())
    assert not any("Ann" in chunk.model_dump_json() for chunk in found)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in found)
    assert text == "[PER] saw"
    assert found[-1].choices[0].delta.tool_calls[0].function.arguments == '["[PER]"]'
