"""From a request for a response to what a model and an engine take. Pure; what is not served is refused."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.api.asked import Asked, without_calls
from app.api.conversation import (
    function_tool,
    template_kwargs,
    tool_call,
    tool_use,
    unserved_part,
)
from app.api.ports import ChatModel, ChatPrompt
from app.api.responses.schema import Conversation, FunctionTool, Item, Part, ResponsesRequest
from app.api.sessions import session_of
from app.api.wishes import call_wish, reply_schema
from app.errors import RequestError
from app.scheduler.job import Sampling

_TEXTS = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})
_SERVED_ITEMS = "message, reasoning, function_call and function_call_output"


def asked(request: ResponsesRequest, headers: Mapping[str, str], model: ChatModel) -> Asked:
    """The request in the program's own terms.

    Raises:
        RequestError: something of it cannot be served.
    """
    prompt = chat_prompt(request)
    wish = call_wish(request.tool_choice)
    form = request.text.format if request.text is not None else None
    return Asked(
        model=request.model,
        prompt=prompt,
        session=session_of(
            headers,
            prompt_cache_key=request.prompt_cache_key,
            conversation=conversation_id(request),
            user=request.user,
        ),
        sampling=Sampling(
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            logit_bias=without_calls((), model.call_token if prompt.tools and wish.forbidden else None),
        ),
        tools=tool_use(
            prompt.tools,
            forbidden=wish.forbidden,
            parallel=request.parallel_tool_calls is not False,
            must=wish.must,
            only=wish.only,
        ),
        schema=None if form is None else reply_schema(form.type, form.schema, field="text.format"),
        max_tokens=request.max_output_tokens,
        use_snapshots=request.cache_prompt is not False,
        stream=bool(request.stream),
    )


def conversation_id(request: ResponsesRequest) -> str | None:
    """The conversation by its name, in whichever form it came."""
    named = request.conversation
    return named.id if isinstance(named, Conversation) else named


def chat_prompt(request: ResponsesRequest) -> ChatPrompt:
    """The conversation as a chat template takes it.

    Raises:
        RequestError: an item that is not served, or something that takes stored responses.
    """
    _refuse_unserved(request)
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        messages.append({"role": "user", "content": request.input})
    else:
        for index, item in enumerate(request.input):
            _add(messages, item, f"input[{index}]")
    if not messages:
        raise RequestError("input: must not be empty.", param="input")
    return ChatPrompt(
        messages=tuple(messages),
        tools=tuple(map(_tool, filter(_is_offered, request.tools or ()))) or None,
        template_kwargs=template_kwargs(request.chat_template_kwargs),
    )


def _refuse_unserved(request: ResponsesRequest) -> None:
    if request.previous_response_id:
        raise RequestError(
            "previous_response_id: responses are not stored here; send the conversation's items as input, and"
            " name it by prompt_cache_key or conversation, so that its state is found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    if request.background:
        raise RequestError("background: only false is served; no response is stored.", param="background")
    if request.prompt is not None:
        raise RequestError("prompt: is not served; send the text itself as input.", param="prompt")
    if request.top_logprobs:
        raise RequestError("top_logprobs: is served by chat completions only.", param="top_logprobs")


def _is_offered(tool: FunctionTool) -> bool:
    """Others are run by their provider, who is not there, so that the model is not told of them."""
    return tool.type == "function"


def _tool(tool: FunctionTool) -> dict[str, Any]:
    if not tool.name:
        raise RequestError("tools: a function has a name.", param="tools")
    return function_tool(tool.name, tool.description, tool.parameters, strict=tool.strict)


def _add(messages: list[dict[str, Any]], item: Item, where: str) -> None:
    """Add an item; those of one reply become one message, as templates know it."""
    match item:
        case Item(type=None | "message", role="assistant"):
            turn = _turn(messages)
            turn["content"] += _text(item.content, f"{where}.content", between="")
        case Item(type=None | "message", role=str(role)):
            said = _text(item.content, f"{where}.content")
            if role in ("system", "developer"):
                _add_system(messages, said)
            else:
                messages.append({"role": role, "content": said})
        case Item(type="reasoning"):
            thought = _text(item.content or item.summary, where, between="")
            if thought:
                turn = _turn(messages)
                turn["reasoning_content"] = turn.get("reasoning_content", "") + thought
        case Item(type="function_call", name=str(name)):
            call = tool_call(item.call_id, name, item.arguments or "")
            _turn(messages).setdefault("tool_calls", []).append(call)
        case Item(type="function_call_output"):
            result = {"role": "tool", "content": _text(item.output, f"{where}.output")}
            messages.append({**result, **({"tool_call_id": item.call_id} if item.call_id else {})})
        case _:
            raise RequestError(
                f"{where}: an item of type '{item.type or 'message'}' is not served as it is here, only"
                f" {_SERVED_ITEMS}, each with its own fields.",
                param=where,
                code="unsupported_content",
            )


def _turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message that is being put together, or a new one."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _add_system(messages: list[dict[str, Any]], said: str) -> None:
    # Many templates take one system message, at the beginning; instructions and a developer make two.
    if messages and all(message["role"] == "system" for message in messages):
        messages[-1]["content"] += f"\n\n{said}"
    else:
        messages.append({"role": "system", "content": said})


def _text(content: str | Sequence[Part] | None, where: str, *, between: str = "\n") -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for position, part in enumerate(content):
        if part.type not in _TEXTS or part.text is None:
            raise unserved_part(part.type, f"{where}[{position}]")
    return between.join(part.text or "" for part in content)
