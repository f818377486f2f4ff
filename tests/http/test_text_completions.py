"""`/v1/completions` over a real listener, as OpenAI's own client speaks and reads it."""

import asyncio
from typing import Any

import pytest

from app.vocabulary import Outcome
from tests.http.test_chat import openai
from tests.support.scripted_engine import ANSWER, CALL, THINK
from tests.support.serving import Serving, serving


async def whole(served: Serving, said: str, prompt: Any = "Once", **fields: Any) -> Any:
    """A completion that comes in one, and its job."""
    async with openai(served) as client:
        return await asyncio.gather(
            client.completions.create(model="scripted", prompt=prompt, **fields), served.engine.answer(said)
        )


async def test_a_text_is_gone_on_with_as_it_stands() -> None:
    """No template is put around it, and what looks like thinking or a call is text of the reply."""
    said = f"{THINK}upon{ANSWER} a {CALL}time"
    async with serving() as served:
        completion, job = await whole(served, said)

    (choice,) = completion.choices
    assert "".join(map(chr, job.tokens)) == "Once"
    assert choice.text == said
    assert (choice.finish_reason, choice.index, choice.logprobs) == ("stop", 0, None)
    assert (completion.object, completion.id, completion.model) == ("text_completion", job.id, "scripted")
    assert completion.usage.prompt_tokens == 4
    assert completion.usage.completion_tokens == len(said) + 1
    assert completion.usage.prompt_tokens_details.cached_tokens == 0
    assert job.max_tokens == 16


@pytest.mark.parametrize("prompt", ["Hi", ["Hi"], [72, 105], [[72, 105]]])
async def test_a_prompt_is_text_or_tokens_or_a_list_of_one(prompt: Any) -> None:
    """All four are the same tokens."""
    async with serving() as served:
        _, job = await whole(served, "!", prompt)

    assert job.tokens == (72, 105)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, "b"]}, "prompt"),
        ({"prompt": [[1], [2]]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [0x110000]}, "prompt"),
        ({"prompt": "x" * 5000}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"n": 17}, "n"),
        ({"logprobs": 21}, "logprobs"),
        ({"stop": ""}, "stop"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
    ],
)
async def test_what_is_not_served_is_refused_by_name(fields: Any, param: str) -> None:
    """A 400 in OpenAI's shape that names the field."""
    async with serving() as served:
        response = await served.client.post("/v1/completions", json={"prompt": "Once", **fields})
        (event,) = await served.ended()

    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert (event.route, event.outcome) == ("/v1/completions", Outcome.INVALID)


async def test_a_stream_is_the_same_text_in_chunks() -> None:
    """With the reason at the end, and the usage where it is wanted."""
    async with serving() as served, openai(served) as client:

        async def read() -> list[Any]:
            stream = await client.completions.create(
                model="scripted", prompt="Once", stream=True, stream_options={"include_usage": True}
            )
            return [chunk async for chunk in stream]

        chunks, _ = await asyncio.gather(read(), served.engine.answer("upon a time"))

    *texts, last, usage = chunks
    assert "".join(chunk.choices[0].text for chunk in texts) == "upon a time"
    assert (last.choices[0].text, last.choices[0].finish_reason) == ("", "stop")
    assert (usage.choices, usage.usage.prompt_tokens) == ([], 4)


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_say_where_each_token_is(stream: bool) -> None:
    """Tokens, their log-probabilities, the likeliest ones, and the character each begins at."""
    async with serving() as served, openai(served) as client:

        async def read() -> list[Any]:
            answer: Any = await client.completions.create(
                model="scripted", prompt="Once", logprobs=2, stream=stream
            )
            chunks = [chunk async for chunk in answer] if stream else [answer]
            return [chunk.choices[0].logprobs for chunk in chunks if chunk.choices[0].logprobs]

        told, _ = await asyncio.gather(read(), served.engine.answer("upon"))

    assert [token for each in told for token in each.tokens] == ["u", "p", "o", "n", "\x04"]
    assert [offset for each in told for offset in each.text_offset] == [0, 1, 2, 3, 4]
    assert {value for each in told for value in each.token_logprobs} == {-0.5}
    assert [list(top) for each in told for top in each.top_logprobs] == [["a", "b"]] * 5


async def test_a_text_has_no_next_turn_to_prepare() -> None:
    """Nothing says how it goes on, and the engine is given nothing to compute."""
    async with serving(warmup=True, capture_content=True) as served:
        await whole(served, "upon")
        await whole(served, "upon", [72, 105])
        await served.ended(2)

        assert served.engine.warmups.empty()
        names = [span.name for span in served.spans.get_finished_spans()]
        assert names.count("text_completion scripted") == 2
        texts = [
            (span.attributes or {}).get("gen_ai.input.messages") for span in served.spans.get_finished_spans()
        ]
        assert sum("Once" in str(text) for text in texts) == 1
