"""From messages to tokens, and to the position that later turns repeat. Touches no device: any thread."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from jinja2 import TemplateError

from app.chat import (
    ChatPrompt,
    PreparedPrompt,
    TextPrompt,
    TokenisedText,
    continues_reply,
    with_object_arguments,
)
from app.engine.render_deadline import RENDER_SECONDS, EndlessTemplateError, render_within
from app.engine.text_memory import TextMemory
from app.engine.tokenising import Tokeniser
from app.errors import RequestError
from app.scheduler.job import Boundary
from app.snapshots.entry import Bucket, common_tokens, pack, token_count, unpack
from app.vocabulary import Origin

_ANSWERED = ({"role": "assistant", "content": "ok"}, {"role": "user", "content": "ok"})
_CALL_ID = "next00000"
"""Of nine letters and digits, which is all that some templates take."""
_CALLED = (
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": _CALL_ID, "type": "function", "function": {"name": "next", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": _CALL_ID, "content": "ok"},
)


_TEMPLATE_FAILURES = (
    *(TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError),
    *(OverflowError, RecursionError, ZeroDivisionError, MemoryError),
)
"""A template is a program over the client's data: it can fail in any way its author left open."""


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
        template_kwargs: variables for the template where a request does not set them.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        model: str,
        cache_signature: str,
        adapter: str,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._tokeniser = Tokeniser(tokenizer)
        self._memory = TextMemory()
        self._template_kwargs = dict(template_kwargs or {})
        self._model = model
        self._cache_signature = cache_signature
        self._adapter = adapter

    def prepare(self, chat: ChatPrompt, *, session: str, tenant: str) -> PreparedPrompt:
        """Render and tokenise a conversation, and find how far its next turn repeats it.

        Tokens of what the session's last prompts had already are taken from there.

        Raises:
            RequestError: the template refuses it.
        """
        continued = continues_reply(chat)
        text = self.render(chat)
        prompt = self._tokeniser.tokenise(text, self._memory.nearest((tenant, session), text))
        # What a reply begins with can merge with the last token, and a state of all tokens serves nobody.
        boundary = token_count(prompt.packed) - 1
        repeated = not continued and self._is_repeated(chat, text)
        if repeated and not self._tokenizer.has_thinking:
            # All of it is history then; each rendering of a long conversation takes milliseconds.
            history, declined = text, None
        else:
            history, declined = self._history(chat, text, continued=continued)
        if not repeated:
            boundary = min(
                common_tokens(self._tokeniser.tokenise(history, prompt).packed, prompt.packed), boundary
            )
        self._memory.keep((tenant, session), prompt, settled=len(history) or len(text))
        starts_reasoning = self._starts_reasoning(text[len(history) :], prompt, continued=continued)
        return PreparedPrompt(
            tokens=unpack(prompt.packed),
            packed=prompt.packed,
            boundaries=(Boundary(Origin.BOUNDARY, boundary),) if boundary > 0 else (),
            capture_declined=None if boundary > 0 else declined or "empty_history",
            bucket=self._bucket(chat, tenant),
            starts_reasoning=starts_reasoning,
            may_reason=not (starts_reasoning or continued) and self._leaves_reasoning_open(text),
            rendered=prompt,
        )

    def prepare_text(self, prompt: TextPrompt, *, tenant: str) -> PreparedPrompt:
        """The tokens of a prompt that no template is put around.

        Its state is kept in the bucket of conversations without tools, which may be gone on with as a text.
        """
        given = prompt.content
        tokens = self.tokenise(given, special=True) if isinstance(given, str) else list(given)
        # A text that goes on can merge with the last token.
        boundary = len(tokens) - 1
        return PreparedPrompt(
            tokens=tuple(tokens),
            packed=pack(tokens),
            boundaries=(Boundary(Origin.BOUNDARY, boundary),) if boundary > 0 else (),
            capture_declined=None if boundary > 0 else "empty_history",
            bucket=self._bucket(ChatPrompt(messages=(), template_kwargs={}), tenant),
            verbatim=True,
        )

    def render(self, chat: ChatPrompt) -> str:
        """The text of a conversation as a prompt.

        Raises:
            RequestError: the template refuses it.
        """
        return self._render(chat, _End.OPEN_REPLY if continues_reply(chat) else _End.GENERATION_PROMPT)

    def tokenise(self, text: str, *, special: bool) -> list[int]:
        """The tokens of a text; `special`: with what begins every text, unless this one has it already."""
        first = self._tokenizer.bos_token
        ids: list[int] = self._tokenizer.encode(
            text, add_special_tokens=special and not (first and text.startswith(first))
        )
        return ids

    def tokenised(self, chat: ChatPrompt, known: TokenisedText | None) -> TokenisedText:
        """`chat` as a prompt, without a look at its history; what it shares with `known` is not made anew.

        Raises:
            RequestError: the template refuses it.
        """
        return self._tokeniser.tokenise(self._render(chat, _End.GENERATION_PROMPT), known)

    def forget(self, tenant: str | None, session: str | None) -> None:
        """Keep nothing of any prompt, of one tenant's, or of one session of it."""
        self._memory.forget(tenant, session)

    def _render(self, chat: ChatPrompt, end: _End) -> str:
        if not self._tokenizer.has_chat_template:
            raise RequestError(
                "this model has no chat template; the server can be given one with --chat-template",
                code="no_chat_template",
            )
        try:
            return self._apply(chat, end, [with_object_arguments(message) for message in chat.messages])
        except EndlessTemplateError as error:
            raise RequestError(
                f"the model's chat template does not end with these messages: {error}",
                param="messages",
                code="template_timeout",
            ) from error
        except _TEMPLATE_FAILURES as error:
            if any(message.get("tool_calls") for message in chat.messages):
                # Some templates put a call together as text, and cannot print its arguments as an object.
                with contextlib.suppress(*_TEMPLATE_FAILURES):
                    return self._apply(chat, end, chat.messages)
            # The first line: what follows it is the rendered conversation, or a stack of template lines.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise RequestError(
                f"the model's chat template cannot render these messages: {reason}", param="messages"
            ) from error

    def _apply(self, chat: ChatPrompt, end: _End, messages: Sequence[Mapping[str, Any]]) -> str:
        def render() -> str:
            rendered: str = self._tokenizer.apply_chat_template(
                list(messages),
                tools=list(chat.tools) if chat.tools else None,
                add_generation_prompt=end is _End.GENERATION_PROMPT,
                # Left out where it is not wanted: a model's own renderer need not know it.
                **({"continue_final_message": True} if end is _End.OPEN_REPLY else {}),
                tokenize=False,
                **self._variables(chat),
            )
            return rendered

        return render_within(RENDER_SECONDS, render)

    def _variables(self, chat: ChatPrompt) -> dict[str, Any]:
        return {**self._template_kwargs, **chat.template_kwargs}

    def _history(self, chat: ChatPrompt, text: str, *, continued: bool) -> tuple[str, str | None]:
        """The beginning of the prompt's text that is history, or none and why.

        It is rendered as later turns will show it. A reply that is continued is no history yet: how it will
        be repeated is unknown until it has ended.
        """
        earlier = replace(chat, messages=chat.messages[:-1]) if continued else chat
        if not earlier.messages:
            return "", "empty_history"
        try:
            rendered = self._render(earlier, _End.HISTORY)
        except RequestError:
            # Templates may insist on a generation prompt, or on who speaks last.
            return "", "history_not_rendered"
        return (rendered, None) if text.startswith(rendered) else ("", "history_not_a_prefix")

    def _is_repeated(self, chat: ChatPrompt, text: str) -> bool:
        """Whether the next prompt begins with all of this one, generation prompt included, whatever comes.

        Then a snapshot before the last token serves the next turn, and the prefill is not cut for it: the
        last token is run apart from the others in any case.
        """
        try:
            return all(
                self._render(following, _End.GENERATION_PROMPT).startswith(text)
                for following in _next_turns(chat)
            )
        except RequestError:
            return False

    def _bucket(self, chat: ChatPrompt, tenant: str) -> Bucket:
        signature = hashlib.blake2b(digest_size=16)
        for part in (self._tokenizer.chat_template, self._variables(chat), list(chat.tools or ())):
            signature.update(json.dumps(part, sort_keys=True, default=str).encode())
            signature.update(b"\0")
        return Bucket(
            model=self._model,
            cache_signature=self._cache_signature,
            adapter=self._adapter,
            template_signature=signature.hexdigest(),
            tenant=tenant,
        )

    def _starts_reasoning(self, opening: str, prompt: TokenisedText, *, continued: bool) -> bool:
        """Whether what follows the history leaves the model inside its thinking part."""
        tokenizer = self._tokenizer
        if tokenizer.response_initial_state and not continued:
            return bool(tokenizer.response_initial_state == "reasoning")
        if not tokenizer.has_thinking:
            return False
        tokens = unpack(self._tokeniser.tokenise(opening, prompt).packed)
        return bool(tokenizer.rfind_think_start(tokens) > tokenizer.rfind_think_end(tokens))

    def _leaves_reasoning_open(self, text: str) -> bool:
        """Whether a reply after this prompt may think first: the prompt has not closed the part before it."""
        tokenizer = self._tokenizer
        return bool(tokenizer.has_thinking) and not text.rstrip().endswith(tokenizer.think_end)


def _next_turns(chat: ChatPrompt) -> Iterator[ChatPrompt]:
    """The conversation as it may go on: with a reply and a question, and with a call and its result."""
    yield replace(chat, messages=(*chat.messages, *_ANSWERED))
    if chat.tools:
        yield replace(chat, messages=(*chat.messages, *_CALLED))
