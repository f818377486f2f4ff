"""Structured output end to end: the official client, real processes, a trained model and a random one."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import jsonschema
import pytest
from openai import BadRequestError
from pydantic import BaseModel, Field

from tests.support.marked import marked_model
from tests.support.process import samovar

ASKED: Any = {"role": "user", "content": "Describe a town in Switzerland as JSON."}
AGAIN: Any = {"role": "user", "content": "Now another one."}
ARGUMENTS: Any = {
    "type": "object",
    "properties": {
        "town": {"enum": ["Bern", "Chur"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["town", "days"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": ARGUMENTS}}
NOW: Any = {"type": "function", "function": {"name": "now"}}


class Town(BaseModel):
    """A town as a client would have it: a choice, bounds, and what may be missing."""

    name: str = Field(max_length=10)
    kind: Literal["village", "town", "city"]
    people: int = Field(ge=0, le=999_999)
    twin: Literal["yes"] | None


@pytest.mark.slow
def test_the_demo_model_answers_in_the_clients_own_model(tmp_path):
    """Whole, in a stream beside it, and in the second turn from a snapshot; what is cut is cut JSON."""
    with samovar(folder=tmp_path) as server, ThreadPoolExecutor(2) as pool:
        client = server.client()
        told: Any = {"model": server.model, "temperature": 0, "max_tokens": 80}

        def parse(*messages: Any) -> Any:
            return client.chat.completions.parse(
                messages=list(messages), response_format=Town, extra_body={"prompt_cache_key": "talk"}, **told
            )

        def stream() -> tuple[str, Any]:
            with client.chat.completions.stream(messages=[ASKED], response_format=Town, **told) as events:
                text = "".join(event.delta for event in events if event.type == "content.delta")
                return text, events.get_final_completion().choices[0].message.parsed

        asked, streamed = pool.submit(parse, ASKED), pool.submit(stream)
        said, (text, parsed) = asked.result().choices[0].message, streamed.result()
        second = parse(ASKED, {"role": "assistant", "content": said.content}, AGAIN)
        cut = client.chat.completions.create(
            messages=[ASKED], response_format={"type": "json_object"}, **{**told, "max_tokens": 4}
        ).choices[0]

    assert isinstance(said.parsed, Town)
    assert isinstance(parsed, Town)
    assert Town.model_validate_json(text) == parsed
    assert isinstance(second.choices[0].message.parsed, Town)
    assert second.usage.prompt_tokens_details.cached_tokens > 0
    assert (cut.finish_reason, cut.message.content[0]) == ("length", "{")


def test_a_random_model_calls_as_it_is_told_to(tmp_path):
    """Required, by name, strict, and in a stream: every call is of a tool that was offered, by its schema."""
    folder = tmp_path / "model"
    marked_model(folder, ("<tool_call>", "</tool_call>"), parser="json_tools")
    with samovar("--model", str(folder), folder=tmp_path) as server:
        client = server.client()

        def calls(seed: int, **fields: Any) -> list[tuple[str, Any]]:
            answer: Any = client.chat.completions.create(
                model=server.model,
                messages=[{"role": "user", "content": "Call."}],
                tools=[TOOL, NOW],
                seed=seed,
                max_tokens=2000,
                **fields,
            )
            choice = answer.choices[0]
            assert choice.finish_reason == "tool_calls"
            assert choice.message.content is None
            made = choice.message.tool_calls
            return [(call.function.name, json.loads(call.function.arguments)) for call in made]

        required = [calls(seed, tool_choice="required") for seed in range(3)]
        one = [calls(seed, tool_choice="required", parallel_tool_calls=False) for seed in range(2)]
        named = calls(1, tool_choice={"type": "function", "function": {"name": "weather"}})
        with client.chat.completions.stream(
            model=server.model,
            messages=[{"role": "user", "content": "Call."}],
            tools=[TOOL],
            tool_choice="required",
            parallel_tool_calls=False,
            seed=2,
        ) as events:
            streamed: Any = events.get_final_completion().choices[0].message.tool_calls
        bad: Any = {"type": "function", "function": {"name": "bad", "parameters": {"not": {}}}}
        with pytest.raises(BadRequestError) as refused:
            client.chat.completions.create(
                model=server.model,
                messages=[{"role": "user", "content": "Call."}],
                tools=[bad],
                tool_choice="required",
            )

    made = [call for reply in (*required, *one, named) for call in reply]
    made += [(call.function.name, json.loads(call.function.arguments)) for call in streamed]
    for name, arguments in made:
        assert name in {"weather", "now"}
        jsonschema.validate(arguments, ARGUMENTS if name == "weather" else {"maxProperties": 0})
    assert list(map(len, one)) == [1, 1]
    assert [name for name, _ in named] == ["weather"]
    assert len(streamed) == 1
    assert (refused.value.param, refused.value.code) == ("tools", "unsupported_schema")
