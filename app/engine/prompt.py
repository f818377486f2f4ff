"""From messages to tokens, and to the position where the history ends. Touches no device: any thread."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from jinja2 import TemplateError

from app.chat import ChatPrompt, PreparedPrompt, continues_reply
from app.errors import RequestError
from app.events import Origin
from app.scheduler.job import Boundary
from app.snapshots.entry import Bucket, pack


class _End(Enum):
    """How a rendered conversation ends."""

    GENERATION_PROMPT = auto()
    """With what makes the model begin a reply."""
    OPEN_REPLY = auto()
    """In the middle of its last message, an assistant's, so that the model goes on with it."""
    HISTORY = auto()
    """After its last message, as later turns will show it."""


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
        continued = continues_reply(chat)
        text = self._render(chat, _End.OPEN_REPLY if continued else _End.GENERATION_PROMPT)
        tokens = self._encode(text)
        earlier = replace(chat, messages=chat.messages[:-1]) if continued else chat
        boundary, declined = self._boundary(earlier, text, tokens)
        return PreparedPrompt(
            tokens=tuple(tokens),
            packed=pack(tokens),
            boundaries=(Boundary(Origin.BOUNDARY, boundary),) if boundary else (),
            capture_declined=declined,
            bucket=self._bucket(chat, tenant),
            starts_reasoning=self._starts_reasoning(tokens, boundary, continued=continued),
        )

    def tokens_of(self, chat: ChatPrompt) -> Sequence[int]:
        """The tokens that `chat` has as a prompt, without a look at its history.

        Raises:
            RequestError: the template refuses it.
        """
        return self._encode(self._render(chat, _End.GENERATION_PROMPT))

    def _render(self, chat: ChatPrompt, end: _End) -> str:
        if not self._tokenizer.has_chat_template:
            raise RequestError(
                "this model has no chat template; the server can be given one with --chat-template",
                code="no_chat_template",
            )
        try:
            rendered: str = self._tokenizer.apply_chat_template(
                [_for_template(message) for message in chat.messages],
                tools=list(chat.tools) if chat.tools else None,
                add_generation_prompt=end is _End.GENERATION_PROMPT,
                # Left out where it is not wanted: a model's own renderer need not know it.
                **({"continue_final_message": True} if end is _End.OPEN_REPLY else {}),
                tokenize=False,
                **chat.template_kwargs,
            )
        # A template is a program over the client's data: it can fail in any way its author left open.
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            # The first line: what follows it is the rendered conversation, or a stack of template lines.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise RequestError(
                f"the model's chat template cannot render these messages: {reason}", param="messages"
            ) from error
        return rendered

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _boundary(self, history: ChatPrompt, text: str, tokens: Sequence[int]) -> tuple[int, str | None]:
        """How many tokens of the live prompt are history, or 0 and why a snapshot there is of no use.

        The history is rendered as later turns will show it; what it shares with the prompt is what the next
        turn will repeat. The common *token* prefix also drops a token merged across the seam. A reply that
        is continued is no history yet: how it will be repeated is unknown until it has ended.
        """
        if not history.messages:
            return 0, "empty_history"
        try:
            rendered = self._render(history, _End.HISTORY)
        except RequestError:
            # Templates may insist on a generation prompt, or on who speaks last.
            return 0, "history_not_rendered"
        if not text.startswith(rendered):
            return 0, "history_not_a_prefix"
        # A template without a generation prompt makes the whole prompt history; one token has to be run.
        boundary = min(common_prefix(self._encode(rendered), tokens), len(tokens) - 1)
        return (boundary, None) if boundary > 0 else (0, "empty_history")

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

    def _starts_reasoning(self, tokens: Sequence[int], boundary: int, *, continued: bool) -> bool:
        """Whether the prompt's end leaves the model inside its thinking part."""
        tokenizer = self._tokenizer
        if tokenizer.response_initial_state and not continued:
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
