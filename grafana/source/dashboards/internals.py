"""The dashboard for whoever looks into the server itself: engine, event loop, telemetry, what is running."""

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana.source import thresholds
from grafana.source.frame import Board, Row
from grafana.source.kinds import labels, lines, number
from grafana.source.panels import Limit, Panel, Query
from grafana.source.promql import increase, quantile, rate, series, total

_LAST_STEP = series("samovar_engine_last_step_timestamp_seconds")

BATCH = Panel(
    1,
    "Batch",
    lines(),
    [
        Query(series("samovar_requests_running"), "{{instance}}"),
        Query(f"max({series('samovar_requests_max_running')})", "limit"),
    ],
    unit="short",
    width=8,
    height=8,
    decimals=0,
    shows="Requests that each server's engine steps through together, under the limit.",
    act="always at the limit with a queue: allow more (`scheduler` settings) if Time between tokens bears it. Always 1: the model cannot be batched, see What the model bears.",
    colors={"limit": "red"},
    dashed=["limit"],
    no_value="no server yet",
)
STEP_AGE = Panel(
    2,
    "Time since the last engine step",
    lines(),
    [
        Query(
            f"(time() - ({_LAST_STEP} > 0)) and on (job, instance) ({series('samovar_requests_running')} > 0)",
            "{{instance}}",
        )
    ],
    unit="s",
    width=8,
    height=8,
    shows="How long ago the engine ended a step, while requests run. It is blank while none does.",
    act="above the line the engine hangs: liveness fails soon, and whoever supervises the process starts it anew. Keep the log from before.",
    limits=[Limit(thresholds.STALE_STEP_SECONDS)],
    no_value="no request runs",
)
REBUILDS = Panel(
    3,
    "Engine rebuilds",
    lines(),
    [Query(total(increase("samovar_engine_rebuilds_total", window="1h"), "instance"), "{{instance}}")],
    unit="short",
    width=8,
    height=8,
    decimals=0,
    shows="Engine steps that raised, within an hour. Their requests failed, and the server went on.",
    act="look for `engine rebuilt` in the log: it has the error. The same one again and again is a bug or a broken model.",
    no_value="no server yet",
)

STAGES = Panel(
    4,
    "Stages of a request",
    lines(),
    [
        Query(quantile(0.95, f"samovar_request_{stage}_seconds"), stage)
        for stage in ("queue", "prefill", "decode", "duration")
    ],
    unit="s",
    width=8,
    height=8,
    shows="How long requests stay in each stage, 95% of them; `duration` is the whole.",
    act="`queue` is too few places, `prefill` long prompts that missed, `decode` long replies or a full batch.",
    colors={"queue": "orange", "prefill": "yellow", "decode": "blue", "duration": "text"},
)
STORE_CALLS = Panel(
    5,
    "Calls into the store",
    lines(),
    [
        Query(quantile(0.95, f"samovar_snapshot_{call}_seconds"), call)
        for call in ("lookup", "restore", "capture")
    ],
    unit="s",
    width=8,
    height=8,
    shows="Time to find, to copy back and to copy out a snapshot, 95% of them. The batch waits for each.",
    act="`lookup` above a few milliseconds is not normal: report it. The other two grow with the snapshots' size.",
    colors={"lookup": "text", "restore": "green", "capture": "blue"},
)
ARRAYS = Panel(
    6,
    "Device arrays of the store",
    lines(),
    [Query(series("samovar_snapshot_arrays"), "{{instance}}")],
    unit="short",
    width=8,
    height=8,
    decimals=0,
    shows="Arrays that the snapshots consist of; Metal limits their number.",
    act="flat while `lru_arrays` evicts: this limit binds, and more bytes will not help.",
    no_value="no server yet",
)

