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

REWRITTEN = (_FOLDER / "rewritten.jinja").read_text()
"""The first line says whether a reply is asked for, so that no history is the beginning of a prompt."""

REPLYING = {
    "chatml": CHATML,
    "thinking_dropped": THINKING_DROPPED,
    "thinking_kept": THINKING_KEPT,
    "tool_loop": TOOL_LOOP,
}
"""Name → template, for those whose history is the beginning of the prompt."""
