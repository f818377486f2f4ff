"""From Anthropic's request to what a model and an engine take. Pure; what is not served is refused."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.api.anthropic.schema import Block, Message, MessagesRequest, PromptRequest, Tool, ToolChoice
from app.api.asked import Asked, stop_strings, without_calls
from app.api.conversation import (
    function_tool,
    template_kwargs,
    tool_call,
    tool_use,
    unserved_part,
)
from app.api.ports import ChatModel, ChatPrompt
from app.api.sessions import session_of
from app.errors import RequestError
from app.scheduler.job import Sampling

_OWN_TOOL = (None, "custom")
"""The types of tools that the client runs; all others are the provider's own."""

_CHOICES = ("auto", "none", "any", "tool")

_FOR_USERS = "text and tool_result"
_FOR_ASSISTANTS = "text, thinking and tool_use"


def asked(request: MessagesRequest, headers: Mapping[str, str], model: ChatModel) -> Asked:
    """The request in the program's own terms.

    Raises:
        RequestError: something of it cannot be served.
    """
    prompt = chat_prompt(request)
    choice = request.tool_choice or ToolChoice(type="auto")
    forbidden = choice.type == "none"
    return Asked(
        model=request.model,
        prompt=prompt,
        session=session_of(
            headers,
            prompt_cache_key=request.prompt_cache_key,
            metadata_user_id=request.metadata.user_id if request.metadata else None,
        ),
        sampling=Sampling(
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=request.top_k or 0,
            logit_bias=without_calls((), model.call_token if prompt.tools and forbidden else None),
        ),
        stop=stop_strings(request.stop_sequences, param="stop_sequences"),
        tools=tool_use(
            prompt.tools,
            forbidden=forbidden,
            parallel=not choice.disable_parallel_tool_use,
            must=choice.type in ("any", "tool"),
            only=choice.name if choice.type == "tool" else None,
        ),
        max_tokens=request.max_tokens,
        use_snapshots=request.cache_prompt is not False,
        stream=bool(request.stream),
    )


def chat_prompt(request: PromptRequest) -> ChatPrompt:
    """The conversation as a chat template takes it.

    Raises:
        RequestError: content or a choice of tools that is not served.
    """
    choice = request.tool_choice
    if choice is not None and choice.type not in _CHOICES:
        raise RequestError(f"tool_choice.type: only {', '.join(_CHOICES)} are served.", param="tool_choice")
    if choice is not None and choice.type == "tool" and choice.name is None:
        raise RequestError("tool_choice: one of type 'tool' needs a name.", param="tool_choice")
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": _text(request.system, "system")})
    for index, message in enumerate(request.messages):
        messages += _messages(message, f"messages[{index}].content")
    kwargs = template_kwargs(request.chat_template_kwargs)
    if request.thinking is not None and request.thinking.type == "disabled":
        # Where it is wanted, the model's own way is left alone, so that the prompt is any other client's.
        kwargs = {"enable_thinking": False, **kwargs}
    return ChatPrompt(
        messages=tuple(messages),
        tools=tuple(map(_tool, _own(request.tools or ()))) or None,
        template_kwargs=kwargs,
    )


def _own(tools: Sequence[Tool]) -> Iterator[Tool]:
    return (tool for tool in tools if tool.type in _OWN_TOOL)


def _tool(tool: Tool) -> dict[str, Any]:
    return function_tool(tool.name, tool.description, tool.input_schema)


def _messages(message: Message, where: str) -> Iterator[dict[str, Any]]:
    if isinstance(message.content, str):
        yield {"role": message.role, "content": message.content}
    elif message.role == "assistant":
        yield _assistant(message.content, where)
    elif message.role == "system":
        yield {"role": "system", "content": _text(message.content, where)}
    else:
        yield from _user(message.content, where)


def _assistant(blocks: Sequence[Block], where: str) -> dict[str, Any]:
    said: list[str] = []
    thought: list[str] = []
    calls: list[dict[str, Any]] = []
    for position, block in enumerate(blocks):
        match block:
            case Block(type="text", text=str(text)):
                said.append(text)
            case Block(type="thinking", thinking=str(text)):
                thought.append(text)
            case Block(type="redacted_thinking"):
                # Nobody but its provider can read it.
                pass
            case Block(type="tool_use", name=str(name)):
                calls.append(tool_call(block.id, name, block.input or {}))
            case _:
                raise unserved_part(block.type, f"{where}[{position}]", served=_FOR_ASSISTANTS)
    # Blocks of one reply, so that nothing is put between them: this is how the model said it.
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said)}
    if calls:
        message["tool_calls"] = calls
    if thinking := "".join(thought):
        message["reasoning_content"] = thinking
    return message


def _user(blocks: Sequence[Block], where: str) -> Iterator[dict[str, Any]]:
    """Results become messages of their own, as templates know them; text follows as the user's."""
    said: list[Block] = []
    for position, block in enumerate(blocks):
        at = f"{where}[{position}]"
        match block:
            case Block(type="text", text=str()):
                said.append(block)
            case Block(type="tool_result"):
                result = {"role": "tool", "content": _text(block.content or "", f"{at}.content")}
                yield {**result, **({"tool_call_id": block.tool_use_id} if block.tool_use_id else {})}
            case _:
                raise unserved_part(block.type, at, served=_FOR_USERS)
    if said or not blocks:
        yield {"role": "user", "content": _text(said, where)}


def _text(content: str | Sequence[Block], where: str) -> str:
    if isinstance(content, str):
        return content
    for position, block in enumerate(content):
        if block.type != "text" or block.text is None:
            raise unserved_part(block.type, f"{where}[{position}]")
    return "\n".join(block.text or "" for block in content)
