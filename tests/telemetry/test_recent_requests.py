"""What is kept of the last requests for the page."""

import itertools
from dataclasses import astuple

from app.events import Event, RequestEnded
from app.telemetry.recent_requests import MOST_REQUESTS, RecentRequest, RecentRequests
from app.vocabulary import FinishReason, Miss, Outcome
from tests.telemetry.generations import generation
from tests.telemetry.spans_room import HASH_SESSION


def request(*job_ids: str, outcome: Outcome = Outcome.COMPLETED, status: int = 200) -> RequestEnded:
    return RequestEnded("/v1/messages", outcome, status, 7.5, job_ids=job_ids, request_id="req-1")


def kept(*events: Event) -> RecentRequest:
    """What is kept of one request."""
    recent = RecentRequests(hash_session=HASH_SESSION, unix_seconds=lambda: 1_800_000_000.0)
    for event in events:
        recent(event)
    (only,) = recent.newest_first()
    return only


def test_a_request_is_kept_with_its_tokens_and_without_its_session():
    """Route, status, hit, tokens, time to the first token, the session's hash; the session itself nowhere."""
    one = kept(generation(session="secret-key"), request("job"))
    assert one == RecentRequest(
        ended_unix_seconds=1_800_000_000.0,
        request_id="req-1",
        route="/v1/messages",
        status=200,
        outcome=Outcome.COMPLETED,
        hit=True,
        miss=None,
        prompt_tokens=100,
        cached_tokens=60,
        completion_tokens=9,
        time_to_first_token_seconds=3.0,
        seconds=7.5,
        session_hash=HASH_SESSION("secret-key"),
    )
    assert "secret-key" not in map(str, astuple(one))


def test_a_miss_keeps_its_reason_and_several_jobs_add_up_in_every_order():
    """Tokens of all jobs count, and the first token of the request is the first of any of them."""
    ends: list[Event] = [
        generation(job_id="a", miss=Miss.DIVERGED, cached_tokens=0),
        generation(job_id="b", generated_tokens=1, first_token=1003.5),
        request("a", "b"),
    ]
    for order in itertools.permutations(ends):
        one = kept(*order)
        assert (one.hit, one.miss) == (False, Miss.DIVERGED)
        assert (one.prompt_tokens, one.cached_tokens, one.completion_tokens) == (200, 60, 10)
        assert one.time_to_first_token_seconds == 2.5


def test_what_never_started_is_neither_hit_nor_miss():
    """A refusal reached no engine; a request that was given up in the queue started nothing."""
    refused = kept(request(outcome=Outcome.REFUSED, status=429))
    assert (refused.hit, refused.prompt_tokens, refused.time_to_first_token_seconds) == (None, 0, None)
    given_up = kept(
        generation(reason=FinishReason.CANCELLED, started=None, first_token=None),
        request("job", outcome=Outcome.CANCELLED, status=499),
    )
    assert (given_up.hit, given_up.time_to_first_token_seconds, given_up.session_hash) == (None, None, None)


def test_only_the_last_are_kept_newest_first():
    """However many come, memory stays bounded."""
    recent = RecentRequests(hash_session=HASH_SESSION, unix_seconds=lambda: 0.0)
    for number in range(MOST_REQUESTS + 5):
        recent(request(status=200 + number))
    statuses = [one.status for one in recent.newest_first()]
    assert statuses == [200 + number for number in reversed(range(5, MOST_REQUESTS + 5))]
