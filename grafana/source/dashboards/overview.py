"""The dashboard that is looked at first: is it up, is it quick, is there room. One screen."""

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana.source import thresholds
from grafana.source.frame import Board, Row
from grafana.source.kinds import lines, number
from grafana.source.panels import Limit, Link, Panel, Query
from grafana.source.promql import increase, quantile, rate, series, share, total
from grafana.source.traces import explore, spans

_MEMORY_LIMIT = series("samovar_device_memory_bytes", 'kind="limit"')
_MEMORY_IN_USE = series("samovar_device_memory_bytes", 'kind=~"active|footprint"')
_ANSWERED = total(increase("samovar_requests_total", window="10m"))

UP = Panel(
    1,
    "Up",
    number(graph=False),
    [Query(f"min({series('up')})", "up")],
    unit="none",
    width=3,
    height=4,
    shows="Whether every chosen server answers its scrapes: `down` means that at least one does not.",
    act="look at the process and its log, then at the network between it and Prometheus. A server that loads a model answers.",
    limits=[Limit(thresholds.ANSWERS, "green")],
    ground="red",
    mappings={"0": ("down", "red"), "1": ("up", "green")},
    no_value="nothing is scraped",
)
RESTARTS = Panel(
    2,
    "Restarts",
    number(graph=False),
    [Query(f"max(changes({series('process_start_time_seconds')}[15m]))", "within 15 minutes")],
    unit="short",
    width=3,
    height=4,
    shows="How often the worst of the servers was started anew within 15 minutes. Each start is also a blue mark in all panels.",
    act="stop the service before anything else: each start loads the model again. Then read the end of the log before the last start.",
    limits=[Limit(thresholds.RESTARTS)],
    decimals=0,
    no_value="not told here",
)
FAILED = Panel(
    3,
    "Failed requests",
    number(),
    [
        Query(
            share(total(increase("samovar_requests_total", 'outcome="failed"', window="10m")), _ANSWERED),
            "of 10 minutes",
        )
    ],
    unit="percentunit",
    width=3,
    height=4,
    shows="The share of requests that failed through the server's own fault, over 10 minutes.",
    act="look for `engine rebuilt` and for errors in the log; the trace of a failed request says in which stage it failed.",
    limits=[Limit(thresholds.ERROR_RATIO)],
    links=[Link("Traces of failed requests", explore('{ span.samovar.finish_reason = "error" }'))],
)
REFUSED = Panel(
    4,
    "Turned away",
    number(),
    [
        Query(
            share(total(increase("samovar_requests_total", 'outcome="refused"', window="10m")), _ANSWERED),
            "of 10 minutes",
        )
    ],
    unit="percentunit",
    width=3,
    height=4,
    shows="The share of requests that were refused because there was no room, over 10 minutes.",
    act="see Running and waiting: a queue that is full for long needs another server, or clients that send less at a time.",
    limits=[Limit(thresholds.REFUSED_RATIO)],
)
QUEUE = Panel(
    5,
    "Queue filled",
    number(),
    [
        Query(
            f"max({share(series('samovar_requests_waiting'), series('samovar_requests_max_waiting'))})",
            "fullest",
        )
    ],
    unit="percentunit",
    width=3,
    height=4,
    shows="How full the fullest server's queue is.",
    act="at the top the next request is turned away. See whether Time to first token rose before: long prompts that do not hit the store fill queues.",
    limits=[Limit(thresholds.QUEUE_RATIO)],
    no_value="no model yet",
)
MEMORY_USED = Panel(
    6,
    "Memory used",
    number(),
    [
        Query(
            f"max(max by (job, instance) ({_MEMORY_IN_USE}) / on (job, instance) ({_MEMORY_LIMIT} > 0))",
            "of the limit",
        )
    ],
    unit="percentunit",
    width=3,
    height=4,
    shows="What the process is charged for, of what the device can give, at the server that has least left.",
    act="lower `snapshots.capacity_bytes` or the number of running requests: above the limit the system ends the process.",
    limits=[Limit(thresholds.MEMORY_RATIO)],
    no_value="not told here",
)
REUSED = Panel(
    7,
    "Prompt tokens reused",
    number(),
    [
        Query(
            share(
                total(increase("samovar_snapshot_reused_tokens_total")),
                total(increase("samovar_snapshot_lookup_tokens_total")),
            ),
            "over the time shown",
        )
    ],
    unit="percentunit",
    width=3,
    height=4,
    shows="The share of prompt tokens that were not computed again: what the snapshot store is worth.",
    act="low is no fault by itself: first turns have nothing to reuse. If it fell, the Cache sizing dashboard says why.",
    links=[Link("Cache sizing", "/d/samovar-cache-sizing?${__url_time_range}&${__all_variables}")],
)
MODEL = Panel(
    8,
    "Model",
    number(graph=False, text=BigValueTextMode.NAME),
    [Query(f"count by (model) ({series('samovar_model_info')})", "{{model}}")],
    unit="none",
    width=3,
    height=4,
    shows="What is served. More than one name: the chosen servers serve different models.",
    act="without a name no model is loaded yet, or loading failed: the log says which.",
    no_value="none loaded",
)

