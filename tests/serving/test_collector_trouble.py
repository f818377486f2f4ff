"""A live server whose collector is down or does not answer."""

import re

import pytest

from tests.support.process import conversation, labelled, samovar
from tests.telemetry.collectors import HungCollector, nobody

TURNS = [f"Turn {number} of a talk that goes on while nobody takes its spans." for number in range(4)]
SPANS_OF_A_TURN = {"POST /v1/chat/completions", "chat llama", "queue", "prefill", "decode", "snapshot.lookup"}


@pytest.mark.parametrize("collector", [HungCollector, nobody], ids=["hung", "down"])
def test_requests_go_on_and_the_loss_is_counted(tmp_path, tiny_folder, collector):
    """Every turn is answered as ever, out of the store; the stop is in order and says how much was lost."""
    with (
        collector() as trouble,
        samovar(
            *("--model", str(tiny_folder("llama")), "--no-snapshot-warmup"),
            *("--telemetry-otlp-endpoint", trouble.endpoint),
            folder=tmp_path,
        ) as server,
    ):
        said = conversation(server.client(), server.model, TURNS, session="s", max_tokens=4)
        metrics = server.metrics()
        assert server.stop() == 0

    assert len(said) == len(TURNS)
    assert all(cached for _, cached, _ in said[1:])
    assert metrics[labelled("samovar_requests_total", outcome="completed", route="/v1/chat/completions")] == 4
    lost = re.search(r"(\d+) spans were lost", server.output)
    assert lost is not None
    assert int(lost[1]) >= len(TURNS) * len(SPANS_OF_A_TURN)
