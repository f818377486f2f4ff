"""`GET /metrics` beside everything else the server does."""

import asyncio
import threading

from tests.support.scripted_engine import WAIT_SECONDS
from tests.support.serving import serving


async def test_a_slow_scrape_holds_up_nobody() -> None:
    """While the text is being written, requests are answered from their first byte to their last."""
    writing, go_on = threading.Event(), threading.Event()
    writers: list[threading.Thread] = []

    def render(accept: str) -> tuple[bytes, str]:
        writers.append(threading.current_thread())
        writing.set()
        assert go_on.wait(WAIT_SECONDS)
        return b"done\n", "text/plain"

    async with serving(render=render) as served:
        scrape = asyncio.create_task(served.client.get("/metrics"))
        assert await asyncio.to_thread(writing.wait, WAIT_SECONDS)
        try:
            answered = await served.answered("Hi", stream=True)
            assert answered.text.rstrip().endswith("[DONE]")
            assert (await served.client.get("/livez")).status_code == 200
            assert not scrape.done()
        finally:
            go_on.set()
        assert (await scrape).text == "done\n"
        assert writers != [threading.current_thread()]
