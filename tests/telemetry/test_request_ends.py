"""Ends of requests and of their jobs find each other, and what finds none is not kept for ever."""

from app.events import GenerationEnded, RequestEnded
from app.telemetry.request_ends import MAX_UNCLAIMED, RequestEnds
from app.vocabulary import Outcome
from tests.telemetry.generations import generation


def request(*job_ids: str) -> RequestEnded:
    return RequestEnded("/v1/messages", Outcome.COMPLETED, 200, 7.5, job_ids=job_ids)


def test_what_nobody_claims_is_not_kept_for_ever():
    """Jobs without a request leave a bounded trace in memory, of the newest, and are not told of."""
    told: list[tuple[RequestEnded, list[GenerationEnded]]] = []
    ends = RequestEnds(lambda ended, generations: told.append((ended, list(generations))))
    for number in range(MAX_UNCLAIMED + 10):
        ends.generation_ended(generation(job_id=str(number)))
    assert len(ends._generations) == MAX_UNCLAIMED
    last = str(MAX_UNCLAIMED + 9)
    ends.request_ended(request(last))
    ends.request_ended(request())
    assert (len(ends._generations), len(ends._waiting)) == (MAX_UNCLAIMED - 1, 0)
    assert [(ended.job_ids, [each.job_id for each in jobs]) for ended, jobs in told] == [
        ((last,), [last]),
        ((), []),
    ]
