"""Tasks that live as long as a block. Knows nothing of what they do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


@contextlib.asynccontextmanager
async def tasks(works: Iterable[Coroutine[Any, Any, Result]]) -> AsyncIterator[list[asyncio.Task[Result]]]:
    """One task for each of `works`; none outlives the block, and what they raise is for the block to see."""
    running = [asyncio.ensure_future(work) for work in works]
    try:
        yield running
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
