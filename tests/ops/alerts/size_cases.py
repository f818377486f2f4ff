"""What the alerts about the size of the store fire on, and what lies next to it."""

from tests.ops.alerts.case import DAY, EVICTIONS, HIT, NO_CANDIDATE, Case

_GHOSTS = {
    'samovar_snapshot_ghost_hits_total{capacity="4x"}': "0+3x{n}",
    HIT: "0+6x{n}",
    NO_CANDIDATE: "0+4x{n}",
}
_NO_REUSE = {
    f'samovar_snapshot_reuse_gap_seconds_bucket{{le="{bound}"}}': "0x{n}" for bound in ("60", "600", "+Inf")
}
_IDLE_STORE = {
    "up": "1x{n}",
    "samovar_snapshot_capacity_bytes": "20e9x{n}",
    'samovar_snapshot_bytes{origin="boundary"}': "2e9x{n}",
    'samovar_snapshot_bytes{origin="system"}': "1e9x{n}",
    'samovar_snapshot_inserts_total{origin="boundary"}': "9x{n}",
}

SIZE_CASES: dict[str, tuple[Case, ...]] = {
    "SamovarCacheBudgetTooSmall": (
        Case(
            "a session pushes out its own state all the time",
            {**EVICTIONS, "samovar_snapshot_self_evictions_total": "0+1x{n}"},
            fires=("SamovarCacheBudgetTooSmall",),
            told=(
                "mac-1 evicted 30 snapshots of the very session it was serving in 30 minutes."
                " The store may hold 18.63GiB; recommended: 13.97GiB."
            ),
        ),
        Case(
            "it does so five times in half an hour",
            {"samovar_snapshot_self_evictions_total": "0x40 1 2 3 4 5x{n}"},
            fires=("SamovarCacheBudgetTooSmall",),
        ),
        Case("it began to five minutes ago", {"samovar_snapshot_self_evictions_total": "0x52 1 2 3 4 5x{n}"}),
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
        Case("a full store evicts what nobody comes back for", EVICTIONS),
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
            {**EVICTIONS, **_GHOSTS},
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
                **EVICTIONS,
                **_GHOSTS,
                **_NO_REUSE,
                HIT: "0x{n}",
                "samovar_snapshot_reused_tokens_total": "0x{n}",
            },
            minute=90,
            fires=("SamovarCacheThrashing",),
        ),
        Case("a full store evicts all day, and everybody who comes back hits", EVICTIONS, minute=90),
        Case(
            "nobody ever comes back, so that everything is evicted and everything misses",
            {
                **EVICTIONS,
                **_NO_REUSE,
                HIT: "0x{n}",
                NO_CANDIDATE: "0+10x{n}",
                "samovar_snapshot_reused_tokens_total": "0x{n}",
            },
            minute=90,
        ),
        Case(
            "the sessions push out their own state: one cause, one alert",
            {**EVICTIONS, **_GHOSTS, "samovar_snapshot_self_evictions_total": "0+1x{n}"},
            minute=90,
            fires=("SamovarCacheBudgetTooSmall",),
        ),
        Case(
            "everything is superseded, and ghosts of yesterday are still counted",
            {'samovar_snapshot_ghost_hits_total{capacity="4x"}': "9000x{n}"},
            minute=90,
        ),
        Case("misses what had to go before there was room", _GHOSTS, minute=90),
        Case(
            "one in fourteen lookups would have hit with more memory",
            {**EVICTIONS, 'samovar_snapshot_ghost_hits_total{capacity="4x"}': "0+0.7x{n}"},
            minute=90,
        ),
        Case(
            "the server was started forty minutes ago",
            {**EVICTIONS, **_GHOSTS, "process_start_time_seconds": "3000x{n}"},
            minute=90,
        ),
        Case(
            "it began to a quarter of an hour ago",
            {**EVICTIONS, 'samovar_snapshot_ghost_hits_total{capacity="4x"}': "0x75 3+3x{n}"},
            minute=90,
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
        Case(
            "the server is known for a week and half a day",
            {name: text if name == "up" else f"_x36 {text}" for name, text in _IDLE_STORE.items()},
            step=60,
            minute=9 * DAY,
            bare=True,
        ),
    ),
}
