"""Chunks of a long prompt while a reply is written beside it, through the real batch generator."""

import itertools

import mlx.core as mx
import pytest

from app.engine.batch_limits import BatchLimits
from app.engine.decoder import BatchDecoder
from app.scheduler.prefill_pace import LEAST_TOKENS, PrefillPace
from tests.support.jobs import make_job

CHUNK = 256
PROMPT_TOKENS = 900
LIMITS = BatchLimits(max_running=4, prefill_batch=4, prefill_step_tokens=CHUNK)


def paced(model, *, step_seconds, wired_bytes=None):
    """A decoder whose every step takes so long by its clock, where half a second is wanted."""
    times = itertools.count(0.0, step_seconds)
    return BatchDecoder(
        model.network,
        end_tokens=(),
        limits=LIMITS,
        pace=PrefillPace(0.5, most_tokens=CHUNK),
        clock=lambda: next(times),
        wired_bytes=wired_bytes,
    )


def chunks_of(decoder, job_id, steps):
    """How much of a prompt each of the next steps computes."""
    done, chunks = 0, []
    for _ in range(steps):
        for job, progress in decoder.step().prefilled:
            if job == job_id and progress.done > done:
                chunks.append(progress.done - done)
                done = progress.done
    return chunks


@pytest.mark.parametrize(
    ("step_seconds", "expected"),
    [(5.0, [LEAST_TOKENS] * 4), (0.5, [LEAST_TOKENS] * 4), (0.25, [64, 128, 256, 256])],
    ids=["slow", "on time", "quick"],
)
def test_chunks_follow_the_time_of_steps_while_a_reply_is_written(tiny, step_seconds, expected):
    """Slow steps keep them short, quick ones let them grow to the whole chunk."""
    decoder = paced(tiny("llama"), step_seconds=step_seconds)
    decoder.admit(make_job([1, 2, 3], id="reply", max_tokens=50), start=0, state=None, stops=())
    while not decoder.step().generated:
        pass
    long = make_job([7] * PROMPT_TOKENS, id="long", session="other")
    decoder.admit(long, start=0, state=None, stops=())

    assert chunks_of(decoder, "long", 4) == expected


def test_a_prompt_with_nobody_beside_it_is_computed_in_whole_chunks(tiny):
    """However slow the machine is."""
    decoder = paced(tiny("llama"), step_seconds=60.0)
    decoder.admit(make_job([7] * PROMPT_TOKENS, id="long"), start=0, state=None, stops=())

    assert chunks_of(decoder, "long", 3) == [CHUNK] * 3


def test_what_is_asked_to_be_wired_is_set_after_the_generator_s_own(tiny, monkeypatch):
    """At each new generator, since each sets what the GPU recommends."""
    asked: list[int] = []
    monkeypatch.setattr(mx, "set_wired_limit", asked.append)
    decoder = paced(tiny("llama"), step_seconds=1.0, wired_bytes=12345)
    decoder.rebuild()

    assert asked == [12345, 12345]
