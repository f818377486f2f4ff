"""The cases of every alert: what it fires on, what it does not fire on, and what lies next to it."""

from tests.ops.alerts.case import Case
from tests.ops.alerts.request_cases import REQUEST_CASES
from tests.ops.alerts.reuse_cases import REUSE_CASES
from tests.ops.alerts.server_cases import SERVER_CASES
from tests.ops.alerts.size_cases import SIZE_CASES

CASES: dict[str, tuple[Case, ...]] = {**SERVER_CASES, **REQUEST_CASES, **SIZE_CASES, **REUSE_CASES}
