"""How families of models write a tool call, as a grammar. Knows neither tokens nor a compiler.

The forms are those of mlx-lm's parsers of the same names: what a grammar allows, its parser reads back.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from app.engine import call_json, call_literals, call_tags
from app.engine.call_writing import CallRules, Mark, OfferedTool
from app.engine.tool_calls import ToolFormat

_STYLES: Mapping[str, Callable[[ToolFormat, Sequence[OfferedTool], Mark], CallRules]] = {
    "function_gemma": call_literals.function_gemma,
    "gemma4": call_literals.gemma4,
    "json_tools": call_json.json_tools,
    "kimi_k2": call_json.kimi_k2,
    "mistral": call_json.mistral,
    "pythonic": call_literals.pythonic,
    **{name: partial(call_tags.tagged, form) for name, form in call_tags.FORMS.items()},
}

KNOWN = tuple(sorted(_STYLES))
"""The forms that have a grammar, by mlx-lm's names of their parsers."""


def call_rules(style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules | None:
    """The rules for calls of these tools; None for a form that is not known here.

    Args:
        style: how the model writes its calls.
        tools: at least one.
        mark: how a rule refers to a mark.

    Raises:
        RequestError: the form has no way to write a call of one of the tools.
    """
    make = _STYLES.get(style.name)
    return None if make is None else make(style, tools, mark)
