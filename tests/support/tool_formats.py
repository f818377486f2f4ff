"""One and the same tool call as each family of models writes it, and tokenizers that are told to read it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlx_lm.tokenizer_utils import load as load_tokenizer

from tests.support.tiny import write_byte_tokenizer

ARGUMENTS = {"town": "Zürich", "days": 3, "hours": [6]}

TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "town": {"type": "string"},
                "days": {"type": "integer"},
                "hours": {"type": "array", "items": {"type": "integer"}},
            },
        },
    },
}

_GLM = (
    "<tool_call>weather\n<arg_key>town</arg_key>\n<arg_value>Zürich</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n"
    "<arg_key>hours</arg_key>\n<arg_value>[6]</arg_value>\n</tool_call>"
)

FORMATS: Mapping[str, str] = {
    "function_gemma": (
        "<start_function_call>call:weather{town:<escape>Zürich<escape>,days:3,hours:[6]}<end_function_call>"
    ),
    "gemma4": '<|tool_call>call:weather{town:<|"|>Zürich<|"|>,days:3,hours:[6]}<tool_call|>',
    "glm47": _GLM,
    "json_tools": (
        '<tool_call>\n{"name": "weather", "arguments": {"town": "Zürich", "days": 3, "hours": [6]}}\n'
        "</tool_call>"
    ),
    "kimi_k2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
        '{"town": "Zürich", "days": 3, "hours": [6]}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "kimi_k3": (
        '<|open|>tools<|sep|><|open|>call tool="weather" index="1"<|sep|>'
        '<|open|>argument key="town" type="string"<|sep|>Zürich<|close|>argument<|sep|>'
        '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
        '<|open|>argument key="hours" type="array"<|sep|>[6]<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|>"
    ),
    "laguna": _GLM,
    "longcat": (
        "<longcat_tool_call>weather<longcat_arg_key>town</longcat_arg_key>"
        "<longcat_arg_value>Zürich</longcat_arg_value><longcat_arg_key>days</longcat_arg_key>"
        "<longcat_arg_value>3</longcat_arg_value><longcat_arg_key>hours</longcat_arg_key>"
        "<longcat_arg_value>[6]</longcat_arg_value></longcat_tool_call>"
    ),
    "minicpm5": (
        '<function name="weather"><param name="town">Zürich</param><param name="days">3</param>'
        '<param name="hours">[6]</param></function>'
    ),
    "minimax_m2": (
        '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="town">Zürich</parameter>\n'
        '<parameter name="days">3</parameter>\n<parameter name="hours">[6]</parameter>\n'
        "</invoke>\n</minimax:tool_call>"
    ),
    "mistral": '[TOOL_CALLS]weather[ARGS]{"town": "Zürich", "days": 3, "hours": [6]}',
    "muse_spark": (
        '<atem:function_calls>\n<atem:invoke name="weather">\n'
        '<atem:parameter name="town">"Zürich"</atem:parameter>\n'
        '<atem:parameter name="days">3</atem:parameter>\n'
        '<atem:parameter name="hours">[6]</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
    ),
    "pythonic": '<|tool_call_start|>[weather(town="Zürich", days=3, hours=[6])]<|tool_call_end|>',
    "qwen3_coder": (
        "<tool_call>\n<function=weather>\n<parameter=town>\nZürich\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "<parameter=hours>\n[6]\n</parameter>\n</function>\n</tool_call>"
    ),
}
"""mlx-lm's name of the format → a call of `weather` with `ARGUMENTS`."""

TWO_CALLS: Mapping[str, str] = {
    "json_tools": "\n".join(
        f'<tool_call>\n{{"name": "weather", "arguments": {{"town": "{town}"}}}}\n</tool_call>'
        for town in ("Bern", "Chur")
    ),
    "mistral": '[TOOL_CALLS]weather[ARGS]{"town": "Bern"}[TOOL_CALLS]weather[ARGS]{"town": "Chur"}',
    "pythonic": '<|tool_call_start|>[weather(town="Bern"), weather(town="Chur")]<|tool_call_end|>',
    "qwen3_coder": "\n".join(
        f"<tool_call>\n<function=weather>\n<parameter=town>\n{town}\n</parameter>\n</function>\n</tool_call>"
        for town in ("Bern", "Chur")
    ),
}
"""The same with two calls at once, of one town each."""


def tokenizer_with(folder: Path, parser: str) -> Any:
    """mlx-lm's wrapper of a byte-level tokenizer whose settings name that parser."""
    write_byte_tokenizer(folder)
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "tool_parser_type": parser}))
    return load_tokenizer(folder)
