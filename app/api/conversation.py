"""The parts of a conversation as chat templates take them, in one form whatever the API. Knows no API.

Templates may print a call or a tool as it comes, so that two forms of the same would be two prompts.
"""

import json
from collections.abc import Mapping
from typing import Any

from app.api.ports import ToolUse
from app.chat import NAMES_OF_OURS
from app.errors import RequestError


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
    tools: tuple[Mapping[str, Any], ...] | None,
    *,
    forbidden: bool,
    parallel: bool,
    must: bool = False,
    only: str | None = None,
) -> ToolUse | None:
    """What the reply may call; None for nothing. `only`: the one tool that it has to call, once.

    Raises:
        RequestError: it has to call what is not there.
    """
    if only is not None:
        tools = tuple(tool for tool in tools or () if tool["function"]["name"] == only)
    if must and not tools:
        raise RequestError(
            f"tool_choice: {'there are no tools' if only is None else f'there is no tool {only!r}'} to call.",
            param="tool_choice",
        )
    if not tools or forbidden:
        return None
    return ToolUse(tools=tools, parallel=parallel and only is None, must=must)


def template_kwargs(asked: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Variables for the chat template.

    Raises:
        RequestError: one of them is not the client's to set.
    """
    if ours := sorted(NAMES_OF_OURS & (asked or {}).keys()):
        raise RequestError(
            f"chat_template_kwargs: {', '.join(ours)} cannot be set by a request.",
            param="chat_template_kwargs",
        )
    return asked or {}


def unserved_part(kind: str, where: str, *, served: str = "text") -> RequestError:
    """What to raise for a part of a message that is not served."""
    return RequestError(
        f"{where}: a part of type '{kind}' is not served, only {served}.",
        param=where,
        code="unsupported_content",
    )
