"""What the alerts about what the store gives, and about its books, fire on, and what lies next to it."""

from tests.ops.alerts.case import DIVERGED, EVICTIONS, HIT, NO_CANDIDATE, Case

_DIVERGING = {
    HIT: "0+4x{n}",
    NO_CANDIDATE: "0x{n}",
    DIVERGED: "0+6x{n}",
    "samovar_snapshot_divergence_tokens_count": "0+6x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="32.0"}': "0x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="64.0"}': "0+6x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="+Inf"}': "0+6x{n}",
}

REUSE_CASES: dict[str, tuple[Case, ...]] = {
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
                HIT: "0+9x300 2700x{n}",
                NO_CANDIDATE: "0+1x300 301+1x{n}",
            },
            step=4,
            minute=21 * 60,
        ),
        Case(
            "after twenty hours of reuse a quarter is still reused",
            {"samovar_snapshot_reused_tokens_total": "0+18000x300 5405000+5000x{n}"},
            step=4,
            minute=21 * 60,
            fires=("SamovarCacheHitCollapse",),
        ),
        Case(
            "it began to be so forty minutes ago",
            {"samovar_snapshot_reused_tokens_total": "0+18000x305 5490000x{n}"},
            step=4,
            minute=21 * 60,
        ),
        Case(
            "the server was started half an hour ago",
            {
                "samovar_snapshot_reused_tokens_total": "0+18000x300 5400000x{n}",
                "process_start_time_seconds": "73500x{n}",
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
            "three in thirteen diverge",
            {
                DIVERGED: "0+3x{n}",
                "samovar_snapshot_divergence_tokens_count": "0+3x{n}",
                'samovar_snapshot_divergence_tokens_bucket{le="+Inf"}': "0+3x{n}",
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
        Case("most are new conversations", {HIT: "0+1x{n}", NO_CANDIDATE: "0+9x{n}"}, minute=150),
        Case(
            "a few diverge on a quiet day",
            {
                HIT: "0x{n}",
                NO_CANDIDATE: "0x{n}",
                DIVERGED: "0+0.1x{n}",
                "samovar_snapshot_divergence_tokens_count": "0+0.1x{n}",
                'samovar_snapshot_divergence_tokens_bucket{le="+Inf"}': "0+0.1x{n}",
            },
            minute=150,
        ),
        Case(
            "the server was started seventy minutes ago",
            {**_DIVERGING, "process_start_time_seconds": "4800x{n}"},
            minute=150,
        ),
        Case(
            "the client began to fifty minutes ago",
            {
                **{name: text.replace("0+6x", "0x100 6+6x") for name, text in _DIVERGING.items()},
                HIT: "0+9x100 904+4x{n}",
            },
            minute=150,
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
        Case("everything that comes in supersedes, or expires, or is evicted", EVICTIONS),
        Case("it was wrong in one scrape", {'samovar_snapshot_entries{origin="boundary"}': "9x57 8 9x{n}"}),
        Case("it is wrong since five minutes", {'samovar_snapshot_entries{origin="boundary"}': "9x54 8x{n}"}),
    ),
}
