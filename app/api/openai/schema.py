"""`POST /v1/chat/completions` as clients write it: types and bounds. Fields it does not name are ignored."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class ContentPart(Struct, kw_only=True):
    """A part of a message. Only `text` is served; others are named in the refusal."""

    type: str
    text: str | None = None


class CalledFunction(Struct, kw_only=True):
    """What was called. `arguments` are a JSON object as text; the object itself is taken as well."""

    name: str
    arguments: str | dict[str, Any] = ""


class EchoedToolCall(Struct, kw_only=True):
    """A tool call as the assistant made it, sent back."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunction


class Message(Struct, kw_only=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[EchoedToolCall] | None = None
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

    messages: Annotated[list[Message], Meta(min_length=1, description="The conversation, oldest first.")]
    model: (
        Annotated[str, Meta(description="The served model's name; without it, that model is meant.")] | None
    ) = None
    stream: Annotated[bool, Meta(description="Send the reply as it grows, as server-sent events.")] | None = (
        None
    )
    stream_options: StreamOptions | None = None
    max_completion_tokens: (
        Annotated[
            int,
            Meta(ge=1, description="Most tokens of the reply; what the context leaves is a limit as well."),
        ]
        | None
    ) = None
    max_tokens: Annotated[int, Meta(ge=1, description="The older name of max_completion_tokens.")] | None = (
        None
    )
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    temperature: (
        Annotated[
            float, Meta(ge=0, le=2, description="0 takes the likeliest token each time; 1 where absent.")
        ]
        | None
    ) = None
    top_p: (
        Annotated[float, Meta(gt=0, le=1, description="Share of the probability that is drawn from.")] | None
    ) = None
    top_k: Annotated[int, Meta(ge=0, description="How many tokens are drawn from; 0 is all.")] | None = None
    min_p: (
        Annotated[float, Meta(ge=0, le=1, description="Least probability, relative to the likeliest.")] | None
    ) = None
    presence_penalty: (
        Annotated[float, Meta(ge=-2, le=2, description="Lowers tokens that occurred at all.")] | None
    ) = None
    frequency_penalty: (
        Annotated[float, Meta(ge=-2, le=2, description="Lowers tokens each time they occur.")] | None
    ) = None
    repetition_penalty: (
        Annotated[float, Meta(gt=0, description="Divides the logits of seen tokens; 1 is off.")] | None
    ) = None
    logit_bias: (
        Annotated[
            dict[str, Annotated[float, Meta(ge=-100, le=100)]],
            Meta(description="Token id → what is added to its logit."),
        ]
        | None
    ) = None
    seed: Annotated[int, Meta(description="Makes the reply repeatable, whatever else is running.")] | None = (
        None
    )
    logprobs: Annotated[bool, Meta(description="Return each token's log-probability.")] | None = None
    top_logprobs: (
        Annotated[int, Meta(ge=0, le=20, description="And of so many of the likeliest; needs logprobs.")]
        | None
    ) = None
    n: Annotated[int, Meta(description="Only 1 is served.")] | None = None
    tools: Annotated[list[Tool], Meta(description="Functions the model may call.")] | None = None
    tool_choice: (
        Annotated[
            str | dict[str, Any],
            Meta(description="'auto', or 'none' for a reply without calls; no call can be enforced."),
        ]
        | None
    ) = None
    parallel_tool_calls: (
        Annotated[bool, Meta(description="False: the reply ends with its first call.")] | None
    ) = None
    response_format: ResponseFormat | None = None
    user: Annotated[str, Meta(description="Names the conversation, where nothing better does.")] | None = None
    prompt_cache_key: (
        Annotated[
            str, Meta(description="Names the conversation; its state is kept between turns under this name.")
        ]
        | None
    ) = None
    cache_prompt: (
        Annotated[bool, Meta(description="False: neither use nor keep a state for this request.")] | None
    ) = None
    chat_template_kwargs: (
        Annotated[
            dict[str, Any], Meta(description="Variables for the chat template, such as enable_thinking.")
        ]
        | None
    ) = None
