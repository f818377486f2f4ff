"""A busy server for the page, and its pictures: `python -m tests.http.page_samples` writes docs/pictures."""

import asyncio
from pathlib import Path
from typing import Any

from app.api.page.facts import RecentRequest
from app.vocabulary import Miss, Outcome
from tests.support.browser import chromium, opened
from tests.support.serving import serving

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"

HOSTILE = "<img src=x onerror=alert(1)>"
"""What somebody may send as an id; shown, never read as HTML."""


def recent(**changes: Any) -> RecentRequest:
    """A hit of a long conversation."""
    facts: dict[str, Any] = {
        "ended_unix_seconds": 1_800_000_000.0,
        "request_id": "00000042",
        "route": "/v1/chat/completions",
        "status": 200,
        "outcome": Outcome.COMPLETED,
        "hit": True,
        "miss": None,
        "prompt_tokens": 31_482,
        "cached_tokens": 31_207,
        "completion_tokens": 412,
        "time_to_first_token_seconds": 0.214,
        "seconds": 9.3,
        "session_hash": "5f2c9e0d1b7a4c36",
    }
    return RecentRequest(**(facts | changes))


RECENT = (
    recent(),
    recent(
        ended_unix_seconds=1_799_999_968.0,
        hit=False,
        miss=Miss.DIVERGED,
        prompt_tokens=1_204,
        cached_tokens=0,
        completion_tokens=96,
        time_to_first_token_seconds=1.62,
        session_hash="c01d77aa93e2f518",
    ),
    recent(
        ended_unix_seconds=1_799_999_951.0,
        status=429,
        outcome=Outcome.REFUSED,
        hit=None,
        prompt_tokens=0,
        cached_tokens=0,
        completion_tokens=0,
        time_to_first_token_seconds=None,
        session_hash=None,
    ),
    recent(
        ended_unix_seconds=1_799_999_870.0,
        hit=False,
        miss=Miss.EMPTY,
        prompt_tokens=58,
        cached_tokens=0,
        completion_tokens=23,
        time_to_first_token_seconds=0.48,
    ),
)


async def main() -> None:
    """Write both pictures."""
    async with serving(recent_requests=RECENT) as served, chromium() as browser:
        for name, width, scheme in (("page-wide", 1280, "light"), ("page-narrow", 390, "dark")):
            async with opened(browser, served.url, width=width, scheme=scheme) as watched:  # type: ignore[arg-type]
                await watched.page.get_by_text("5f2c9e0d1b7a4c36").first.wait_for()
                await watched.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


if __name__ == "__main__":
    asyncio.run(main())
