"""What the alerts about a server as a whole fire on, and what lies next to it."""

from tests.ops.alerts.case import Case

SERVER_CASES: dict[str, tuple[Case, ...]] = {
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
        Case("nothing is scraped for three minutes", {"up": "1x56 stale"}, alone=True),
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
    "SamovarCrashLoop": (
        Case(
            "the model is held back after five starts that crashed",
            {"samovar_crash_loop": "0x50 1x{n}", "samovar_starts_recent": "1x50 5x{n}"},
            fires=("SamovarCrashLoop",),
            told="mac-1 answers probes and serves nothing: 5 starts before did not end well.",
        ),
        Case(
            "four starts that crashed, and the fifth loads its model", {"samovar_starts_recent": "1x50 5x{n}"}
        ),
        Case("it was held back, and is no longer", {"samovar_crash_loop": "1x50 0x{n}"}),
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
        Case(
            "no token moves for seven minutes",
            {
                "samovar_prefill_tokens_total": "0+2000x53 106000x{n}",
                "samovar_generated_tokens_total": "0+900x53 47700x{n}",
            },
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
        Case(
            "too much for three minutes",
            {'samovar_device_memory_bytes{kind="footprint"}': "66e9x56 95e9x{n}"},
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
}
