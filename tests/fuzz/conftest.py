"""One real server with a real model for whatever is sent to it."""

from collections.abc import Iterator

import pytest

from tests.support.process import Samovar, samovar
from tests.support.tiny import make_tiny_model

CONTEXT_TOKENS = 2048


@pytest.fixture(scope="package")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Samovar]:
    """Replies are short, so that what can be served is served quickly."""
    root = tmp_path_factory.mktemp("fuzz")
    with samovar(
        *("--model", str(make_tiny_model(root / "llama", "llama")), "--telemetry-log-level", "error"),
        *("--scheduler-default-max-tokens", "2", "--context-length", str(CONTEXT_TOKENS)),
        folder=root,
    ) as server:
        yield server
        # Whatever was sent: nothing failed that nobody had foreseen, and the engine has not been broken.
        assert "Traceback" not in server.output, server.output
        assert server.metrics()["samovar_engine_rebuilds_total"] == 0
