"""The stages of a generation."""

import pytest

from app.telemetry.stages import Stage, stages_of
from tests.telemetry.generations import generation


@pytest.mark.parametrize(
    ("started", "first_token", "expected"),
    [
        (2.0, 4.0, (Stage("queue", 1.0, 2.0), Stage("prefill", 2.0, 4.0), Stage("decode", 4.0, 8.0))),
        (2.0, None, (Stage("queue", 1.0, 2.0), Stage("prefill", 2.0, 8.0))),
        (None, None, (Stage("queue", 1.0, 8.0),)),
    ],
)
def test_stages_follow_each_other_without_a_gap(started, first_token, expected):
    """Each stage ends where the next begins, the last with the generation; together they are its life."""
    stages = stages_of(generation(queued=1.0, started=started, first_token=first_token, ended=8.0))
    assert stages == expected
    assert sum(stage.seconds for stage in stages) == 7.0
