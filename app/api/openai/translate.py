"""From a chat request to what a model and an engine take. Pure; what is not served is refused by its name."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from app.api.openai.schema import ChatRequest, ContentPart, EchoedToolCall, Message
from app.api.ports import ChatPrompt, ToolUse
from app.errors import RequestError
from app.scheduler.job import Sampling
from app.snapshots.entry import ANONYMOUS_SESSION

T = TypeVar("T")

MAX_SESSION_CHARACTERS = 512

SESSION_HEADERS = ("x-session-id", "session-id", "x-claude-code-session-id")
"""Where clients that cannot set `prompt_cache_key` name their conversation, best first."""

_TOKEN_ID_DIGITS = 10

_NEVER = -100.0
"""The bias of a token that must not come; the lowest that a client can ask for as well."""

_OURS_IN_TEMPLATES = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "messages",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tools",
    }
)
"""Names that decide what is rendered and how; a client that set them would not get a chat completion."""


def chat_prompt(request: ChatRequest) -> ChatPrompt:
    """The conversation as a chat template takes it.

    Raises:
        RequestError: content that is not text, or something of the model that is not served.
    """
    _refuse_unserved(request)
    template_kwargs = request.chat_template_kwargs or {}
    if ours := sorted(_OURS_IN_TEMPLATES & template_kwargs.keys()):
        raise RequestError(
            f"chat_template_kwargs: {', '.join(ours)} cannot be set by a request.",
            param="chat_template_kwargs",
        )
    return ChatPrompt(
        messages=tuple(_message(message, index) for index, message in enumerate(request.messages)),
        # Those that may not be called as well: without them the prompt would begin otherwise, and no state
        # of the conversation could be used.
        tools=tuple(msgspec.to_builtins(tool) for tool in request.tools) if request.tools else None,
        template_kwargs=template_kwargs,
    )


def tool_use(request: ChatRequest, prompt: ChatPrompt) -> ToolUse | None:
    """What the reply may call; None for nothing."""
    if not prompt.tools or request.tool_choice == "none":
        return None
    return ToolUse(tools=prompt.tools, parallel=request.parallel_tool_calls is not False)


def sampling(request: ChatRequest, *, vocabulary_size: int, call_token: int | None = None) -> Sampling:
    """How tokens are chosen; not `call_token`, if there are tools and none may be called.

    Raises:
        RequestError: a bias for something that is not a token, or `top_logprobs` without `logprobs`.
    """
    if request.top_logprobs is not None and not request.logprobs:
        raise RequestError("top_logprobs: needs logprobs to be true.", param="top_logprobs")
    return Sampling(
        temperature=_or(request.temperature, 1.0),
        top_p=_or(request.top_p, 1.0),
        top_k=_or(request.top_k, 0),
        min_p=_or(request.min_p, 0.0),
        seed=request.seed,
        presence_penalty=_or(request.presence_penalty, 0.0),
        frequency_penalty=_or(request.frequency_penalty, 0.0),
        repetition_penalty=_or(request.repetition_penalty, 1.0),
        logit_bias=_without(
            _logit_bias(request.logit_bias or {}, vocabulary_size),
            call_token if request.tools and request.tool_choice == "none" else None,
        ),
        top_logprobs=_or(request.top_logprobs, 0) if request.logprobs else None,
    )


def max_tokens(
    request: ChatRequest, *, prompt_tokens: int, context_length: int, default_max_tokens: int | None
) -> int:
    """Most tokens of the reply: what the client or else the server says, cut to what the context leaves.

    Raises:
        RequestError: the prompt leaves no place for a reply.
    """
    left = context_length - prompt_tokens
    if left < 1:
        raise RequestError(
            f"The messages have {prompt_tokens} tokens; this model's context is {context_length} tokens,"
            " reply included.",
            param="messages",
            code="context_length_exceeded",
        )
    wanted = request.max_completion_tokens or request.max_tokens or default_max_tokens or left
    return min(wanted, left)


def stop_strings(request: ChatRequest) -> tuple[str, ...]:
    """The strings that end the reply.

    Raises:
        RequestError: one of them is empty.
    """
    stop = request.stop if request.stop is not None else ()
    strings = (stop,) if isinstance(stop, str) else tuple(stop)
    if "" in strings:
        raise RequestError("stop: must not hold an empty string.", param="stop")
    return strings


def session(request: ChatRequest, headers: Mapping[str, str]) -> str:
    """Whose state this is: the first non-empty name of the conversation, or the anonymous session.

    Raises:
        RequestError: the name is too long.
    """
    sources = (
        ("prompt_cache_key", request.prompt_cache_key),
        *((header, headers.get(header)) for header in SESSION_HEADERS),
        ("user", request.user),
    )
    for source, name in sources:
        if name:
            if len(name) > MAX_SESSION_CHARACTERS:
                raise RequestError(
                    f"{source}: has {len(name)} characters; at most {MAX_SESSION_CHARACTERS} are allowed.",
                    param=source,
                )
            return name
    return ANONYMOUS_SESSION


def _refuse_unserved(request: ChatRequest) -> None:
    if request.n not in (None, 1):
        raise RequestError("n: only 1 is served; send the request again for another reply.", param="n")
    if request.tool_choice not in (None, "none", "auto"):
        raise RequestError(
            "tool_choice: only 'none' and 'auto' are served; the model cannot be made to call a tool.",
            param="tool_choice",
        )
    if request.response_format is not None and request.response_format.type != "text":
        raise RequestError(
            f"response_format.type: '{request.response_format.type}' is not served, only 'text'.",
            param="response_format",
        )


def _message(message: Message, index: int) -> dict[str, Any]:
    # Templates know no developers: what a developer says is what a system prompt says.
    plain: dict[str, Any] = {"role": "system" if message.role == "developer" else message.role}
    # Templates print content as it is, so that None would come out as a word.
    plain["content"] = (
        _text(message.content, index) if isinstance(message.content, list) else message.content or ""
    )
    if message.tool_calls:
        plain["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    for field in ("name", "tool_call_id", "reasoning_content"):
        if value := getattr(message, field):
            plain[field] = value
    return plain


def _tool_call(call: EchoedToolCall) -> dict[str, Any]:
    """In one form, whatever the client's: templates may print a call as it comes."""
    arguments = call.function.arguments
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": call.function.name, "arguments": arguments}
    return {**({"id": call.id} if call.id else {}), "type": call.type, "function": function}


def _text(parts: Sequence[ContentPart], index: int) -> str:
    for position, part in enumerate(parts):
        if part.type != "text" or part.text is None:
            raise RequestError(
                f"messages[{index}].content[{position}]: a part of type '{part.type}'"
                f"{' without text' if part.type == 'text' else ''} is not served, only text.",
                param=f"messages[{index}].content[{position}]",
                code="unsupported_content",
            )
    return "\n".join(part.text or "" for part in parts)


def _logit_bias(biases: Mapping[str, float], vocabulary_size: int) -> tuple[tuple[int, float], ...]:
    for key in biases:
        # The length first: Python refuses to read a number of thousands of digits.
        if not (
            len(key) <= _TOKEN_ID_DIGITS and key.isascii() and key.isdigit() and int(key) < vocabulary_size
        ):
            raise RequestError(
                f"logit_bias: '{key[:20]}' is not a token id of this model (0 to {vocabulary_size - 1}).",
                param="logit_bias",
            )
    return tuple(sorted((int(key), bias) for key, bias in biases.items()))


def _without(biases: tuple[tuple[int, float], ...], token: int | None) -> tuple[tuple[int, float], ...]:
    return biases if token is None else tuple(sorted({**dict(biases), token: _NEVER}.items()))


def _or(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
