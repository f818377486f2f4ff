"""Every API in its official client, against a real server: tools, streams, and the one store behind all."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest
from anthropic import Anthropic

from app.vocabulary import Warmup
from tests.support.process import Samovar, labelled, samovar
from tests.support.tool_talk import ANSWER, QUESTION, TOOL, TOWNS, make_calling_model, results
from tests.support.warm_talk import wait_for_warmups

SLACK_TOKENS = 16
FUNCTION = TOOL["function"]
SESSION = "talk"


class Step:
    """What came of one step: the towns asked for, the text, and the tokens of the prompt and of the reply."""

    def __init__(
        self, calls: Sequence[tuple[str, Any]], text: str, prompt: int, cached: int, generated: int
    ) -> None:
        self.call_ids = [call_id for call_id, _ in calls]
        self.towns = [arguments["town"] for _, arguments in calls]
        self.text = text
        self.prompt = prompt
        self.cached = cached
        self.told = prompt + generated


class ChatAgent:
    """OpenAI's chat completions."""

    def __init__(self, server: Samovar) -> None:
        self._server = server

    def ask(self, steps: Sequence[tuple[Any, Mapping[str, Any]]]) -> tuple[Step, Any]:
        """The next step, and what of it goes into the conversation."""
        messages: list[Any] = [QUESTION]
        for said, result in steps:
            called = [
                {"id": call_id, "type": "function", "function": function}
                for call_id, function in said["calls"]
            ]
            messages += [
                {"role": "assistant", "content": said["text"], "tool_calls": called},
                {**result, "tool_call_id": said["calls"][0][0]},
            ]
        reply: Any = self._server.client().chat.completions.create(
            model=self._server.model,
            messages=messages,
            tools=[TOOL],  # type: ignore[list-item]
            temperature=0,
            extra_body={"prompt_cache_key": SESSION},
        )
        message, usage = reply.choices[0].message, reply.usage
        calls = [(call.id, call.function) for call in message.tool_calls or ()]
        step = Step(
            [(call_id, json.loads(function.arguments)) for call_id, function in calls],
            message.content or "",
            usage.prompt_tokens,
            usage.prompt_tokens_details.cached_tokens or 0,
            usage.completion_tokens,
        )
        return step, {
            "text": step.text,
            "calls": [
                (call_id, {"name": function.name, "arguments": function.arguments})
                for call_id, function in calls
            ],
        }


class MessagesAgent:
    """Anthropic's messages, streamed."""

    def __init__(self, server: Samovar) -> None:
        self._client = server.clients.enter_context(
            Anthropic(base_url=server.url, api_key="unused", max_retries=0)
        )
        self._model = server.model

    def ask(self, steps: Sequence[tuple[Any, Mapping[str, Any]]]) -> tuple[Step, Any]:
        """The next step, and what of it goes into the conversation."""
        messages: list[Any] = [QUESTION]
        for said, result in steps:
            thought = said.get("thinking")
            thinking = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
            text = [{"type": "text", "text": said["text"]}] if said["text"] else []
            uses = [
                {
                    "type": "tool_use",
                    "id": call_id,
                    "name": function["name"],
                    "input": json.loads(function["arguments"]),
                }
                for call_id, function in said["calls"]
            ]
            answer = {
                "type": "tool_result",
                "tool_use_id": said["calls"][0][0],
                "content": [{"type": "text", "text": result["content"]}],
            }
            messages += [
                {"role": "assistant", "content": [*thinking, *text, *uses]},
                {"role": "user", "content": [answer]},
            ]
        with self._client.messages.stream(
            model=self._model,
            max_tokens=200,
            messages=messages,
            tools=[
                {
                    "name": FUNCTION["name"],
                    "description": FUNCTION["description"],
                    "input_schema": FUNCTION["parameters"],
                }
            ],
            metadata={"user_id": f"user_0af7_account_11_session_{SESSION}"},
            extra_body={"temperature": 0},
        ) as stream:
            message = stream.get_final_message()
        calls = [block for block in message.content if block.type == "tool_use"]
        usage = message.usage
        cached = usage.cache_read_input_tokens or 0
        step = Step(
            [(call.id, call.input) for call in calls],
            "".join(block.text for block in message.content if block.type == "text"),
            usage.input_tokens + (usage.cache_creation_input_tokens or 0) + cached,
            cached,
            usage.output_tokens,
        )
        return step, {
            "thinking": "".join(block.thinking for block in message.content if block.type == "thinking"),
            "text": step.text,
            "calls": [(call.id, {"name": call.name, "arguments": json.dumps(call.input)}) for call in calls],
        }


