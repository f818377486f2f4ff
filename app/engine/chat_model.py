"""The served model as the HTTP side sees it: names, prompts and text. Holds no weights and no device."""

from collections.abc import Callable, Sequence
from typing import Any

from mlx_lm.generate import TextStateMachine, make_text_state_machine

from app.chat import ChatPrompt, PreparedPrompt, ReplySchema, TextPrompt, ToolUse
from app.engine.constraint import ReplyConstraint
from app.engine.loader import LoadedModel
from app.engine.next_turn import next_turn
from app.engine.prompt import PromptRenderer
from app.engine.reply_rules import ReplyRules
from app.engine.system_anchors import SystemAnchors
from app.engine.text import ReplyText
from app.engine.tool_calls import CallReader, tool_format
from app.vocabulary import Warmup

_ONE_PART = TextStateMachine()
"""Of a reply that has no parts: what looks like thinking or a call is text."""


class ServedChatModel:
    """What clients address. Safe off the engine thread, one thread at a time.

    Args:
        loaded: the model; its tokenizer is kept, its weights are not.
        unix_seconds: wall time, for `created`.
        on_declined: told why a prompt gets no boundary snapshot.
        anchor_tokens: the shortest system part that gets a snapshot of its own; None gives none.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        unix_seconds: Callable[[], float],
        on_declined: Callable[[str], None],
        anchor_tokens: int | None = None,
    ) -> None:
        self.name = loaded.name
        self.aliases: frozenset[str] = frozenset(loaded.aliases)
        self.created = int(unix_seconds())
        self.context_length = loaded.context_length
        self.vocabulary_size = len(loaded.tokenizer)
        self._tokenizer = loaded.tokenizer
        self._parts = make_text_state_machine(loaded.tokenizer)
        self._calls = tool_format(loaded.tokenizer)
        self.call_token = _only(loaded.tokenizer.tool_call_start_tokens or ())
        self._rules = ReplyRules(loaded.tokenizer, self._calls)
        self._thought_first = _thought_first(loaded.tokenizer)
        self._on_declined = on_declined
        self._prompts = PromptRenderer(
            loaded.tokenizer,
            model=loaded.name,
            cache_signature=loaded.cache_signature,
            adapter=loaded.adapter,
            template_kwargs=loaded.template_kwargs,
        )
        self._anchors = (
            None
            if anchor_tokens is None
            else SystemAnchors(self._prompts.tokenised, min_tokens=anchor_tokens)
        )

    def prepare(
        self,
        prompt: ChatPrompt | TextPrompt,
        *,
        session: str,
        tenant: str,
    ) -> PreparedPrompt:
        """Render the template, tokenise, and find the boundaries.

        Raises:
            RequestError: the template refuses the messages.
        """
        if isinstance(prompt, TextPrompt):
            prepared = self._prompts.prepare_text(prompt, tenant=tenant)
        else:
            prepared = self._prompts.prepare(prompt, session=session, tenant=tenant)
            if self._anchors is not None:
                prepared = self._anchors.mark(prompt, prepared)
        if prepared.capture_declined:
            self._on_declined(prepared.capture_declined)
        return prepared

    def forget(self, tenant: str | None = None, session: str | None = None) -> None:
        """Keep nothing of any prompt's text, of one tenant's, or of one session of it."""
        self._prompts.forget(tenant, session)

    def render(self, chat: ChatPrompt) -> str:
        """The prompt's text.

        Raises:
            RequestError: the template refuses the messages.
        """
        return self._prompts.render(chat)

    def tokenise(self, text: str, *, special: bool) -> list[int]:
        """The tokens of a text; `special`: with those that begin a text, where it does not have them."""
        return self._prompts.tokenise(text, special=special)

    def text_of(self, tokens: Sequence[int]) -> str:
        """The text that tokens stand for, marks included."""
        text: str = self._tokenizer.decode(list(tokens))
        return text

    def next_turn(self, chat: ChatPrompt, prompt: PreparedPrompt) -> tuple[int, ...] | Warmup:
        """What every next prompt of the conversation begins with, and one token more; or why it is no use."""
        return next_turn(self._prompts, chat, prompt, calls_are_text=self._calls is None)

    def read_vocabulary(self) -> None:
        """Read what replies are held to forms with, ahead of the first request that asks for one."""
        self._rules.read_vocabulary()

    def constraint(
        self,
        chat: ChatPrompt,
        prompt: PreparedPrompt,
        *,
        schema: ReplySchema | None,
        tools: ToolUse | None,
    ) -> ReplyConstraint | None:
        """What the reply to `prompt` is held to; None where it is free.

        Raises:
            RequestError: this model's replies cannot be held to it, or its schema cannot be followed.
        """
        return self._rules.constraint(chat, prompt, schema=schema, tools=tools)

    def text_stream(
        self,
        prompt: PreparedPrompt,
        *,
        stop: Sequence[str],
        tools: ToolUse | None = None,
        schema: ReplySchema | None = None,
    ) -> ReplyText:
        """The text side of one answer; without `tools` no calls are looked for.

        With `schema` and without `tools` the answer is one part, whatever marks are in its JSON.
        """
        parts, thinks_with = self._parts, None
        if prompt.verbatim or (schema is not None and tools is None):
            parts = _ONE_PART
            if not prompt.verbatim and (prompt.starts_reasoning or prompt.may_reason):
                parts = self._thought_first
                thinks_with = None if prompt.starts_reasoning else self._tokenizer.think_start_tokens[0]
        return ReplyText(
            self._tokenizer.detokenizer,
            parts,
            end_tokens=self._tokenizer.eos_token_ids,
            stop=stop,
            starts_reasoning=prompt.starts_reasoning,
            thinks_with=thinks_with,
            calls=CallReader(self._calls, tools),
        )

    def token_text(self, token: int) -> bytes:
        """What a token decodes to alone; a part of a character comes out as U+FFFD."""
        text: str = self._tokenizer.decode([token])
        return text.encode()


def _thought_first(tokenizer: Any) -> TextStateMachine:
    """Of a reply that is one part but for the thinking before it."""
    if not tokenizer.has_thinking:
        return _ONE_PART
    return TextStateMachine(
        {
            "normal": [(tokenizer.think_start, "reasoning")],
            "reasoning": [(tokenizer.think_end, "answer")],
            "answer": [],
        }
    )


def _only(tokens: Sequence[int]) -> int | None:
    return tokens[0] if len(tokens) == 1 else None
