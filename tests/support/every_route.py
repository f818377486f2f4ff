"""The least that can be asked of each route that takes a body, and asking it."""

import asyncio
from typing import Any

import httpx

from tests.support.serving import Serving

CHAT = ("POST", "/v1/chat/completions")

_SAID = [{"role": "user", "content": "Hello"}]
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": _SAID},
    "/v1/completions": {"prompt": "Hello"},
    "/v1/responses": {"input": "Hello"},
    "/v1/messages": {"model": "scripted", "messages": _SAID, "max_tokens": 9},
}
"""Each route that the engine answers → the least that can be asked of it."""
COUNTED: dict[str, dict[str, Any]] = {
    "/v1/messages/count_tokens": {"model": "scripted", "messages": _SAID},
    "/v1/tokenize": {"prompt": "Hello"},
    "/v1/detokenize": {"tokens": [72]},
    "/v1/apply-template": {"messages": _SAID},
}
"""The same of those that only the model's tokens are needed for."""


async def ask(
    served: Serving, route: tuple[str, str], headers: dict[str, str] | None = None
) -> httpx.Response:
    """One request, answered by the engine if it comes so far."""
    method, path = route
    body = ASKED.get(path) or COUNTED.get(path)
    asking = asyncio.ensure_future(served.client.request(method, path, json=body, headers=headers))
    if path in ASKED:
        answering = asyncio.ensure_future(served.engine.answer("Hi"))
        await asyncio.wait([asking, answering], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
    return await asking
