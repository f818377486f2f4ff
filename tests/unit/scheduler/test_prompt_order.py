"""Which prompts begin: the long ones one after the other, the short ones beside them, all in their order."""

from hypothesis import given
from hypothesis import strategies as st

from app.scheduler.prompt_order import beginning

CHUNK = 100
LEFT = st.lists(st.integers(1, 400), max_size=8)


@given(waiting=LEFT, most=st.integers(1, 8), most_long=st.integers(1, 8))
def test_all_prompts_get_their_turn_and_each_kind_in_its_order(waiting, most, most_long):
    """Step by step to the end: nobody is left, nobody overtakes its like, and no more run than may."""
    left = dict(enumerate(waiting))
    queue: list[int] = list(left)
    under_way: list[int] = []
    began: list[int] = []
    for _ in range(sum(waiting) + 1):
        chosen = beginning(
            [left[one] for one in under_way],
            [left[one] for one in queue],
            chunk=CHUNK,
            most=most,
            most_long=most_long,
        )
        starting = [queue[place] for place in chosen]
        assert under_way or not queue or starting, "nothing is under way and nothing begins"
        queue = [one for one in queue if one not in starting]
        under_way += starting
        began += starting
        assert len(under_way) <= most
        assert sum(left[one] > CHUNK for one in under_way) <= most_long
        for one in under_way:
            left[one] -= min(left[one], CHUNK)
        under_way = [one for one in under_way if left[one]]
        if not queue and not under_way:
            break
    assert not queue
    assert not under_way
    for kind in (lambda tokens: tokens > CHUNK, lambda tokens: tokens <= CHUNK):
        of_kind = [one for one in began if kind(waiting[one])]
        assert of_kind == sorted(of_kind)


def test_a_short_prompt_waits_for_no_long_one():
    """Neither for the one under way nor for those that wait before it."""
    assert beginning([1_000], [500, 20, 300, 100], chunk=CHUNK, most=8, most_long=1) == [1, 3]


def test_long_prompts_go_one_after_the_other():
    """The next begins with the last chunk of the one before it."""
    assert beginning([], [500, 300], chunk=CHUNK, most=8, most_long=1) == [0]
    assert beginning([101], [300], chunk=CHUNK, most=8, most_long=1) == []
    assert beginning([100], [300], chunk=CHUNK, most=8, most_long=1) == [0]


def test_no_more_than_may_run_at_a_time():
    """Whatever their length."""
    assert beginning([10], [10, 10, 10], chunk=CHUNK, most=3, most_long=1) == [0, 1]
    assert beginning([], [500, 500, 500], chunk=CHUNK, most=2, most_long=8) == [0, 1]