LOOP = Panel(
    7,
    "Answer to a scrape",
    lines(),
    [Query(series("scrape_duration_seconds"), "{{instance}}")],
    unit="s",
    width=6,
    height=8,
    shows="How long `/metrics` takes. It is answered by the event loop that also streams the tokens, so it shows how far behind that is.",
    act="seconds instead of milliseconds: the event loop is busy. See Processor, and whether very many clients stream at once.",
    no_value="nothing is scraped",
)
PROCESSOR = Panel(
    8,
    "Processor",
    lines(),
    [Query(rate("process_cpu_seconds_total"), "{{instance}}")],
    unit="short",
    width=6,
    height=8,
    shows="Cores in use.",
    act="on a GPU, one core at its limit is the engine thread's own work, or the event loop's. On a CPU all cores are busy while requests run.",
    no_value="not told here",
)
FILES = Panel(
    9,
    "Open connections and files",
    lines(),
    [
        Query(series("process_open_fds"), "{{instance}}"),
        Query(f"min({series('process_max_fds')})", "limit"),
    ],
    unit="short",
    width=6,
    height=8,
    decimals=0,
    shows="What the process has open, nearly all of it connections, under the system's limit.",
    act="near the limit new connections are refused: raise it where the service is defined (launchd, systemd, container).",
    colors={"limit": "red"},
    dashed=["limit"],
    no_value="not told here",
)
RESIDENT = Panel(
    10,
    "Resident memory",
    lines(),
    [Query(series("process_resident_memory_bytes"), "{{instance}}")],
    unit="bytes",
    width=6,
    height=8,
    shows="What the process has in main memory, model included where device and processor share it.",
    act="growing while Bytes and capacity of Cache sizing is flat, and nothing runs, is a leak: report it.",
    no_value="not told here",
)

DROPPED = Panel(
    11,
    "Dropped telemetry",
    lines(stacked=True),
    [Query(total(increase("samovar_telemetry_dropped_total", window="15m"), "sink"), "{{sink}}")],
    unit="short",
    width=6,
    height=8,
    decimals=0,
    shows="Events, readings and spans that were lost within 15 minutes. Requests are never.",
    act="`traces`: the collector is down or too slow. `tally`: the store's numbers are wrong from here on, restart when convenient and report it. Any other: see the log.",
    no_value="no server yet",
)
WARMUPS = Panel(
    12,
    "Warm-ups by outcome",
    lines(stacked=True),
    [Query(f"{total(rate('samovar_warmups_total'), 'outcome')} > 0", "{{outcome}}")],
    unit="ops",
    width=6,
    height=8,
    shows="What became of preparing the next turn after each reply.",
    act="much `preempted` or `dropped`: there is no idle time for it, nothing is wrong. `failed`: see the log. `diverged`: the template shows the reply in other words than the model wrote.",
)
WARMUP_TOKENS = Panel(
    13,
    "Tokens of warm-ups",
    lines(stacked=True),
    [
        Query(total(rate("samovar_warmup_tokens_total")), "warm-ups"),
        Query(total(rate("samovar_prefill_tokens_total")), "prompts"),
    ],
    unit="short",
    width=6,
    height=8,
    shows="Tokens a second that were computed for next turns, beside those for prompts.",
    act="more for warm-ups than for prompts is idle time put to use; it gives way to every request.",
    colors={"warm-ups": "blue", "prompts": "orange"},
    no_value="no server yet",
)
DECLINES = Panel(
    14,
    "Declined captures",
    lines(stacked=True),
    [Query(total(rate("samovar_capture_declines_total"), "reason"), "{{reason}}")],
    unit="ops",
    width=6,
    height=8,
    shows="Requests that got no boundary snapshot, for a reason known before their prefill.",
    act="`history_not_a_prefix` and `history_not_rendered` are the chat template's doing: this model's conversations reuse less.",
    no_value="no server yet",
)

CAPABILITIES = Panel(
    15,
    "What the model bears",
    number(graph=False, text=BigValueTextMode.VALUE_AND_NAME),
    [Query(f"min by (capability) ({series('samovar_model_capability')})", "{{capability}}")],
    unit="none",
    width=12,
    height=6,
    shows="What the check at the model's load found that can be relied on.",
    act="`no` is a way of serving that would have come out wrong, and is off. `reuse` off means no snapshots at all. The log says why at start.",
    mappings={"0": ("no", "orange"), "1": ("yes", "green")},
    no_value="no model yet",
)
VERSIONS = Panel(
    16,
    "Versions",
    labels(),
    [
        Query(
            f"count by (instance, version, python, mlx, mlx_lm) ({series('samovar_build_info')})",
            "",
        )
    ],
    unit="none",
    width=12,
    height=6,
    shows="What runs where.",
    act="servers of one job with different versions are an upgrade that stopped halfway.",
)

INTERNALS = Board(
    "samovar-internals",
    "Samovar / Serving internals",
    "The engine, the event loop and telemetry, for whoever looks into the server itself.",
    [
        Row("Does the engine step?", [BATCH, STEP_AGE, REBUILDS]),
        Row("Where does the time go?", [STAGES, STORE_CALLS, ARRAYS]),
        Row("Does the event loop keep up?", [LOOP, PROCESSOR, FILES, RESIDENT]),
        Row("Is anything lost, is idle time used?", [DROPPED, WARMUPS, WARMUP_TOKENS, DECLINES]),
        Row("What is running?", [CAPABILITIES, VERSIONS]),
    ],
)
