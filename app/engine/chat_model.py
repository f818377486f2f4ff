"""The served model as the HTTP side sees it: names, prompts and text. Holds no weights and no device."""

from collections.abc import Callable, Sequence

from mlx_lm.generate import make_text_state_machine

from app.chat import ChatPrompt, PreparedPrompt, ToolUse
from app.engine.loader import LoadedModel
from app.engine.next_turn import next_turn
from app.engine.prompt import PromptRenderer
from app.engine.system_anchors import SystemAnchors
from app.engine.text import ReplyText
from app.engine.tool_calls import CallReader, tool_format
from app.events import Warmup


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
        self._on_declined = on_declined
        self._prompts = PromptRenderer(
            loaded.tokenizer,
            model=loaded.name,
            cache_signature=loaded.cache_signature,
            adapter=loaded.adapter,
        )
        self._anchors = (
            None
            if anchor_tokens is None
            else SystemAnchors(self._prompts.tokens_of, min_tokens=anchor_tokens)
        )

    def prepare(self, chat: ChatPrompt, *, session: str, tenant: str) -> PreparedPrompt:  # noqa: ARG002
        """Render the template, tokenise, and find the boundaries. The session does not change the prompt.

        Raises:
            RequestError: the template refuses the messages.
        """
        prompt = self._prompts.prepare(chat, tenant=tenant)
        if prompt.capture_declined:
            self._on_declined(prompt.capture_declined)
        return prompt if self._anchors is None else self._anchors.mark(chat, prompt)

    def next_turn(self, chat: ChatPrompt, prompt: PreparedPrompt) -> tuple[int, ...] | Warmup:
        """What every next prompt of the conversation begins with, and one token more; or why it is no use."""
        return next_turn(self._prompts, chat, prompt, calls_are_text=self._calls is None)

    def text_stream(
        self, prompt: PreparedPrompt, *, stop: Sequence[str], tools: ToolUse | None = None
    ) -> ReplyText:
        """The text side of one answer; without `tools` no calls are looked for."""
        return ReplyText(
            self._tokenizer.detokenizer,
            self._parts,
            end_tokens=self._tokenizer.eos_token_ids,
            stop=stop,
            starts_reasoning=prompt.starts_reasoning,
            calls=CallReader(self._calls, tools),
        )

    def token_text(self, token: int) -> bytes:
        """What a token decodes to alone; a part of a character comes out as U+FFFD."""
        text: str = self._tokenizer.decode([token])
        return text.encode()


def _only(tokens: Sequence[int]) -> int | None:
    return tokens[0] if len(tokens) == 1 else None
