"""A conversation with a real server that gives it time to prepare each next turn."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from app.vocabulary import Warmup
from tests.support.process import Samovar, labelled

WAIT_SECONDS = 60

USER_TURNS = tuple(
    {"role": "user", "content": text}
    for text in (
        "Tell me about the harbour, and about the ships in it.",
        "Which of them is the oldest, and where was it built?",
        "Who sails on it now?",
        "Thank you. And tomorrow?",
    )
)


@dataclass(frozen=True, slots=True)
class TalkTurn:
    """One turn: tokens of its prompt, of those the cached, those of its own new message; text and calls."""

    prompt_tokens: int
    cached_tokens: int
    own_tokens: int
    reply: str
    calls: tuple[str, ...] = ()

    @property
    def left_tokens(self) -> int:
        """What had to be computed before the reply."""
        return self.prompt_tokens - self.cached_tokens


def warm_talk(
    server: Samovar,
    new_messages: Sequence[Mapping[str, Any]],
    *,
    own_tokens: Callable[[Mapping[str, Any]], int],
    tools: Sequence[Mapping[str, Any]] = (),
    max_tokens: int = 40,
    wait_for: Warmup | None = Warmup.RUN,
    last: Warmup | None = None,
) -> list[TalkTurn]:
    """Talk at temperature 0, sending back what was received, and wait after each reply for its warm-up.

    `last` is what the last reply's warm-up comes to, if it is another outcome than the others'.
    A message of the role `tool` answers the call before it. Thinking is not sent back, as by most clients.
    """
    messages: list[Mapping[str, Any]] = []
    turns = []
    for number, message in enumerate(new_messages, start=1):
        messages.append({**message, **_answered(messages)} if message["role"] == "tool" else message)
        body = {
            "messages": messages,
            "temperature": 0,
            "max_tokens": max_tokens,
            "prompt_cache_key": "talk",
            **({"tools": list(tools)} if tools else {}),
        }
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=WAIT_SECONDS)
        reply = answer.raise_for_status().json()
        usage, said = reply["usage"], reply["choices"][0]["message"]
        calls = said.get("tool_calls") or []
        turns.append(
            TalkTurn(
                usage["prompt_tokens"],
                usage["prompt_tokens_details"]["cached_tokens"],
                own_tokens(message),
                said["content"] or "",
                tuple(f"{call['function']['name']} {call['function']['arguments']}" for call in calls),
            )
        )
        echo = {"role": "assistant", "content": said["content"], "tool_calls": calls or None}
        messages.append({key: value for key, value in echo.items() if value is not None})
        if last is not None and number == len(new_messages):
            wait_for_warmups(server, 1, last)
        elif wait_for is not None:
            wait_for_warmups(server, number, wait_for)
    return turns


def _answered(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {"tool_call_id": messages[-1]["tool_calls"][0]["id"]}


def wait_for_warmups(server: Samovar, count: int, outcome: Warmup = Warmup.RUN) -> None:
    """Read /metrics until so many warm-ups have had that outcome."""
    deadline = time.monotonic() + WAIT_SECONDS
    series = labelled("samovar_warmups_total", outcome=outcome)
    while server.metrics()[series] < count:
        assert time.monotonic() < deadline, server.output
