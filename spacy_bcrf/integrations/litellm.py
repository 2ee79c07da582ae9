"""Redacted answers of language models in a LiteLLM proxy, as they stream. Needs litellm."""

from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

from bcrf.io.extras import require
from spacy_bcrf.analysis.redact_stream import RedactionStream

_Base: Any = require("litellm.integrations.custom_guardrail", "litellm").CustomGuardrail


class BCRFGuardrail(_Base):
    """A LiteLLM guardrail that redacts the text of streamed answers.

    It changes `delta.content` alone: calls of tools and reasoning pass as they are.
    """

    def __init__(self, make_stream: Callable[[], RedactionStream], **options: Any) -> None:
        """make_stream: returns the stream of one answer. options: see LiteLLM's CustomGuardrail."""
        super().__init__(**options)
        self._make_stream = make_stream

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield the chunks of an answer with redacted text, the rest of it with the last one."""
        streams: dict[int, RedactionStream] = {}  # by choice
        last = None
        async for chunk in response:
            for choice in chunk.choices:
                if choice.index not in streams:
                    streams[choice.index] = self._make_stream()
                text = streams[choice.index].feed(choice.delta.content or "")
                if choice.finish_reason:
                    text += streams.pop(choice.index).close()[0]
                choice.delta.content = text or None
            last = chunk if chunk.choices else last
            yield chunk
        if streams and last is not None:  # an answer that was cut off
            rest = deepcopy(last)
            for choice in rest.choices:
                stream = streams.pop(choice.index, None)
                choice.delta.content = stream.close()[0] if stream else None
            yield rest
