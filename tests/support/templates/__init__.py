"""Chat templates in the styles that real models have, each with its way of showing history."""

from pathlib import Path

from tests.support.tiny import CHATML

_FOLDER = Path(__file__).parent

THINKING_DROPPED = (_FOLDER / "thinking_dropped.jinja").read_text()
"""Thinking is shown in the turn under way and dropped from older ones; switched off, an empty think block
stands in the generation prompt and nowhere in history."""

THINKING_KEPT = (_FOLDER / "thinking_kept.jinja").read_text()
"""Every assistant turn shows its thinking again, if the client sends it."""

TOOL_LOOP = (_FOLDER / "tool_loop.jinja").read_text()
"""Tools in the system prompt, calls as JSON, results as turns of their own."""

HERMES = (_FOLDER / "hermes.jinja").read_text()
"""Tools in the system prompt, calls as JSON between marks, all results of one step in one user turn."""

XML_CALLS = (_FOLDER / "xml_calls.jinja").read_text()
"""Calls as tags, one for each argument."""

THINKING_CALLS = (_FOLDER / "thinking_calls.jinja").read_text()
"""Calls as JSON; thinking stays in the steps of a tool loop, and goes when the user speaks again."""

REWRITTEN = (_FOLDER / "rewritten.jinja").read_text()
"""The first line says which message is asked for, so that neither a history nor a prompt begins another."""

REPLYING = {
    "chatml": CHATML,
    "thinking_dropped": THINKING_DROPPED,
    "thinking_kept": THINKING_KEPT,
    "tool_loop": TOOL_LOOP,
    "hermes": HERMES,
    "xml_calls": XML_CALLS,
    "thinking_calls": THINKING_CALLS,
}
"""Name → template, for those whose history is the beginning of the prompt."""