REQUESTS = Panel(
    9,
    "Requests by outcome",
    lines(stacked=True),
    [Query(total(rate("samovar_requests_total"), "outcome"), "{{outcome}}")],
    unit="reqps",
    width=8,
    height=8,
    shows="Answered requests a second by how they ended.",
    act="`failed` is ours, see the log. `refused` is a full queue. `cancelled` is a client that went away: with a slow first token, one that did not wait. `invalid` is the client's mistake.",
    colors={
        "completed": "green",
        "cancelled": "blue",
        "invalid": "yellow",
        "refused": "orange",
        "failed": "red",
    },
)
FIRST_TOKEN = Panel(
    10,
    "Time to first token",
    lines(points=True),
    [
        Query(
            quantile(0.5, "samovar_time_to_first_token_seconds", "cache"), "{{cache}}, half", exemplar=True
        ),
        Query(quantile(0.95, "samovar_time_to_first_token_seconds", "cache"), "{{cache}}, 95%"),
    ],
    unit="s",
    width=8,
    height=8,
    shows="From a request's arrival to its first token, with and without state from the store. The distance between `hit` and `miss` is what the store saves a user. Each dot is a request: it leads to its trace.",
    act="above the line, see first whether misses became more (Cache sizing) and whether requests wait (Running and waiting), then click a dot: the trace says where the time went.",
    limits=[Limit(thresholds.FIRST_TOKEN_SECONDS)],
    colors={
        "hit, half": "green",
        "hit, 95%": "dark-green",
        "miss, half": "orange",
        "miss, 95%": "dark-orange",
    },
    links=[
        Link(
            "Traces of slow first tokens",
            explore(spans("prefill", f"duration > {thresholds.FIRST_TOKEN_SECONDS}s")),
        )
    ],
)
TOKEN_LATENCY = Panel(
    11,
    "Time between tokens",
    lines(),
    [
        Query(quantile(0.5, "samovar_inter_token_latency_seconds"), "half"),
        Query(quantile(0.95, "samovar_inter_token_latency_seconds"), "95%"),
    ],
    unit="s",
    width=8,
    height=8,
    shows="How long a reader waits from one token to the next.",
    act="it rises with the number of requests that run together and while a long prompt is read. If it is too slow for reading along, lower the number of running requests.",
    colors={"half": "blue", "95%": "orange"},
)
UNDER_WAY = Panel(
    12,
    "Running and waiting",
    lines(),
    [
        Query(total(series("samovar_requests_running")), "running"),
        Query(total(series("samovar_requests_waiting")), "waiting"),
        Query(total(series("samovar_requests_max_running")), "most running"),
        Query(total(series("samovar_requests_max_waiting")), "most waiting"),
    ],
    unit="short",
    width=8,
    height=8,
    shows="Requests that run and that wait for a place, under their limits.",
    act="`waiting` close to its limit means that the next burst is refused: add a server, or see why each request takes so long.",
    colors={
        "running": "green",
        "waiting": "orange",
        "most running": "light-green",
        "most waiting": "light-orange",
    },
    dashed=["most running", "most waiting"],
    no_value="no model yet",
)
TOKENS = Panel(
    13,
    "Tokens per second",
    lines(stacked=True),
    [
        Query(total(rate("samovar_prefill_tokens_total")), "prompt, computed"),
        Query(total(rate("samovar_prompt_tokens_total", 'source="cached"')), "prompt, from the store"),
        Query(total(rate("samovar_generated_tokens_total")), "generated"),
    ],
    unit="short",
    width=8,
    height=8,
    shows="What the engine works on. `from the store` cost nothing; the rest is work.",
    act="nothing computed and nothing generated while requests run is an engine that hangs: see Serving internals.",
    colors={"prompt, computed": "orange", "prompt, from the store": "green", "generated": "blue"},
)
MEMORY = Panel(
    14,
    "Memory",
    lines(),
    [
        Query(
            total(series("samovar_device_memory_bytes", 'kind=~"active|cache|footprint"'), "kind"),
            "{{kind}}",
        ),
        Query(total(series("samovar_snapshot_bytes")), "snapshots"),
        Query(total(_MEMORY_LIMIT), "limit"),
    ],
    unit="bytes",
    width=8,
    height=8,
    shows="`active` is in use by the model, its running requests and the snapshots, `cache` is kept by the allocator, `footprint` is what the system charges the process with: the one it ends it for.",
    act="`footprint` close to the limit: lower `snapshots.capacity_bytes`. `active` that grows while nothing runs and `snapshots` is flat is a leak: report it.",
    colors={
        "limit": "red",
        "snapshots": "green",
        "active": "blue",
        "cache": "super-light-blue",
        "footprint": "orange",
    },
    dashed=["limit"],
    no_value="not told here",
)

OVERVIEW = Board(
    "samovar-overview",
    "Samovar / Overview",
    "Is it up, is it quick, is there room? One screen; the other two dashboards go on from here.",
    [
        Row(
            "",
            [
                *(UP, RESTARTS, FAILED, REFUSED, QUEUE, MEMORY_USED, REUSED, MODEL),
                *(REQUESTS, FIRST_TOKEN, TOKEN_LATENCY),
                *(UNDER_WAY, TOKENS, MEMORY),
            ],
        )
    ],
)
