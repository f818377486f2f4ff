"""From a chat request to what a model and an engine take. Pure; what is not served is refused by its name."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from app.api.asked import Asked, logit_bias, stop_strings, without_calls
from app.api.conversation import template_kwargs, tool_call, tool_use, unserved_part
from app.api.openai.schema import ChatRequest, ContentPart, Message, ResponseFormat
from app.api.ports import ChatModel, ChatPrompt, ReplySchema
from app.api.sessions import session_of
from app.api.wishes import call_wish, reply_schema
from app.errors import RequestError
from app.scheduler.job import Sampling

T = TypeVar("T")


def asked(request: ChatRequest, headers: Mapping[str, str], model: ChatModel) -> Asked:
    """The request in the program's own terms.

    Raises:
        RequestError: something of it cannot be served.
    """
    prompt = chat_prompt(request)
    wish = call_wish(request.tool_choice)
    return Asked(
        model=request.model,
        prompt=prompt,
        session=session_of(headers, prompt_cache_key=request.prompt_cache_key, user=request.user),
        sampling=sampling(request, vocabulary_size=model.vocabulary_size, call_token=model.call_token),
        stop=stop_strings(request.stop),
        tools=tool_use(
            prompt.tools,
            forbidden=wish.forbidden,
            parallel=request.parallel_tool_calls is not False,
            must=wish.must,
            only=wish.only,
        ),
        schema=_schema(request.response_format),
        max_tokens=request.max_completion_tokens or request.max_tokens,
        use_snapshots=request.cache_prompt is not False,
        stream=bool(request.stream),
        replies=request.n or 1,
    )


def chat_prompt(request: ChatRequest) -> ChatPrompt:
    """The conversation as a chat template takes it.

    Raises:
        RequestError: content that is not text, or something of the model that is not served.
    """
    return ChatPrompt(
        messages=tuple(_message(message, index) for index, message in enumerate(request.messages)),
        # Those that may not be called as well: without them the prompt would begin otherwise, and no state
        # of the conversation could be used.
        tools=tuple(msgspec.to_builtins(tool) for tool in request.tools) if request.tools else None,
        template_kwargs=template_kwargs(request.chat_template_kwargs),
    )


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
        logit_bias=without_calls(
            logit_bias(request.logit_bias, vocabulary_size),
            call_token if request.tools and request.tool_choice == "none" else None,
        ),
        top_logprobs=_or(request.top_logprobs, 0) if request.logprobs else None,
    )


def _schema(asked: ResponseFormat | None) -> ReplySchema | None:
    if asked is None:
        return None
    wanted = None if asked.json_schema is None else asked.json_schema.schema
    return reply_schema(asked.type, wanted, field="response_format")


def _message(message: Message, index: int) -> dict[str, Any]:
    # Templates know no developers: what a developer says is what a system prompt says.
    plain: dict[str, Any] = {"role": "system" if message.role == "developer" else message.role}
    # Templates print content as it is, so that None would come out as a word.
    plain["content"] = (
        _text(message.content, index) if isinstance(message.content, list) else message.content or ""
    )
    if message.tool_calls:
        plain["tool_calls"] = [
            tool_call(call.id, call.function.name, call.function.arguments) for call in message.tool_calls
        ]
    for field in ("name", "tool_call_id", "reasoning_content"):
        if value := getattr(message, field):
            plain[field] = value
    return plain


def _text(parts: Sequence[ContentPart], index: int) -> str:
    for position, part in enumerate(parts):
        if part.type != "text" or part.text is None:
            kind = f"{part.type}' without 'text" if part.type == "text" else part.type
            raise unserved_part(kind, f"messages[{index}].content[{position}]")
    return "\n".join(part.text or "" for part in parts)


def _or(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
