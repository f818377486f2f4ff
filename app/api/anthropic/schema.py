"""`POST /v1/messages` as clients write it: types and bounds. Fields it does not name are ignored."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.request_fields import CachePrompt, PromptCacheKey, TemplateVariables, TopK, TopP


class Block(Struct, kw_only=True):
    """A part of a message: `text`, `thinking`, `redacted_thinking`, `tool_use` or `tool_result`.

    Others are named in the refusal. `cache_control` is ignored: everything is kept that can serve again.
    """

    type: str
    text: str | None = None
    thinking: str | None = None
    """What the assistant thought, sent back."""
    id: str | None = None
    """Of a `tool_use`."""
    name: str | None = None
    input: dict[str, Any] | None = None
    """What the tool was called with."""
    tool_use_id: str | None = None
    """Which call a `tool_result` answers."""
    content: "str | list[Block] | None" = None
    """What the tool said."""


class Message(Struct, kw_only=True):
    """One message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Struct, kw_only=True):
    """A tool the model may call. One with a `type` of its own is the provider's, and not offered."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class ToolChoice(Struct, kw_only=True):
    """Whether tools may be called: `auto`, `none`, `any` for at least one, `tool` for the one named."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Struct, kw_only=True):
    """Whether the model thinks first, where its template leaves that open."""

    type: str


class Metadata(Struct, kw_only=True):
    """Whose request it is. What follows `session_` in `user_id` names the conversation."""

    user_id: str | None = None


class PromptRequest(Struct, kw_only=True):
    """A conversation whose tokens are counted."""

    messages: Annotated[list[Message], Meta(min_length=1, description="The conversation, oldest first.")]
    model: (
        Annotated[str, Meta(description="The served model's name; without it, that model is meant.")] | None
    ) = None
    system: Annotated[str | list[Block], Meta(description="The system prompt.")] | None = None
    tools: Annotated[list[Tool], Meta(description="What the model may call.")] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    chat_template_kwargs: TemplateVariables | None = None


class MessagesRequest(PromptRequest, kw_only=True):
    """A message to be made."""

    max_tokens: (
        Annotated[
            int,
            Meta(ge=1, description="Most tokens of the reply; what the context leaves is a limit as well."),
        ]
        | None
    ) = None
    stream: Annotated[bool, Meta(description="Send the reply as it grows, as server-sent events.")] | None = (
        None
    )
    stop_sequences: Annotated[list[str], Meta(max_length=16)] | None = None
    temperature: (
        Annotated[
            float, Meta(ge=0, le=1, description="0 takes the likeliest token each time; 1 where absent.")
        ]
        | None
    ) = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    metadata: Metadata | None = None
    prompt_cache_key: PromptCacheKey | None = None
    cache_prompt: CachePrompt | None = None
