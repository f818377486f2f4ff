"""Laws of errors in OpenAI's shape."""

import msgspec
import pytest

from app.api.errors import error_body, failure, unavailable
from app.api.ports import Health, Phase
from app.errors import RequestError
from app.scheduler.job import Failed


def test_body_has_openais_four_fields_always() -> None:
    """Clients may read message, type, param and code without asking whether they are there."""
    plain = msgspec.to_builtins(error_body(RequestError("no")))
    full = msgspec.to_builtins(error_body(RequestError("no", kind="k", param="p", code="c")))

    assert plain == {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}
    assert full == {"error": {"message": "no", "type": "k", "param": "p", "code": "c"}}


@pytest.mark.parametrize(
    ("status", "kind", "retried"),
    [(400, "invalid_request_error", False), (500, "server_error", False), (503, "server_error", True)],
)
def test_failure_keeps_its_status(status: int, kind: str, retried: bool) -> None:
    """A failed job's status and message reach the client; only an unavailable server is worth another try."""
    error = failure(Failed("why", status))

    assert (error.message, error.status, error.kind) == ("why", status, kind)
    assert (error.retry_after_seconds is not None) is retried


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.READY])
def test_unavailable_says_phase_and_when_to_ask_again(phase: Phase) -> None:
    """An engine that takes no work says which state it is in, and for how long to wait."""
    error = unavailable(Health(phase, "the reason", 0, 0))

    assert error.status == 503
    assert error.code == f"engine_{phase}"
    assert "the reason" in error.message
    assert error.retry_after_seconds
