"""The alerts about a server as a whole: there, alive, and within its memory."""

from grafana.source import thresholds
from grafana.source.alert import INTERNALS, JOB, OVERVIEW, Alert, Fact, OnError, Panel, Severity, Shown

DOWN = Alert(
    name="SamovarDown",
    severity=Severity.CRITICAL,
    value=f"up{{{JOB}}}",
    comparison="<",
    threshold=thresholds.ANSWERS,
    hold="5m",
    summary="A server does not answer its scrapes.",
    description="{instance} has not answered a scrape for five minutes: it is down, or cannot be reached.",
    runbook="server",
    panel=Panel(OVERVIEW, "Up"),
    # One alert says that the data source is out of order; seventeen would bury it.
    on_error=OnError.ERROR,
)

ABSENT = Alert(
    name="SamovarAbsent",
    severity=Severity.CRITICAL,
    value=f"absent(up{{{JOB}}})",
    comparison=">",
    threshold=thresholds.NONE,
    hold="5m",
    summary="Prometheus knows no Samovar server.",
    description="Nothing is scraped under a job whose name has samovar in it, so no other alert can fire.",
    runbook="server",
    panel=Panel(OVERVIEW, "Up"),
)

RESTART_LOOP = Alert(
    name="SamovarRestartLoop",
    severity=Severity.CRITICAL,
    value=f"changes(process_start_time_seconds{{{JOB}}}[15m])",
    comparison=">",
    threshold=thresholds.RESTARTS,
    hold="0s",
    summary="A server starts again and again.",
    description="{instance} started again {value} times in 15 minutes. First of all, stop the service.",
    runbook="server",
    panel=Panel(OVERVIEW, "Restarts"),
)

CRASH_LOOP = Alert(
    name="SamovarCrashLoop",
    severity=Severity.CRITICAL,
    value="samovar_crash_loop",
    comparison=">",
    threshold=thresholds.NONE,
    hold="0s",
    summary="A server has crashed too often to load its model again.",
    description="{instance} answers probes and serves nothing: {starts} starts before did not end well.",
    runbook="server",
    panel=Panel(OVERVIEW, "Restarts"),
    facts=(Fact("starts", "samovar_starts_recent", Shown.COUNT),),
)

ENGINE_STALLED = Alert(
    name="SamovarEngineStalled",
    severity=Severity.CRITICAL,
    value="increase(samovar_prefill_tokens_total[5m]) + increase(samovar_generated_tokens_total[5m])",
    comparison="<",
    threshold=thresholds.ANY_TOKENS,
    hold="5m",
    summary="Requests run, and no token is computed.",
    description="{instance} has requests under way and neither read nor wrote a token for five minutes.",
    runbook="server",
    panel=Panel(OVERVIEW, "Tokens per second"),
    conditions=("and min_over_time(samovar_requests_running[5m]) > 0",),
)

MEMORY_NEAR_LIMIT = Alert(
    name="SamovarMemoryNearLimit",
    severity=Severity.CRITICAL,
    # Arrays alone, where a platform does not tell what it charges the process with.
    value=(
        'max without (kind) (samovar_device_memory_bytes{kind=~"active|footprint"})'
        ' / max without (kind) (samovar_device_memory_bytes{kind="limit"})'
    ),
    comparison=">",
    threshold=thresholds.MEMORY_RATIO,
    hold="5m",
    keep="10m",
    summary="A server is close to its memory limit.",
    description="{instance} uses {value} of the memory it may use; {held} of it are snapshots.",
    runbook="server",
    panel=Panel(OVERVIEW, "Memory"),
    shown=Shown.RATIO,
    facts=(Fact("held", "sum without (origin) (samovar_snapshot_bytes)", Shown.BYTES),),
)

TELEMETRY_DROPPING = Alert(
    name="SamovarTelemetryDropping",
    severity=Severity.INFO,
    value="increase(samovar_telemetry_dropped_total[15m])",
    comparison=">",
    threshold=thresholds.NONE,
    hold="15m",
    summary="Telemetry is lost.",
    description="{instance} lost {value} events or spans on their way to {sink} in 15 minutes.",
    runbook="telemetry",
    panel=Panel(INTERNALS, "Dropped telemetry"),
    labels=("sink",),
)

SERVER_ALERTS = (
    DOWN,
    ABSENT,
    RESTART_LOOP,
    CRASH_LOOP,
    ENGINE_STALLED,
    MEMORY_NEAR_LIMIT,
    TELEMETRY_DROPPING,
)
