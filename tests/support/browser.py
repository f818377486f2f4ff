"""A real browser without a window, and everything that a page in it complains of."""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

Scheme = Literal["light", "dark"]


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The system's Chromium for a block."""
    installed = shutil.which("chromium")
    assert installed, "install Chromium (Debian: chromium); the page is tested in it"
    playwrights = async_playwright()
    with _without_preload():
        playwright = await playwrights.start()
    try:
        # Without its sandbox, which does not start for root in a container; the pages are our own.
        browser = await playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        yield browser
        await browser.close()
    finally:
        await playwright.stop()


@contextlib.contextmanager
def _without_preload() -> Iterator[None]:
    """The BLAS that is preloaded for MLX keeps Node, which drives the browser, from starting threads."""
    preloaded = os.environ.pop("LD_PRELOAD", None)
    try:
        yield
    finally:
        if preloaded is not None:
            os.environ["LD_PRELOAD"] = preloaded


class Watched:
    """A page, what it complained of, and what it asked for.

    Args:
        page: watched from before it opens anything.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", self._failed)
        page.on("request", lambda request: self.asked.add(request.url))

    def _console(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"{message.type}: {message.text}")

    def _failed(self, request: Request) -> None:
        self.complaints.append(f"{request.url}: {request.failure}")


@contextlib.asynccontextmanager
async def opened(
    browser: Browser, url: str, *, width: int = 1280, scheme: Scheme = "light", **options: Any
) -> AsyncIterator[Watched]:
    """A page of that width, `width` CSS pixels, in a session of its own."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        locale="en-GB",
        timezone_id="UTC",
        **options,
    )
    try:
        watched = Watched(await context.new_page())
        await watched.page.goto(url)
        yield watched
    finally:
        await context.close()
