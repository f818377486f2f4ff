"""`POST /v1/responses` as clients write it: types and bounds. Fields it does not name are ignored."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.request_fields import (
    CachePrompt,
    ConversationName,
    PromptCacheKey,
    Temperature,
    TemplateVariables,
    TopP,
)


class Part(Struct, kw_only=True):
    """A part of a message, of a reasoning or of a result. Only text is served, under its several names."""

    type: str
    text: str | None = None


class Item(Struct, kw_only=True):
    """A message, `reasoning`, `function_call` or `function_call_output`, as they came or were made."""

    type: str | None = None
    """A message has none, or `message`."""
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[Part] | None = None


class FunctionTool(Struct, kw_only=True):
    """A tool the model may call. Of a type other than `function`, it is not offered to the model."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Conversation(Struct, kw_only=True):
    """A conversation by its id."""

    id: str


class TextFormat(Struct, kw_only=True):
    """What the reply has to be: `text`, `json_object`, or `json_schema` with the schema."""

    type: str
    name: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class TextOptions(Struct, kw_only=True):
    """How the reply must look."""

    format: TextFormat | None = None


class ResponsesRequest(Struct, kw_only=True):
    """A response to be made."""

    input: Annotated[
        str | list[Item], Meta(description="A message, or the conversation's items, oldest first.")
    ]
    model: (
        Annotated[str, Meta(description="The served model's name; without it, that model is meant.")] | None
    ) = None
    instructions: Annotated[str, Meta(description="The system prompt.")] | None = None
    stream: Annotated[bool, Meta(description="Send the reply as it grows, as server-sent events.")] | None = (
        None
    )
    max_output_tokens: (
        Annotated[
            int,
            Meta(ge=1, description="Most tokens of the reply; what the context leaves is a limit as well."),
        ]
        | None
    ) = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_logprobs: Annotated[int, Meta(description="Not served.")] | None = None
    tools: Annotated[list[FunctionTool], Meta(description="Functions the model may call.")] | None = None
    tool_choice: (
        Annotated[
            str | dict[str, Any],
            Meta(description="'auto', 'none' for no calls, 'required' for one at least, or the one to call."),
        ]
        | None
    ) = None
    parallel_tool_calls: (
        Annotated[bool, Meta(description="False: the reply ends with its first call.")] | None
    ) = None
    text: TextOptions | None = None
    previous_response_id: Annotated[str, Meta(description="Not served: no response is stored.")] | None = None
    conversation: (
        Annotated[str | Conversation, Meta(description="Names the conversation; its items are not stored.")]
        | None
    ) = None
    prompt: Annotated[dict[str, Any], Meta(description="Not served.")] | None = None
    background: Annotated[bool, Meta(description="Only false is served.")] | None = None
    metadata: Annotated[dict[str, str], Meta(description="Comes back as it is.")] | None = None
    user: ConversationName | None = None
    prompt_cache_key: PromptCacheKey | None = None
    cache_prompt: CachePrompt | None = None
    chat_template_kwargs: TemplateVariables | None = None
