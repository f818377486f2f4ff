"""From messages to tokens, and to the position where the history ends. Touches no device: any thread."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from app.chat import ChatPrompt, PreparedPrompt
from app.errors import RequestError
from app.events import Origin
from app.scheduler.job import Boundary
from app.snapshots.entry import Bucket, pack


class PromptRenderer:
    """Renders conversations with one model's chat template.

    Args:
        tokenizer: mlx-lm's `TokenizerWrapper`.
        model: the name states are kept under.
        cache_signature: of the model's caches; see `payload.cache_signature`.
        adapter: identifies the adapter in use, empty for none.
    """

    def __init__(self, tokenizer: Any, *, model: str, cache_signature: str, adapter: str) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._cache_signature = cache_signature
        self._adapter = adapter

    def prepare(self, chat: ChatPrompt, *, tenant: str) -> PreparedPrompt:
        """Render and tokenise a conversation, and find where its history ends.

        Raises:
            RequestError: the template refuses it.
        """
        text = self._render(chat, generation_prompt=True)
        tokens = self._encode(text)
        boundary, declined = self._boundary(chat, text, tokens)
        return PreparedPrompt(
            tokens=tuple(tokens),
            packed=pack(tokens),
            boundaries=(Boundary(Origin.BOUNDARY, boundary),) if boundary else (),
            capture_declined=declined,
            bucket=self._bucket(chat, tenant),
            starts_reasoning=self._starts_reasoning(tokens, boundary),
        )

    def _render(self, chat: ChatPrompt, *, generation_prompt: bool) -> str:
        if not self._tokenizer.has_chat_template:
            raise RequestError(
                "this model has no chat template; the server can be given one with --chat-template",
                code="no_chat_template",
            )
        try:
            rendered: str = self._tokenizer.apply_chat_template(
                [_for_template(message) for message in chat.messages],
                tools=list(chat.tools) if chat.tools else None,
                add_generation_prompt=generation_prompt,
                tokenize=False,
                **chat.template_kwargs,
            )
        # A template is a program over the client's data: it can fail in any way its author left open.
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise RequestError(
                f"the model's chat template cannot render these messages: {error}", param="messages"
            ) from error
        return rendered

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _boundary(self, chat: ChatPrompt, text: str, tokens: Sequence[int]) -> tuple[int, str | None]:
        """How many tokens of the live prompt are history, or 0 and why a snapshot there is of no use.

        The same messages are rendered without the generation prompt; what both share is what the next
        turn will repeat. The common *token* prefix also drops a token merged across the seam.
        """
        history = self._render(chat, generation_prompt=False)
        if not text.startswith(history):
            return 0, "history_not_a_prefix"
        boundary = common_prefix(self._encode(history), tokens)
        if boundary == len(tokens):
            return 0, "no_generation_prompt"
        return boundary, None if boundary else "empty_history"

    def _bucket(self, chat: ChatPrompt, tenant: str) -> Bucket:
        signature = hashlib.blake2b(digest_size=16)
        for part in (self._tokenizer.chat_template, dict(chat.template_kwargs), list(chat.tools or ())):
            signature.update(json.dumps(part, sort_keys=True, default=str).encode())
            signature.update(b"\0")
        return Bucket(
            model=self._model,
            cache_signature=self._cache_signature,
            adapter=self._adapter,
            template_signature=signature.hexdigest(),
            tenant=tenant,
        )

    def _starts_reasoning(self, tokens: Sequence[int], boundary: int) -> bool:
        """Whether the generation prompt leaves the model inside its thinking part."""
        tokenizer = self._tokenizer
        if tokenizer.response_initial_state:
            return bool(tokenizer.response_initial_state == "reasoning")
        if not tokenizer.has_thinking:
            return False
        opened = tokenizer.rfind_think_start(tokens, start=boundary)
        return bool(opened > tokenizer.rfind_think_end(tokens, start=boundary))


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return min(len(left), len(right))


def _for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """Tool-call arguments as an object: clients send JSON text, templates print objects."""
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_with_object_arguments(call) for call in calls]}


def _with_object_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return dict(call)
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        # Not JSON: the model wrote it so, and the template shows it as it was.
        return dict(call)
    return {**call, "function": {**function, "arguments": arguments}}
