"""`/v1/tokenize`, `/v1/detokenize` and `/v1/apply-template` over a real listener."""

from typing import Any

import pytest

from tests.support.scripted_engine import BEGIN, UNRENDERABLE
from tests.support.serving import serving

HELLO: Any = [{"role": "user", "content": "Hé"}]
RENDERED = "user: Hé\n"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"content": "Hé"}, "Hé"),
        ({"prompt": "Hé"}, "Hé"),
        ({"content": ""}, ""),
        ({"content": "Hé", "add_special": True}, f"{BEGIN}Hé"),
        ({"prompt": "Hé", "add_special_tokens": True}, f"{BEGIN}Hé"),
        ({"messages": HELLO}, RENDERED),
        ({"messages": HELLO, "add_special": True}, RENDERED),
    ],
)
async def test_a_text_or_a_conversation_becomes_tokens(body: Any, text: str) -> None:
    """Under the names that either server has for the fields; a template begins its text itself."""
    async with serving() as served:
        plain = (await served.client.post("/v1/tokenize", json=body)).json()
        pieces = (await served.client.post("/v1/tokenize", json={**body, "with_pieces": True})).json()

    assert plain == {"tokens": [ord(each) for each in text], "count": len(text), "max_model_len": 4096}
    assert pieces == {**plain, "token_strs": list(text)}


async def test_tokens_become_the_text_again() -> None:
    """Whatever the text, and under both of its names."""
    async with serving() as served:
        tokens = (await served.client.post("/v1/tokenize", json={"content": "Hé!"})).json()["tokens"]
        back = (await served.client.post("/v1/detokenize", json={"tokens": tokens})).json()

    assert back == {"content": "Hé!", "prompt": "Hé!"}


async def test_a_template_is_applied_without_a_reply() -> None:
    """The text is what a chat completion of the messages goes on with, tools and developers included."""
    async with serving() as served:
        body = {"messages": [{"role": "developer", "content": "Be kind."}, *HELLO]}
        response = await served.client.post("/v1/apply-template", json=body)

        assert response.json() == {"prompt": f"system: Be kind.\n{RENDERED}"}
        assert not served.engine.has_job


@pytest.mark.parametrize(
    ("route", "body", "status"),
    [
        ("tokenize", {}, 400),
        ("tokenize", {"content": "a", "messages": HELLO}, 400),
        ("tokenize", {"content": 5}, 400),
        ("tokenize", {"content": "a", "model": "other"}, 404),
        ("tokenize", {"messages": [{"role": "user", "content": UNRENDERABLE}]}, 400),
        ("detokenize", {}, 400),
        ("detokenize", {"tokens": [-1]}, 400),
        ("detokenize", {"tokens": [0x110000]}, 400),
        ("apply-template", {"messages": []}, 400),
        ("apply-template", {"messages": [{"role": "user", "content": UNRENDERABLE}]}, 400),
    ],
)
async def test_what_cannot_be_turned_is_refused(route: str, body: Any, status: int) -> None:
    """In OpenAI's shape, with the reason."""
    async with serving() as served:
        response = await served.client.post(f"/v1/{route}", json=body)

    assert response.status_code == status
    assert response.json()["error"]["message"]


async def test_while_the_model_loads_there_are_no_tokens() -> None:
    """A 503 that says when to ask again."""
    async with serving(loading=True) as served:
        for route, body in (("tokenize", {"content": "a"}), ("detokenize", {"tokens": []})):
            response = await served.client.post(f"/v1/{route}", json=body)
            assert response.status_code == 503
            assert response.headers["retry-after"]
