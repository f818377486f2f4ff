"""How the settings share memory out once a model is loaded."""

import pytest

from app.engine.memory import MemoryLimits, memory_limits
from app.errors import ModelError
from app.memory_settings import LEAST_TOKENS, asked_limits, context_that_fits, plan_memory
from app.settings.resolution import resolve
from app.settings.sources import Given, read_defaults
from app.snapshots.sizing import Part, StateSize

KIB = 1024
SIZE = StateSize((Part(0, KIB),))


def settings(**memory):
    """The defaults, with these of memory."""
    said = {f"memory.{key}": Given(value, spelling=key, layer="test") for key, value in memory.items()}
    return resolve([said, read_defaults()]).settings


def plan(limit, used, *, headroom=0):
    return plan_memory(settings(), MemoryLimits(limit, headroom), model="tiny", used_bytes=used, size=SIZE)


def test_what_was_asked_for_is_what_holds():
    """A limit and a headroom by their numbers; what is left out follows the device and the limit."""
    asked = asked_limits(settings(limit_bytes="1GiB", headroom_bytes="100MiB"))
    by_itself = asked_limits(settings())

    assert asked == MemoryLimits(2**30, 100 * 2**20)
    assert by_itself == memory_limits(None, None)
    assert by_itself.headroom_bytes == by_itself.limit_bytes // 16


def test_a_context_that_memory_has_no_room_for_is_cut():
    """To exactly what fits beside the model and the headroom."""
    made = plan(limit=3000 * KIB, used=1000 * KIB, headroom=500 * KIB)

    assert context_that_fits(made, 10_000) == 1500
    assert context_that_fits(made, 1000) == 1000


def test_a_model_that_leaves_nothing_is_one_sentence():
    """It names what is used, what there is, and what can be set."""
    with pytest.raises(ModelError, match=r"'tiny' leaves no memory .* memory\.limit_bytes") as refused:
        plan(limit=(1000 + LEAST_TOKENS - 1) * KIB, used=1000 * KIB)

    assert len(str(refused.value).splitlines()) == 1
    assert plan(limit=(1000 + LEAST_TOKENS) * KIB, used=1000 * KIB).longest(9999) == LEAST_TOKENS
