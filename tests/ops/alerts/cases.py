"""What each alert fires on, what it does not fire on, and what lies next to it and is something else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_REQUESTS = 'samovar_requests_total{{outcome="{}",route="/v1/chat/completions"}}'
_COMPLETED, _CANCELLED, _INVALID, _REFUSED, _FAILED = (
    _REQUESTS.format(outcome) for outcome in ("completed", "cancelled", "invalid", "refused", "failed")
)
_HIT, _NO_CANDIDATE, _DIVERGED = (
    f'samovar_snapshot_lookups_total{{outcome="{outcome}"}}'
    for outcome in ("hit", "no_candidate", "diverged")
)
_SLOW = {
    f'samovar_time_to_first_token_seconds_bucket{{cache="{cache}",le="{bound}"}}': "0x{n}"
    for cache in ("hit", "miss")
    for bound in ("1", "30")
}
_EVICTIONS = {
    # One goes for each that comes, in place of those that were superseded.
    'samovar_snapshot_removals_total{reason="lru_bytes"}': "0+8x{n}",
    'samovar_snapshot_removed_bytes_total{reason="lru_bytes"}': "0+8e9x{n}",
    'samovar_snapshot_removals_total{reason="superseded"}': "0+2x{n}",
    'samovar_snapshot_removed_bytes_total{reason="superseded"}': "0+2e9x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="60",reason="lru_bytes"}': "0x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="600",reason="lru_bytes"}': "0+8x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="+Inf",reason="lru_bytes"}': "0+8x{n}",
}
_GHOSTS = {
    'samovar_snapshot_ghost_hits_total{capacity="4x"}': "0+3x{n}",
    _HIT: "0+6x{n}",
    _NO_CANDIDATE: "0+4x{n}",
}
_NO_REUSE = {
    f'samovar_snapshot_reuse_gap_seconds_bucket{{le="{bound}"}}': "0x{n}" for bound in ("60", "600", "+Inf")
}
_DIVERGING = {
    _HIT: "0+4x{n}",
    _NO_CANDIDATE: "0x{n}",
    _DIVERGED: "0+6x{n}",
    "samovar_snapshot_divergence_tokens_count": "0+6x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="32.0"}': "0x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="64.0"}': "0+6x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="+Inf"}': "0+6x{n}",
}
_IDLE_STORE = {
    "up": "1x{n}",
    "samovar_snapshot_capacity_bytes": "20e9x{n}",
    'samovar_snapshot_bytes{origin="boundary"}': "2e9x{n}",
    'samovar_snapshot_bytes{origin="system"}': "1e9x{n}",
    'samovar_snapshot_inserts_total{origin="boundary"}': "9x{n}",
}
DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Case:
    """What one server does, beside a healthy one, and the alerts that fire for it at `minute`: no others.

    `step`: minutes between two samples. `everywhere`: other series of Prometheus' own. `alone`: there is
    no healthy server. `bare`: the server has no series but those of `changes`. `told`: the description.
    """

    law: str
    changes: Mapping[str, str] = field(default_factory=dict)
    fires: tuple[str, ...] = ()
    minute: int = 60
    step: int = 1
    everywhere: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False
    bare: bool = False
    told: str = ""


CASES: dict[str, tuple[Case, ...]] = {
    "SamovarDown": (
        Case("no answer for ten minutes", {"up": "1x50 0x{n}"}, fires=("SamovarDown",)),
        Case("no answer for four minutes", {"up": "1x56 0x{n}"}),
        Case("another service is down", everywhere={'up{job="node",instance="mac-1:9100"}': "0x{n}"}),
    ),
    "SamovarAbsent": (
        Case(
            "nothing but another job is scraped",
            {"up": "gone"},
            everywhere={'up{job="node",instance="mac-1:9100"}': "1x{n}"},
            alone=True,
            fires=("SamovarAbsent",),
        ),
        Case("one of two servers is taken out of the scrapes", {"up": "gone"}),
        Case("the only server is down, and known", {"up": "0x{n}"}, alone=True, fires=("SamovarDown",)),
    ),
    "SamovarRestartLoop": (
        Case(
            "four starts within a quarter of an hour",
            {"process_start_time_seconds": "0x49 3000x3 3240x3 3480x{n}"},
            fires=("SamovarRestartLoop",),
        ),
        Case(
            "two starts within a quarter of an hour", {"process_start_time_seconds": "0x49 3000x4 3300x{n}"}
        ),
        Case(
            "three starts within three hours",
            {"process_start_time_seconds": "0x49 3000x60 6600x60 10200x{n}"},
            minute=180,
        ),
    ),
    "SamovarEngineStalled": (
        Case(
            "requests run, and no token moves",
            {"samovar_prefill_tokens_total": "5000x{n}", "samovar_generated_tokens_total": "900x{n}"},
            fires=("SamovarEngineStalled",),
        ),
        Case(
            "one long prompt is read, and nobody gets a token for an hour",
            {"samovar_prefill_tokens_total": "0+512x{n}", "samovar_generated_tokens_total": "900x{n}"},
        ),
        Case(
            "nobody asks for anything",
            {
                "samovar_requests_running": "0x{n}",
                "samovar_prefill_tokens_total": "5000x{n}",
                "samovar_generated_tokens_total": "900x{n}",
            },
        ),
        Case(
            "requests come and go too seldom to be seen at work",
            {
                "samovar_requests_running": "0 1 0 0 1x5 0x{n}",
                "samovar_prefill_tokens_total": "5000x{n}",
                "samovar_generated_tokens_total": "900x{n}",
            },
            minute=12,
        ),
    ),
    "SamovarMemoryNearLimit": (
        Case(
            "the process is charged with 95 of 100 GB",
            {'samovar_device_memory_bytes{kind="footprint"}': "95e9x{n}"},
            fires=("SamovarMemoryNearLimit",),
            told="mac-1 uses 95% of the memory it may use; 9.313GiB of it are snapshots.",
        ),
        Case(
            "arrays take 95 of 100 GB on a platform that tells no footprint",
            {
                'samovar_device_memory_bytes{kind="footprint"}': "gone",
                'samovar_device_memory_bytes{kind="active"}': "95e9x{n}",
            },
            fires=("SamovarMemoryNearLimit",),
        ),
        Case("90 of 100 GB", {'samovar_device_memory_bytes{kind="footprint"}': "90e9x{n}"}),
        Case(
            "the allocator keeps much of what it may give back",
            {'samovar_device_memory_bytes{kind="cache"}': "35e9x{n}"},
        ),
    ),
    "SamovarTelemetryDropping": (
        Case(
            "spans are lost all the time",
            {'samovar_telemetry_dropped_total{sink="traces"}': "0+4x{n}"},
            fires=("SamovarTelemetryDropping",),
            told="mac-1 lost 60 events or spans on their way to traces in 15 minutes.",
        ),
        Case(
            "a few were lost at once, in passing",
            {'samovar_telemetry_dropped_total{sink="traces"}': "0x50 9x{n}"},
        ),
        Case("some were lost long ago", {'samovar_telemetry_dropped_total{sink="tally"}': "7x{n}"}),
    ),
    "SamovarQueueFull": (
        Case(
            "60 of 64 places are taken",
            {"samovar_requests_waiting": "60x{n}"},
            fires=("SamovarQueueFull",),
            told="mac-1 has 93.75% of its queue taken: the next burst of requests is refused.",
        ),
        Case("40 of 64 places are taken", {"samovar_requests_waiting": "40x{n}"}),
        Case("a burst of three minutes", {"samovar_requests_waiting": "1x56 64x{n}"}),
        Case(
            "no queue is allowed at all",
            {"samovar_requests_max_waiting": "0x{n}", "samovar_requests_waiting": "0x{n}"},
        ),
    ),
    "SamovarRequestsRefused": (
        Case("one in eleven is turned away", {_REFUSED: "0+1x{n}"}, fires=("SamovarRequestsRefused",)),
        Case("one in fifty is turned away", {_COMPLETED: "0+49x{n}", _REFUSED: "0+1x{n}"}),
        Case("every second request is a client's mistake", {_INVALID: "0+10x{n}"}),
        Case(
            "one of three is turned away while hardly anybody asks",
            {_COMPLETED: "0+2x{n}", _REFUSED: "0+1x{n}"},
        ),
    ),
    "SamovarErrorsHigh": (
        Case("one in eleven fails", {_FAILED: "0+1x{n}"}, fires=("SamovarErrorsHigh",)),
        Case("one in a hundred fails", {_COMPLETED: "0+99x{n}", _FAILED: "0+1x{n}"}),
        Case("a single one fails on a quiet day", {_COMPLETED: "0+1x{n}", _FAILED: "0x52 1x{n}"}),
        Case("clients go away, and ask for nonsense", {_CANCELLED: "0+10x{n}", _INVALID: "0+10x{n}"}),
    ),
    "SamovarTTFTHigh": (
        Case("replies begin after half a minute and more", _SLOW, fires=("SamovarTTFTHigh",)),
        Case("cold prompts take up to half a minute, as they may"),
        Case(
            "a few cold prompts take long on a quiet day",
            {
                **_SLOW,
                **{
                    f"samovar_time_to_first_token_seconds_{sample}": "0+1x{n}"
                    for sample in (
                        'bucket{cache="hit",le="120"}',
                        'bucket{cache="hit",le="+Inf"}',
                        'count{cache="hit"}',
                    )
                },
                'samovar_time_to_first_token_seconds_count{cache="miss"}': "0x{n}",
            },
        ),
    ),
    "SamovarCacheBudgetTooSmall": (
        Case(
            "a session pushes out its own state all the time",
            {**_EVICTIONS, "samovar_snapshot_self_evictions_total": "0+1x{n}"},
            fires=("SamovarCacheBudgetTooSmall",),
            told=(
                "mac-1 evicted 30 snapshots of the very session it was serving in 30 minutes."
                " The store may hold 18.63GiB; recommended: 13.97GiB."
            ),
        ),
        Case("it does so three times", {"samovar_snapshot_self_evictions_total": "0x40 1 2 3x{n}"}),
        Case(
            "conversations supersede their own state a hundred times a minute",
            {
                'samovar_snapshot_inserts_total{origin="boundary"}': "9+100x{n}",
                'samovar_snapshot_removals_total{reason="superseded"}': "0+100x{n}",
                'samovar_snapshot_inserted_bytes_total{origin="boundary"}': "9e9+100e9x{n}",
                'samovar_snapshot_removed_bytes_total{reason="superseded"}': "0+100e9x{n}",
            },
        ),
        Case("a full store evicts what nobody comes back for", _EVICTIONS),
        Case(
            "the server was started ten minutes ago",
            {"process_start_time_seconds": "3000x{n}", "samovar_snapshot_self_evictions_total": "0+1x{n}"},
        ),
        Case(
            "the platform tells no start time",
            {"process_start_time_seconds": "gone", "samovar_snapshot_self_evictions_total": "0+1x{n}"},
            fires=("SamovarCacheBudgetTooSmall",),
        ),
    ),
    "SamovarCacheThrashing": (
        Case(
            "three in ten lookups miss what more memory would have kept",
            {**_EVICTIONS, **_GHOSTS},
            minute=90,
            fires=("SamovarCacheThrashing",),
            told=(
                "On mac-1 30% of the lookups missed a snapshot that more memory would have kept. Snapshots"
                " are evicted after 5m 30s without use (median); of the conversations that still hit, nine"
                " in ten come back within 7m 58s. The store may hold 18.63GiB; recommended: 13.97GiB."
            ),
        ),
        Case(
            "it thrashes so much that nothing hits any more",
            {
                **_EVICTIONS,
                **_GHOSTS,
                **_NO_REUSE,
                _HIT: "0x{n}",
                "samovar_snapshot_reused_tokens_total": "0x{n}",
            },
            minute=90,
            fires=("SamovarCacheThrashing",),
        ),
        Case("a full store evicts all day, and everybody who comes back hits", _EVICTIONS, minute=90),
        Case(
            "nobody ever comes back, so that everything is evicted and everything misses",
            {
                **_EVICTIONS,
                **_NO_REUSE,
                _HIT: "0x{n}",
                _NO_CANDIDATE: "0+10x{n}",
                "samovar_snapshot_reused_tokens_total": "0x{n}",
            },
            minute=90,
        ),
        Case(
            "the sessions push out their own state: one cause, one alert",
            {**_EVICTIONS, **_GHOSTS, "samovar_snapshot_self_evictions_total": "0+1x{n}"},
            minute=90,
            fires=("SamovarCacheBudgetTooSmall",),
        ),
        Case(
            "everything is superseded, and ghosts of yesterday are still counted",
            {'samovar_snapshot_ghost_hits_total{capacity="4x"}': "9000x{n}"},
            minute=90,
        ),
    ),
    "SamovarCacheHitCollapse": (
        Case(
            "after twenty hours of reuse nothing is reused for one",
            {"samovar_snapshot_reused_tokens_total": "0+18000x300 5400000x{n}"},
            step=4,
            minute=21 * 60,
            fires=("SamovarCacheHitCollapse",),
            told=(
                "On mac-1 0% of the prompt tokens came out of the store in 30 minutes, 85.71% in 24 hours;"
                " 0% of the last hour's lookups diverged."
            ),
        ),
        Case(
            "after twenty hours of reuse two thirds are still reused",
            {"samovar_snapshot_reused_tokens_total": "0+18000x300 5412000+12000x{n}"},
            step=4,
            minute=21 * 60,
        ),
        Case(
            "little was ever reused, and now nothing is",
            {"samovar_snapshot_reused_tokens_total": "0+2000x300 600000x{n}"},
            step=4,
            minute=21 * 60,
        ),
        Case(
            "nothing is reused, and hardly anybody asks",
            {
                "samovar_snapshot_reused_tokens_total": "0+18000x300 5400000x{n}",
                _HIT: "0+9x300 2700x{n}",
                _NO_CANDIDATE: "0+1x300 301+1x{n}",
            },
            step=4,
            minute=21 * 60,
        ),
    ),
    "SamovarCacheDivergence": (
        Case(
            "six in ten lookups diverge",
            _DIVERGING,
            minute=150,
            fires=("SamovarCacheDivergence",),
            told=(
                "On mac-1 60% of the lookups of an hour found a conversation that goes on otherwise; half of"
                " those that diverged did so within the first 48 tokens."
            ),
        ),
        Case(
            "two in twelve diverge",
            {
                _DIVERGED: "0+2x{n}",
                "samovar_snapshot_divergence_tokens_count": "0+2x{n}",
                'samovar_snapshot_divergence_tokens_bucket{le="+Inf"}': "0+2x{n}",
            },
            minute=150,
        ),
        Case(
            "new conversations share a template's first words with the others of their session",
            {
                **_DIVERGING,
                'samovar_snapshot_divergence_tokens_bucket{le="32.0"}': "0+6x{n}",
            },
            minute=150,
        ),
        Case("most are new conversations", {_HIT: "0+1x{n}", _NO_CANDIDATE: "0+9x{n}"}, minute=150),
        Case(
            "a few diverge on a quiet day",
            {
                _HIT: "0x{n}",
                _NO_CANDIDATE: "0x{n}",
                _DIVERGED: "0x130 5x10 10x{n}",
                "samovar_snapshot_divergence_tokens_count": "0x130 5x10 10x{n}",
            },
            minute=150,
        ),
    ),
    "SamovarCacheRejectsOversized": (
        Case(
            "one was larger than the store",
            {'samovar_snapshot_rejections_total{reason="oversized"}': "0x50 1x{n}"},
            fires=("SamovarCacheRejectsOversized",),
            told=(
                "mac-1 refused 1 snapshots in 30 minutes, each of them larger than the whole store."
                " The store may hold 18.63GiB; recommended: 13.97GiB."
            ),
        ),
        Case("one was, long ago", {'samovar_snapshot_rejections_total{reason="oversized"}': "0x10 1x{n}"}),
        Case(
            "prompts are too short to be kept, or memory is short",
            {
                'samovar_snapshot_rejections_total{reason="too_short"}': "0+10x{n}",
                'samovar_snapshot_rejections_total{reason="low_memory"}': "0+10x{n}",
            },
        ),
    ),
    "SamovarCacheIdle": (
        Case(
            "hardly a seventh of the capacity was held for nine days",
            _IDLE_STORE,
            step=60,
            minute=9 * DAY,
            bare=True,
            fires=("SamovarCacheIdle",),
            told="mac-1 may hold 18.63GiB and never held more than 2.794GiB in seven days.",
        ),
        Case(
            "one evening's peak came up to more than a quarter",
            {**_IDLE_STORE, 'samovar_snapshot_bytes{origin="boundary"}': "2e9x120 6e9x2 2e9x{n}"},
            step=60,
            minute=9 * DAY,
            bare=True,
        ),
        Case(
            "the server is known for five days only",
            {name: text if name == "up" else f"_x96 {text}" for name, text in _IDLE_STORE.items()},
            step=60,
            minute=9 * DAY,
            bare=True,
        ),
        Case(
            "everything expired long ago, and nobody came back",
            {name: "0x{n}" if "bytes{" in name else text for name, text in _IDLE_STORE.items()},
            step=60,
            minute=9 * DAY,
            bare=True,
            fires=("SamovarCacheIdle",),
        ),
        Case(
            "snapshots are switched off",
            {name: "0x{n}" if "{" in name else text for name, text in _IDLE_STORE.items()},
            step=60,
            minute=9 * DAY,
            bare=True,
        ),
        Case(
            "everything expired today",
            {**_IDLE_STORE, 'samovar_snapshot_bytes{origin="boundary"}': "9e9x200 0x{n}"},
            step=60,
            minute=9 * DAY,
            bare=True,
        ),
    ),
    "SamovarCacheLedgerBroken": (
        Case(
            "an entry is missing",
            {'samovar_snapshot_entries{origin="boundary"}': "8x{n}"},
            fires=("SamovarCacheLedgerBroken",),
            told="On mac-1 inserts less removals differ from what is held, by 1 entries or bytes.",
        ),
        Case(
            "bytes are missing, while the entries are right",
            {'samovar_snapshot_bytes{origin="system"}': "999999999x{n}"},
            fires=("SamovarCacheLedgerBroken",),
        ),
        Case("everything that comes in supersedes, or expires, or is evicted", _EVICTIONS),
        Case("it was wrong in one scrape", {'samovar_snapshot_entries{origin="boundary"}': "9x57 8 9x{n}"}),
    ),
}
