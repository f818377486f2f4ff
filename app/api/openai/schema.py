"""`POST /v1/chat/completions` as clients write it: types and bounds. Fields it does not name are ignored."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

TokenCount = Annotated[int, Meta(ge=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]


class ContentPart(Struct, kw_only=True):
    """A part of a message. Only `text` is served; others are named in the refusal."""

    type: str
    text: str | None = None


class Message(Struct, kw_only=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    """What the assistant called, as it was answered."""
    tool_call_id: str | None = None
    """Which call a `tool` message answers."""
    reasoning_content: str | None = None
    """The assistant's thinking, for templates that show it again."""


class FunctionDefinition(Struct, kw_only=True, omit_defaults=True):
    """What a tool is called and takes."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Struct, kw_only=True):
    """A tool the model may call."""

    type: Literal["function"]
    function: FunctionDefinition


class StreamOptions(Struct, kw_only=True):
    """What a stream carries besides text."""

    include_usage: bool | None = None


class ResponseFormat(Struct, kw_only=True):
    """How the reply must look. Only `text` is served."""

    type: str


class ChatRequest(Struct, kw_only=True):
    """A chat completion to be made."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    model: str | None = None
    """The served model's name; without it, that model is meant."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: TokenCount | None = None
    """Most tokens of the reply, reasoning included; what the context leaves is a limit as well."""
    max_tokens: TokenCount | None = None
    """The older name of `max_completion_tokens`."""
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """0 takes the likeliest token each time; 1 where absent."""
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None
    """0 is off."""
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    """1 is off."""
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    """Token id → what is added to its logit."""
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    """Needs `logprobs`."""
    n: int | None = None
    """Only 1 is served."""
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    """`auto`, or `none` to keep the tools from the model."""
    response_format: ResponseFormat | None = None
    user: str | None = None
    prompt_cache_key: str | None = None
    """Names the conversation; its state is kept between turns under this name."""
    cache_prompt: bool | None = None
    """False: neither use nor keep a state for this request."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Variables for the model's chat template, such as `enable_thinking`."""
