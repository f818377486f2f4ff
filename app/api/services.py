"""The parts that the application is built from, and the limits it keeps. Data only; knows no route."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import Tracer

from app.api.page.facts import RecentRequest, SnapshotFill
from app.api.ports import Engine
from app.api.reasoning_echo import ReasoningEcho
from app.api.settling import Settling
from app.api.stream import LoopSink, OpenRequests
from app.api.system_lines import SystemLines
from app.auth.keyring import Keyring
from app.bus import Emit
from app.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large and how long a request may be."""

    max_request_bytes: int
    request_seconds: float
    """Longest a request may take, waiting included."""
    keepalive_seconds: float
    """Longest a stream stays silent: a comment is written then, or a client that left is never noticed."""
    write_seconds: float = 60.0
    """Longest a client may take nothing of what is sent to it before it counts as gone."""
    default_max_tokens: int | None = None
    """What a request gets that names no limit; None is all that is left of the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything `create_app` needs, made by whoever wires the program."""

    engine: Engine
    sink: LoopSink
    """The very one that the engine delivers to."""
    requests: OpenRequests
    emit: Emit
    tracer: Tracer
    clock: Clock
    unix_seconds: Callable[[], float]
    """Wall time, for the `created` of an answer."""
    new_id: Callable[[], str]
    """A fresh identifier of letters and digits, never the same twice."""
    metrics: Callable[[str], tuple[bytes, str]] | None
    """Accept header → body and content type of `/metrics`, on any thread; None where that is switched off."""
    cache_stats: Callable[[str | None], Mapping[str, Any]]
    """Tenant, or None for all → the body of `/v1/cache/stats`, as JSON values."""
    limits: Limits
    version: str
    uptime_seconds: Callable[[], float]
    """Since the process began to serve."""
    snapshot_fill: Callable[[], SnapshotFill | None]
    """What the snapshot store holds of what it may; None until the model is loaded."""
    recent_requests: Callable[[], Iterable[RecentRequest]]
    """The last answered inference requests, newest first."""
    reasoning: ReasoningEcho = field(default_factory=lambda: ReasoningEcho(0))
    system_lines: SystemLines = field(default_factory=lambda: SystemLines(""))
    """What is left out of system prompts."""
    warmup: bool = False
    """Whether next turns are prepared in idle time."""
    settling: Settling = field(default_factory=Settling)
    """Next turns that are about to be prepared."""
    capture_content: bool = False
    """Whether prompts and replies are put on spans."""
    keyring: Keyring = field(default_factory=Keyring)
    """Without keys in it, nobody is asked for one."""
    public: bool = False
    """Whether others than this machine can reach it: then `/` and `/docs` are for those who have a key."""
    cors_origins: Sequence[str] = ()
    """The origins whose web pages may read answers."""