class ResponsesAgent:
    """OpenAI's responses, streamed."""

    def __init__(self, server: Samovar) -> None:
        self._server = server

    def ask(self, steps: Sequence[tuple[Any, Mapping[str, Any]]]) -> tuple[Step, Any]:
        """The next step, and what of it goes into the conversation."""
        items: list[Any] = [QUESTION]
        for said, result in steps:
            if thought := said.get("thinking"):
                parts = [{"type": "reasoning_text", "text": thought}]
                items.append({"type": "reasoning", "summary": [], "content": parts})
            if said["text"]:
                items.append({"role": "assistant", "content": said["text"]})
            items += [
                {"type": "function_call", "call_id": call_id, **function}
                for call_id, function in said["calls"]
            ]
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": said["calls"][0][0],
                    "output": result["content"],
                }
            )
        tools: Any = [{"type": "function", **FUNCTION}]
        with self._server.client().responses.stream(
            model=self._server.model,
            input=items,
            tools=tools,
            temperature=0,
            conversation=SESSION,
        ) as stream:
            response = stream.get_final_response()
        calls = [item for item in response.output if item.type == "function_call"]
        usage = response.usage
        assert usage is not None
        step = Step(
            [(call.call_id, json.loads(call.arguments)) for call in calls],
            response.output_text,
            usage.input_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens,
        )
        reasoning = [item for item in response.output if item.type == "reasoning"]
        return step, {
            "thinking": "".join(part.text for item in reasoning for part in item.content or ()),
            "text": step.text,
            "calls": [(call.call_id, {"name": call.name, "arguments": call.arguments}) for call in calls],
        }


@pytest.mark.parametrize(
    ("family", "style", "agents", "then"),
    [
        ("lfm2", "hermes", [MessagesAgent], Warmup.RUN),
        ("llama", "tool_loop", [ResponsesAgent], Warmup.COVERED),
        ("lfm2", "hermes", [ChatAgent, MessagesAgent, ResponsesAgent], Warmup.RUN),
        ("lfm2", "thinking_calls", [MessagesAgent, ResponsesAgent], Warmup.RUN),
    ],
    ids=["anthropic", "responses", "each step by another", "thinking sent back"],
)
def test_a_tool_loop_computes_only_what_is_new_whatever_the_api(tmp_path, family, style, agents, then):
    """From its second step on, in one API or in several by turns: it is one conversation, and one state."""
    folder = make_calling_model(tmp_path / "model", family, style)
    with samovar("--model", str(folder), "--trust-remote-code", folder=tmp_path) as server:
        steps: list[tuple[Any, Mapping[str, Any]]] = []
        told, extra, asked = 0, [], []
        for number, result in enumerate(results(TOWNS)):
            step, said = agents[number % len(agents)](server).ask(steps)
            asked += step.towns
            extra.append(told - step.cached)
            told = step.told
            steps.append((said, result))
            wait_for_warmups(server, number + 1, then)
        last, _ = agents[len(TOWNS) % len(agents)](server).ask(steps)
        metrics = server.metrics()

    assert tuple(asked) == TOWNS
    assert last.text.strip() == ANSWER
    assert max([*extra, told - last.cached]) <= SLACK_TOKENS
    assert metrics[labelled("samovar_snapshot_lookups_total", outcome="hit")] == len(TOWNS)
    assert (
        sum(
            metrics[labelled("samovar_requests_total", route=route, outcome="completed")]
            for route in ("/v1/chat/completions", "/v1/messages", "/v1/responses")
        )
        == len(TOWNS) + 1
    )


def test_a_conversation_goes_on_as_a_text(tmp_path, tiny_folder):
    """Rendered by the server, gone on with by the older API: the chat's state serves it, token for token."""
    messages: list[Any] = [
        {"role": "user", "content": "Tell me about the harbour, and about the ships in it."}
    ]
    with samovar("--model", str(tiny_folder("llama")), folder=tmp_path) as server:
        client = server.client()
        chat = client.chat.completions.create(
            model=server.model,
            messages=messages,
            temperature=0,
            max_tokens=12,
            extra_body={"prompt_cache_key": SESSION},
        )
        messages += [
            {"role": "assistant", "content": chat.choices[0].message.content},
            {"role": "user", "content": "And now?"},
        ]
        rendered = httpx.post(f"{server.url}/v1/apply-template", json={"messages": messages}).json()["prompt"]
        tokens = httpx.post(f"{server.url}/v1/tokenize", json={"messages": messages}).json()["tokens"]
        text = client.completions.create(
            model=server.model, prompt=rendered, temperature=0, extra_body={"prompt_cache_key": SESSION}
        )

    assert chat.usage is not None
    assert text.usage is not None
    assert text.usage.prompt_tokens == len(tokens)
    assert text.usage.prompt_tokens_details is not None
    assert (text.usage.prompt_tokens_details.cached_tokens or 0) >= chat.usage.prompt_tokens


def test_lines_that_change_cost_no_state_where_they_are_ignored(tmp_path, tiny_folder):
    """A client that counts its requests in the system prompt: cold with the line in it, warm without."""
    cached = {}
    for flags in ((), ("--snapshot-ignored-system-lines", "^x-billing:")):
        with samovar("--model", str(tiny_folder("lfm2")), *flags, folder=tmp_path) as server:
            client = server.clients.enter_context(
                Anthropic(base_url=server.url, api_key="unused", max_retries=0)
            )
            headers, read = [], []
            for number in range(2):
                asked = client.messages.with_raw_response.create(
                    model=server.model,
                    max_tokens=4,
                    system=f"x-billing: request={number}\nYou are a harbour master, and know all ships.",
                    messages=[{"role": "user", "content": "Which ships are there?"}],
                    extra_headers={"X-Session-Id": SESSION},
                )
                read.append(asked.parse().usage.cache_read_input_tokens)
                headers.append(asked.headers["x-samovar-cache"])
            cached[bool(flags)] = read[-1]
        if not flags:
            assert headers[1].startswith("miss; reused=0; reason=diverged; at=")
            assert int(headers[1].rpartition("=")[2]) > len("x-billing: request=")

    assert cached[False] == 0
    assert (cached[True] or 0) > 0
