"""Jobs and buckets for tests, with everything that does not matter filled in."""

from collections.abc import Sequence
from typing import Any

from app.scheduler.job import Boundary, Job, JobId
from app.snapshots.entry import Bucket, pack
from app.vocabulary import Origin

BUCKET = Bucket(model="tiny", cache_signature="chain")


def make_job(
    tokens: Sequence[int],
    *,
    id: str = "job",  # noqa: A002 - it is the job's id
    boundary: int | None = None,
    session: str = "session",
    max_tokens: int = 4,
    **others: Any,
) -> Job:
    """A job over `tokens`; `boundary` asks for a snapshot there."""
    return Job(
        id=JobId(id),
        tokens=tuple(tokens),
        packed=pack(tokens),
        boundaries=() if boundary is None else (Boundary(Origin.BOUNDARY, boundary),),
        bucket=others.pop("bucket", BUCKET),
        session=session,
        max_tokens=max_tokens,
        **others,
    )
