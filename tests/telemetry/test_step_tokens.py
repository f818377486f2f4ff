"""The counters that rise while requests run."""

from prometheus_client import CollectorRegistry

from app.telemetry.step_tokens import StepTokens
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

PREFILL, GENERATED = "samovar_prefill_tokens_total", "samovar_generated_tokens_total"


def test_each_step_adds_what_it_did():
    """Both counters stand where the last step left them, and are there at zero before the first."""
    tokens = StepTokens()
    registry = CollectorRegistry()
    registry.register(tokens)
    assert (registry.get_sample_value(PREFILL), registry.get_sample_value(GENERATED)) == (0, 0)
    tokens.record(512, 3)
    tokens.record(0, 4)
    assert (registry.get_sample_value(PREFILL), registry.get_sample_value(GENERATED)) == (512, 7)


def test_a_step_tells_what_it_computed_and_gave():
    """Chunk by chunk and token by token; what was restored is not computed, and no token is told twice."""
    room = ServingRoom()
    first = make_job(range(1, 9), boundary=6, id="one", max_tokens=3)
    room.admission.offer(first)
    course = []
    while room.step():
        course.append((sum(p for p, _ in room.tokens), sum(g for _, g in room.tokens)))
    assert course == sorted(course)
    assert course[-1] == (8, 3)
    assert len(set(course)) > 3, "nothing rose while the request ran"
    room.tokens.clear()
    room.run(make_job([*range(1, 7), 9, 9, 9], boundary=8, id="two", max_tokens=2))
    assert room.started(make_job([1], id="two")).cached_tokens == 6
    assert (sum(p for p, _ in room.tokens), sum(g for _, g in room.tokens)) == (3, 2)


def test_a_request_that_is_cancelled_in_its_prefill_has_been_counted_so_far():
    """The engine was busy, whatever became of the request."""
    room = ServingRoom()
    job = make_job(range(1, 40), boundary=20, id="one", max_tokens=3)
    room.admission.offer(job)
    room.step()
    room.step()
    so_far = sum(prefilled for prefilled, _ in room.tokens)
    assert 0 < so_far < 39
