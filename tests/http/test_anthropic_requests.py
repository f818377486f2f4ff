"""What Anthropic's official client asks over a real listener, as it reaches the model."""

from typing import Any

import pytest

from tests.support.messages_client import HELLO, NOW, PROMPT, SAID, client_of, whole
from tests.support.serving import serving


async def test_a_conversation_reaches_the_template_as_any_other_apis() -> None:
    """System blocks, thinking, calls and results are what OpenAI's clients would have sent."""
    async with serving() as served:
        said = await whole(served, SAID, tools=[NOW])
        calls = [block for block in said.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": calls[0].id, "content": "noon"},
            {
                "type": "tool_result",
                "tool_use_id": calls[1].id,
                "content": [{"type": "text", "text": "late"}],
                "is_error": False,
            },
            {"type": "text", "text": "So?", "cache_control": {"type": "ephemeral"}},
        ]
        await whole(
            served,
            "It is noon.",
            tools=[NOW],
            system=[
                {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Be brief."},
            ],
            messages=[
                *HELLO,
                {"role": "assistant", "content": [block.model_dump() for block in said.content]},
                {"role": "user", "content": results},
            ],
        )

    chat, _, _ = served.model.prepared[-1]
    system, _, assistant, first, second, last = chat.messages
    assert system == {"role": "system", "content": "Be kind.\nBe brief."}
    assert (assistant["content"], assistant["reasoning_content"]) == ("One moment.", "hm")
    assert [call["function"] for call in assistant["tool_calls"]] == [
        {"name": "now", "arguments": '{"town": "Zürich"}'},
        {"name": "now", "arguments": '{"town": "Bern"}'},
    ]
    assert first == {"role": "tool", "content": "noon", "tool_call_id": calls[0].id}
    assert second == {"role": "tool", "content": "late", "tool_call_id": calls[1].id}
    assert last == {"role": "user", "content": "So?"}
    function = {"name": "now", "description": "What time it is.", "parameters": {"type": "object"}}
    assert chat.tools == ({"type": "function", "function": function},)


async def test_a_providers_own_tools_are_not_offered() -> None:
    """Nobody here could run them; the model is told of the client's tools alone."""
    async with serving() as served:
        search: Any = {"type": "web_search_20250305", "name": "web_search"}
        await whole(served, "Hi", tools=[search, NOW])
        await whole(served, "Hi", tools=[search])

    assert [tool["function"]["name"] for tool in served.model.prepared[0][0].tools or ()] == ["now"]
    assert served.model.prepared[1][0].tools is None


async def test_thinking_that_is_not_wanted_is_said_to_the_template() -> None:
    """Where it is wanted, the template's own way is left alone."""
    async with serving() as served:
        for thinking in ({"type": "disabled"}, {"type": "enabled", "budget_tokens": 1024}):
            await whole(served, "Hi", thinking=thinking, max_tokens=2048)

    assert [dict(chat.template_kwargs) for chat, _, _ in served.model.prepared] == [
        {"enable_thinking": False},
        {},
    ]


async def test_one_call_at_a_time_where_the_client_wants_no_more() -> None:
    """The reply ends with its first call."""
    async with serving() as served:
        choice: Any = {"type": "auto", "disable_parallel_tool_use": True}
        message = await whole(served, SAID, tools=[NOW], tool_choice=choice)

    assert [block.input for block in message.content if block.type == "tool_use"] == [{"town": "Zürich"}]


@pytest.mark.parametrize(
    ("options", "session"),
    [
        ({"metadata": {"user_id": "user_1_account_2_session_6a9c"}}, "6a9c"),
        ({"extra_headers": {"X-Claude-Code-Session-Id": "talk"}}, "talk"),
        ({"extra_body": {"prompt_cache_key": "key"}}, "key"),
    ],
)
async def test_a_conversation_is_named_as_clients_name_it(options: Any, session: str) -> None:
    """By the session part of the user's id, by a header, or by the field of the other APIs."""
    async with serving() as served:
        await whole(served, "Hi", **options)

    assert served.model.prepared[-1][1] == session


async def test_tokens_are_counted_without_a_reply() -> None:
    """The official client's count is the length of the prompt that the same message would have."""
    async with serving() as served, client_of(served) as client:
        count = await client.messages.count_tokens(model="scripted", messages=HELLO, system="Be kind.")

        assert count.input_tokens == len("system: Be kind.\n" + PROMPT)
        assert not served.engine.has_job
