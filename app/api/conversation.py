"""The parts of a conversation as chat templates take them, in one form whatever the API. Knows no API.

Templates may print a call or a tool as it comes, so that two forms of the same would be two prompts.
"""

import json
from collections.abc import Mapping
from typing import Any

from app.api.ports import ToolUse
from app.errors import RequestError

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
"""Names that decide what is rendered and how; a client that set them would not get an answer to its messages."""


def function_tool(
    name: str, description: str | None, parameters: Mapping[str, Any] | None, *, strict: bool | None = None
) -> dict[str, Any]:
    """A function the model may call."""
    told = {"name": name, "description": description, "parameters": parameters, "strict": strict}
    return {"type": "function", "function": {key: value for key, value in told.items() if value is not None}}


def tool_call(call_id: str | None, name: str, arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """A call that the assistant made."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": name, "arguments": arguments}
    return {**({"id": call_id} if call_id else {}), "type": "function", "function": function}


def tool_use(
    tools: tuple[Mapping[str, Any], ...] | None, *, forbidden: bool, parallel: bool
) -> ToolUse | None:
    """What the reply may call; None for nothing."""
    return ToolUse(tools=tools, parallel=parallel) if tools and not forbidden else None


def template_kwargs(asked: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Variables for the chat template.

    Raises:
        RequestError: one of them is not the client's to set.
    """
    if ours := sorted(_OURS_IN_TEMPLATES & (asked or {}).keys()):
        raise RequestError(
            f"chat_template_kwargs: {', '.join(ours)} cannot be set by a request.",
            param="chat_template_kwargs",
        )
    return asked or {}


def refuse_forced_call(asked: str, *, param: str) -> RequestError:
    """What to raise where the model is to be made to call a tool."""
    return RequestError(
        f"{param}: '{asked}' is not served, only 'none' and 'auto'; the model cannot be made to call a tool.",
        param=param,
    )


def unserved_part(kind: str, where: str, *, served: str = "text") -> RequestError:
    """What to raise for a part of a message that is not served."""
    return RequestError(
        f"{where}: a part of type '{kind}' is not served, only {served}.",
        param=where,
        code="unsupported_content",
    )
