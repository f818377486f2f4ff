"""How a prompt's chunk follows the time that steps take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.scheduler.prefill_pace import LEAST_TOKENS, PrefillPace

TARGET = 0.25
MOST = 512


@pytest.mark.parametrize("tokens_per_second", [400, 1000, 1500])
def test_steps_settle_at_the_target(tokens_per_second):
    """Whatever a token costs, as long as a chunk between the bounds fits."""
    pace = PrefillPace(TARGET, most_tokens=MOST)
    for _ in range(20):
        pace.observe(pace.tokens, pace.tokens / tokens_per_second)
    assert pace.tokens / tokens_per_second == pytest.approx(TARGET, rel=0.2)


def test_a_quick_machine_gets_whole_chunks_and_a_slow_one_the_least():
    """The bounds hold on either side."""
    quick, slow = (PrefillPace(TARGET, most_tokens=MOST) for _ in range(2))
    for _ in range(20):
        quick.observe(quick.tokens, 0.001)
        slow.observe(slow.tokens, 60.0)
    assert (quick.tokens, slow.tokens) == (MOST, LEAST_TOKENS)


def test_the_last_tokens_of_a_prompt_say_nothing():
    """A short rest is quick because it is short."""
    pace = PrefillPace(TARGET, most_tokens=MOST)
    for _ in range(20):
        pace.observe(pace.tokens, pace.tokens / 1000)
    settled = pace.tokens
    pace.observe(3, 0.01)
    assert pace.tokens == settled


@given(st.lists(st.tuples(st.integers(1, 4096), st.floats(0, 1000)), max_size=50), st.integers(1, 4096))
def test_no_step_leads_out_of_the_bounds(steps, most):
    """At least a token, at most the fixed chunk."""
    pace = PrefillPace(TARGET, most_tokens=most)
    for tokens, seconds in steps:
        pace.observe(tokens, seconds)
        assert min(LEAST_TOKENS, most) <= pace.tokens <= most
