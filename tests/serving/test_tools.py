"""An agent with tools, in OpenAI's own client, against a real server: a step computes what is new in it."""

import json
from typing import Any

import pytest

from app.vocabulary import Warmup
from tests.support.process import labelled, samovar
from tests.support.scripted_model import make_scripted_model
from tests.support.templates import HERMES
from tests.support.tool_talk import ANSWER, QUESTION, TOOL, make_calling_model, results
from tests.support.warm_talk import wait_for_warmups

TOWNS = ("Bern", "Basel", "Chur", "Genf", "Luzern", "Olten", "Sion", "Thun", "Zug", "Lugano")
SLACK_TOKENS = 16
AT_ONCE = "\n".join(
    f'<tool_call>\n{{"name": "weather", "arguments": {{"town": "{town}"}}}}\n</tool_call>'
    for town in TOWNS[:2]
)


def whole(client, **request) -> tuple[Any, Any]:
    """The choice and the usage of a reply that comes in one."""
    completion = client.chat.completions.create(**request)
    return completion.choices[0], completion.usage


def streamed(client, **request) -> tuple[Any, Any]:
    """The same of a stream, as the client puts it together."""
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        completion = stream.get_final_completion()
    return completion.choices[0], completion.usage


class Agent:
    """Asks, and answers each call; `extra_tokens` is what each prompt cost beyond its new messages."""

    def __init__(self, server, reply) -> None:
        self._server = server
        self._reply = reply
        self._told_tokens = 0
        self.messages: list[Any] = [QUESTION]
        self.extra_tokens: list[int] = []

    def ask(self, **more: Any) -> Any:
        """The next reply's choice; its message is in the conversation then, as the client has it."""
        choice, usage = self._reply(
            self._server.client(),
            model=self._server.model,
            messages=self.messages,
            tools=[TOOL],
            temperature=0,
            max_tokens=200,
            **more,
        )
        cached = usage.prompt_tokens_details.cached_tokens
        self.extra_tokens.append(self._told_tokens - cached)
        self._told_tokens = usage.prompt_tokens + usage.completion_tokens
        self.messages.append(choice.message.model_dump(exclude_none=True))
        return choice

    def answer(self, call: Any, result: Any) -> None:
        """Send a call's result back with the next question."""
        self.messages.append({**result, "tool_call_id": call.id})


@pytest.mark.parametrize(
    ("family", "style", "reply", "then"),
    [("lfm2", "hermes", streamed, Warmup.RUN), ("llama", "tool_loop", whole, Warmup.COVERED)],
)
def test_from_the_second_of_ten_steps_on_only_what_is_new_is_computed(tmp_path, family, style, reply, then):
    """On a hybrid model by warm-up, on a dense one because what was said is in its state."""
    folder = make_calling_model(tmp_path / "model", family, style, TOWNS)
    with samovar("--model", str(folder), "--trust-remote-code", folder=tmp_path) as server:
        agent = Agent(server, reply)
        asked = []
        for step, result in enumerate(results(TOWNS), start=1):
            choice = agent.ask()
            assert choice.finish_reason == "tool_calls"
            (call,) = choice.message.tool_calls
            asked.append(json.loads(call.function.arguments)["town"])
            agent.answer(call, result)
            wait_for_warmups(server, step, then)
        choice = agent.ask()
        metrics = server.metrics()

    assert tuple(asked) == TOWNS
    assert (choice.message.content, choice.finish_reason) == (ANSWER, "stop")
    assert max(agent.extra_tokens) <= SLACK_TOKENS, agent.extra_tokens
    assert metrics[labelled("samovar_snapshot_lookups_total", outcome="hit")] == len(TOWNS)


@pytest.mark.parametrize("reply", [whole, streamed])
def test_calls_at_once_come_and_go_together(tmp_path, reply):
    """Two calls in one reply, two results in the next prompt; one or none, where the client wants it so."""
    two = results(TOWNS[:2])
    lines = [((QUESTION,), AT_ONCE), (two, ANSWER)]
    marks = ("<tool_call>", "</tool_call>")
    folder = make_scripted_model(tmp_path / "model", "lfm2", lines, chat_template=HERMES, more_tokens=marks)
    with samovar("--model", str(folder), "--trust-remote-code", folder=tmp_path) as server:
        agent = Agent(server, reply)
        choice = agent.ask()
        wait_for_warmups(server, 1)
        for call, result in zip(choice.message.tool_calls, two, strict=True):
            agent.answer(call, result)
        answer = agent.ask().message.content
        single = Agent(server, reply).ask(parallel_tool_calls=False).message.tool_calls
        # The client's stream helper takes a reply that goes to its limit for an error.
        none = Agent(server, whole).ask(tool_choice="none")

    towns = [json.loads(call.function.arguments)["town"] for call in choice.message.tool_calls]
    assert towns == list(TOWNS[:2])
    assert not choice.message.content
    assert answer == ANSWER
    assert max(agent.extra_tokens) <= SLACK_TOKENS
    assert [json.loads(call.function.arguments)["town"] for call in single] == list(TOWNS[:1])
    assert none.message.tool_calls is None
    assert "<tool_call>" not in none.message.content, "the model was kept from it, and not only its client"
