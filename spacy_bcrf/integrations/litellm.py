"""Redacted answers of language models in a LiteLLM proxy, as they stream. Needs litellm."""

from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

from bcrf.io.extras import require
from spacy_bcrf.analysis.redact_stream import RedactionStream

_Base: Any = require("litellm.integrations.custom_guardrail", "litellm").CustomGuardrail


class BCRFGuardrail(_Base):
    """A LiteLLM guardrail that redacts the text of streamed answers.

    It changes `delta.content` and removes `logprobs`. Calls of tools and reasoning pass.
    """

    def __init__(self, make_stream: Callable[[], RedactionStream], **options: Any) -> None:
        """make_stream: returns the stream of one answer. options: see LiteLLM's CustomGuardrail."""
        super().__init__(**options)
        self._make_stream = make_stream

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield the chunks of an answer with redacted text, and the rest of one that is cut off."""
        streams: dict[int, RedactionStream] = {}  # by choice
        last: dict[int, Any] = {}  # chunks
        async for chunk in response:
            for choice in chunk.choices:
                if choice.index not in streams:
                    streams[choice.index] = self._make_stream()
                text = streams[choice.index].feed(choice.delta.content or "")
                if choice.finish_reason:
                    text += streams.pop(choice.index).close()[0]
                choice.delta.content = text or None
                choice.logprobs = None  # have the tokens of the old text
                last[choice.index] = chunk
            yield chunk
        for index, stream in streams.items():  # an answer that was cut off
            rest = deepcopy(last[index])
            rest.choices = [choice for choice in rest.choices if choice.index == index]
            (delta,) = (choice.delta for choice in rest.choices)
            for name in ("tool_calls", "function_call", "reasoning_content", "thinking_blocks"):
                if hasattr(delta, name):
                    setattr(delta, name, None)  # it has passed already
            delta.content = stream.close()[0] or None
            yield rest
