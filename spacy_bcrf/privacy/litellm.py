"""Redacted answers and requests of language models in a LiteLLM proxy. Needs litellm."""

import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from copy import deepcopy
from typing import Any
from uuid import uuid4

from bcrf.io.extras import require

from .documents import change_texts
from .redact import Redactor
from .redact_stream import RedactionStream
from .restore import Restorer, TextChange
from .vault import Vault

_Base: Any = require("litellm.integrations.custom_guardrail", "litellm").CustomGuardrail

TEXTS = ("content", "text", "refusal", "reasoning_content")
"""Fields of a message, a delta or a choice that are redacted as text."""
_CALLS = ("tool_calls", "function_call")
_ASKED = ("messages", "prompt", "input", "system", "instructions", "suffix", "prediction")
"""Fields of a request with texts."""
_STRUCTURE = (
    *("role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "file_id", "status"),
    *("format", "detail", "media_type", "mime_type", "signature", "encrypted_content"),
)
"""Fields within them whose strings are no texts. All other strings are redacted."""
_CALL_ID = "litellm_call_id"
MOST_CALLS = 10_000
"""Most requests at once whose originals are kept."""
_OF_CHOICE = ("index", "finish_reason", "message", "delta")
_OF_ANSWER = ("id", "created", "model", "object", "system_fingerprint", "choices", "usage")


class _Change:
    """Other texts for an answer. drops: whether all other fields that may have text are removed."""

    def __init__(self, make_stream: Callable[[], TextChange], drops: bool) -> None:
        self.make_stream, self._drops = make_stream, drops

    def change(self, text: str) -> str:
        stream = self.make_stream()
        return stream.feed(text) + stream.close()[0]

    def change_arguments(self, text: str) -> str:
        """Return the arguments of a call. JSON stays JSON."""
        return change_texts(text, self.change)

    def change_content(self, value: Any) -> Any:
        """Return a text, or the parts of one."""
        if isinstance(value, str):
            return self.change(value)
        parts = []
        for part in value:
            if isinstance(part, dict) and part.get("type") == "text":
                parts.append({"type": "text", "text": self.change(part["text"])})
            elif not self._drops:
                parts.append(part)
        return parts

    def forget(self, one: Any, kept: tuple[str, ...]) -> None:
        """Remove the fields of an object that may have texts, except some."""
        fields = {**vars(one), **(getattr(one, "__pydantic_extra__", None) or {})}
        for name, value in fields.items() if self._drops else ():
            is_text = not (value is None or isinstance(value, int | float | bool))
            if name not in kept and not name.startswith("_") and is_text:
                setattr(one, name, None)

    def find_choices(self, answer: Any) -> list[Any]:
        """Return the choices of an answer or a chunk. ValueError for another one with texts."""
        choices = getattr(answer, "choices", None)
        if isinstance(choices, list):
            self.forget(answer, _OF_ANSWER)
            return choices
        if self._drops:
            raise ValueError(
                f"cannot redact an answer of the type {type(answer).__name__}; expected one of "
                "/chat/completions or /completions"
            )
        return []


class _Guardrail(_Base):
    """Hooks that change the texts of answers, by what `_choose` returns for the request."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Define the hooks in each class: LiteLLM passes by a hook that a class inherits."""
        super().__init_subclass__(**options)
        for base in cls.__mro__[1 : cls.__mro__.index(_Guardrail) + 1]:
            for name, hook in vars(base).items():
                if name.endswith("_hook") and name not in vars(cls):
                    setattr(cls, name, hook)

    @abstractmethod
    def _choose(self, data: dict[str, Any]) -> _Change | None:
        """Return the change of a request's answer, None for none."""

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Return a whole answer with other texts."""
        if (change := self._choose(data)) is None:
            return response
        for choice in change.find_choices(response):
            change.forget(choice, (*_OF_CHOICE, *TEXTS))
            for part in (choice, getattr(choice, "message", None)):
                if part is None:
                    continue
                if part is not choice:
                    change.forget(part, ("role", *TEXTS, *_CALLS))
                for name in TEXTS:
                    if value := getattr(part, name, None):
                        setattr(part, name, change.change_content(value))
                for _, _, function in _find_calls(part):
                    function.arguments = change.change_arguments(function.arguments or "")
        return response

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield the chunks of an answer with other texts, and the rest of one that is cut off."""
        if (change := self._choose(request_data)) is None:
            async for chunk in response:
                yield chunk
            return
        answers: dict[int, _StreamedChoice] = {}
        async for chunk in response:
            for choice in change.find_choices(chunk):
                if choice.index not in answers:
                    answers[choice.index] = _StreamedChoice(change)
                answers[choice.index].change(choice)
                if choice.finish_reason:
                    answers.pop(choice.index).end(choice)
                else:
                    answers[choice.index].last = chunk
            yield chunk
        for index, answer in answers.items():  # an answer that was cut off
            rest = deepcopy(answer.last)
            rest.choices = [choice for choice in rest.choices if choice.index == index]
            for part in _find_parts(rest.choices[0]):
                for name in (*TEXTS, *_CALLS):  # they have passed already
                    if hasattr(part, name):
                        setattr(part, name, None)
            answer.end(rest.choices[0])
            yield rest


class BCRFGuardrail(_Guardrail):
    """A LiteLLM guardrail that redacts answers, streamed or whole: of chats and text completions.

    It redacts `TEXTS` and the arguments of tool calls, which a stream holds until they are whole.
    All other fields that can have text are removed, such as log-probabilities, thinking blocks,
    annotations and audio. Other kinds of answers, such as bytes and events, are a ValueError.
    """

    def __init__(self, make_stream: Callable[[], RedactionStream], **options: Any) -> None:
        """make_stream: returns the stream of one text. options: see LiteLLM's CustomGuardrail."""
        super().__init__(**options)
        self._change = _Change(make_stream, drops=True)

    def _choose(self, data: dict[str, Any]) -> _Change:
        return self._change


class BCRFRoundTrip(_Guardrail):
    """A LiteLLM guardrail that sends a model placeholders, and restores them in its answer.

    It redacts all strings of messages, prompts, inputs and instructions as one document, in
    numbered style, except names of fields and functions, ids and encoded files. Definitions of
    tools stay. The vault of a request is in memory only. Answers of other kinds than
    `BCRFGuardrail` reads keep their placeholders.
    """

    def __init__(self, make_redactor: Callable[[Vault], Redactor], **options: Any) -> None:
        """make_redactor: returns a redactor whose `Replacer` is "numbered" with this vault.

        options: see LiteLLM's CustomGuardrail.
        """
        super().__init__(**options)
        self._make_redactor = make_redactor
        self._vaults: dict[str, Vault] = {}

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        """Return a request with placeholders."""
        asked = [(name, data[name]) for name in _ASKED if name in data]
        places = [place for name, value in asked for place in _find_texts(value, data, name)]
        vault = Vault()
        new = self._make_redactor(vault).redact_strings([box[key] for box, key in places])
        for (box, key), text in zip(places, new, strict=True):
            # APIs take letters, digits and signs for who writes a message.
            box[key] = re.sub(r"[^\w-]+", "_", text).strip("_") if key == "name" else text
        self._vaults[data.setdefault(_CALL_ID, uuid4().hex)] = vault
        if len(self._vaults) > MOST_CALLS:  # of calls that had no answer
            del self._vaults[next(iter(self._vaults))]
        return data

    def _choose(self, data: dict[str, Any]) -> _Change | None:
        vault = self._vaults.pop(data.get(_CALL_ID, ""), None)
        return None if vault is None else _Change(lambda: Restorer(vault), drops=False)


def _find_texts(
    value: Any, box: Any, key: Any, is_text: bool = True
) -> Iterator[tuple[dict[Any, Any] | list[Any], Any]]:
    """Yield what has a text, and its name or number there.

    is_text: whether the value stands in place of a text. ValueError for tokens in its place.
    """
    if isinstance(value, dict):
        is_encoded = value.get("type") == "base64"
        for name, each in value.items():
            is_function = name == "name" and value.get("role") in (None, "tool", "function")
            if name not in _STRUCTURE and not is_function and not (is_encoded and name == "data"):
                yield from _find_texts(each, value, name, False)
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from _find_texts(each, value, i, is_text)
    elif isinstance(value, str):
        if not value.startswith("data:"):
            yield box, key
    elif is_text and isinstance(key, int):
        raise ValueError(f"cannot redact a request with {value!r} in place of a text")


class _StreamedChoice:
    """The streams of one choice by field, and the calls of tools so far. last: its last chunk."""

    def __init__(self, change: _Change) -> None:
        self._change = change
        self._streams: dict[str, TextChange] = {}
        self._calls: dict[tuple[str, int], tuple[Any, str]] = {}  # function, arguments so far
        self._kept: list[Any] = []  # parts of calls
        self.last: Any = None

    def change(self, choice: Any) -> None:
        """Change the texts of a chunk, and hold the arguments of calls."""
        self._change.forget(choice, (*_OF_CHOICE, *TEXTS))
        for part in _find_parts(choice):
            if part is not choice:
                self._change.forget(part, ("role", *TEXTS, *_CALLS))
            for name in TEXTS:
                if text := getattr(part, name, None):
                    if not isinstance(text, str):
                        raise ValueError(f"cannot redact {name} of the type {type(text).__name__}")
                    stream = self._streams.setdefault(name, self._change.make_stream())
                    setattr(part, name, stream.feed(text) or None)
            for kind, number, function in _find_calls(part):
                # The first one has id and name.
                call, text = self._calls.get((kind, number), (function, ""))
                self._calls[kind, number] = call, text + (function.arguments or "")
            self._kept += getattr(part, "tool_calls", None) or ()
            for name in _CALLS:
                if getattr(part, name, None):
                    setattr(part, name, None)

    def end(self, choice: Any) -> None:
        """Add the rest of the texts, and the arguments of calls, to the last chunk of a choice."""
        part = _find_parts(choice)[-1]
        for name, stream in self._streams.items():
            setattr(part, name, (getattr(part, name, None) or "") + stream.close()[0] or None)
        for function, text in self._calls.values():
            function.arguments = self._change.change_arguments(text)
        first = {call.index: call for call in reversed(self._kept)}
        if first:
            part.tool_calls = [first[number] for number in sorted(first)]
        if ("function_call", 0) in self._calls:
            part.function_call = self._calls["function_call", 0][0]


def _find_parts(choice: Any) -> list[Any]:
    """Return what has the texts of a chunk's choice: the choice of a text completion, the delta."""
    delta = getattr(choice, "delta", None)
    return [choice] if delta is None else [choice, delta]


def _find_calls(part: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield kind, number, and what has the name and the arguments of each call."""
    for i, call in enumerate(getattr(part, "tool_calls", None) or ()):
        yield "tool_calls", getattr(call, "index", i), call.function
    if function := getattr(part, "function_call", None):
        yield "function_call", 0, function
