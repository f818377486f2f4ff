"""The series of a healthy server in promtool's notation, and how a case changes them."""

import re
from collections.abc import Mapping

OVER_ALL = {
    "up": "1x{n}",
    "process_start_time_seconds": "-100000x{n}",
    "samovar_crash_loop": "0x{n}",
    "samovar_starts_recent": "1x{n}",
    "samovar_requests_running": "2x{n}",
    "samovar_requests_waiting": "1x{n}",
    "samovar_requests_max_waiting": "64x{n}",
    'samovar_requests_total{outcome="completed",route="/v1/chat/completions"}': "0+10x{n}",
    'samovar_requests_total{outcome="cancelled",route="/v1/chat/completions"}': "0x{n}",
    'samovar_requests_total{outcome="invalid",route="/v1/chat/completions"}': "0x{n}",
    'samovar_requests_total{outcome="refused",route="/v1/chat/completions"}': "0x{n}",
    'samovar_requests_total{outcome="failed",route="/v1/chat/completions"}': "0x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="hit",le="1"}': "0+9x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="hit",le="30"}': "0+9x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="hit",le="120"}': "0+9x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="hit",le="+Inf"}': "0+9x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="miss",le="1"}': "0x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="miss",le="30"}': "0+1x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="miss",le="120"}': "0+1x{n}",
    'samovar_time_to_first_token_seconds_bucket{cache="miss",le="+Inf"}': "0+1x{n}",
    'samovar_time_to_first_token_seconds_count{cache="hit"}': "0+9x{n}",
    'samovar_time_to_first_token_seconds_count{cache="miss"}': "0+1x{n}",
    "samovar_prefill_tokens_total": "0+2000x{n}",
    "samovar_generated_tokens_total": "0+900x{n}",
    'samovar_device_memory_bytes{kind="active"}': "60e9x{n}",
    'samovar_device_memory_bytes{kind="cache"}': "5e9x{n}",
    'samovar_device_memory_bytes{kind="footprint"}': "66e9x{n}",
    'samovar_device_memory_bytes{kind="limit"}': "100e9x{n}",
    'samovar_telemetry_dropped_total{sink="tally"}': "0x{n}",
    'samovar_telemetry_dropped_total{sink="traces"}': "0x{n}",
    "samovar_snapshot_capacity_bytes": "20e9x{n}",
    "samovar_snapshot_recommended_bytes": "15e9x{n}",
    'samovar_snapshot_bytes{origin="boundary"}': "9e9x{n}",
    'samovar_snapshot_bytes{origin="system"}': "1e9x{n}",
    'samovar_snapshot_entries{origin="boundary"}': "9x{n}",
    'samovar_snapshot_entries{origin="system"}': "1x{n}",
    'samovar_snapshot_inserts_total{origin="boundary"}': "9+10x{n}",
    'samovar_snapshot_inserts_total{origin="system"}': "1x{n}",
    'samovar_snapshot_inserted_bytes_total{origin="boundary"}': "9e9+10e9x{n}",
    'samovar_snapshot_inserted_bytes_total{origin="system"}': "1e9x{n}",
    'samovar_snapshot_removals_total{reason="superseded"}': "0+10x{n}",
    'samovar_snapshot_removals_total{reason="lru_bytes"}': "0x{n}",
    'samovar_snapshot_removals_total{reason="ttl"}': "0x{n}",
    'samovar_snapshot_removed_bytes_total{reason="superseded"}': "0+10e9x{n}",
    'samovar_snapshot_removed_bytes_total{reason="lru_bytes"}': "0x{n}",
    "samovar_snapshot_self_evictions_total": "0x{n}",
    'samovar_snapshot_rejections_total{reason="oversized"}': "0x{n}",
    'samovar_snapshot_rejections_total{reason="too_short"}': "0x{n}",
    'samovar_snapshot_rejections_total{reason="low_memory"}': "0x{n}",
    'samovar_snapshot_lookups_total{outcome="hit"}': "0+9x{n}",
    'samovar_snapshot_lookups_total{outcome="no_candidate"}': "0+1x{n}",
    'samovar_snapshot_lookups_total{outcome="diverged"}': "0x{n}",
    'samovar_snapshot_lookups_total{outcome="opted_out"}': "0x{n}",
    "samovar_snapshot_lookup_tokens_total": "0+20000x{n}",
    "samovar_snapshot_reused_tokens_total": "0+18000x{n}",
    'samovar_snapshot_ghost_hits_total{capacity="1.5x"}': "0x{n}",
    'samovar_snapshot_ghost_hits_total{capacity="4x"}': "0x{n}",
    'samovar_snapshot_reuse_gap_seconds_bucket{le="60"}': "0+5x{n}",
    'samovar_snapshot_reuse_gap_seconds_bucket{le="600"}': "0+9x{n}",
    'samovar_snapshot_reuse_gap_seconds_bucket{le="+Inf"}': "0+9x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="60",reason="lru_bytes"}': "0x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="600",reason="lru_bytes"}': "0x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="+Inf",reason="lru_bytes"}': "0x{n}",
    "samovar_snapshot_divergence_tokens_count": "0x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="32.0"}': "0x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="64.0"}': "0x{n}",
    'samovar_snapshot_divergence_tokens_bucket{le="+Inf"}': "0x{n}",
}
"""Ten requests a minute, nine of them hits; every turn supersedes the one before, and nothing is evicted."""


def server(instance: str, changes: Mapping[str, str], *, samples: int, bare: bool = False) -> dict[str, str]:
    """A server's series → values, `samples` of each after the first; `changes` to a healthy one's.

    A changed series has to be one of a healthy server. Its values may hold `{n}` as well; `gone` takes
    the series away, and of a `bare` server all others are gone.
    """
    unknown = set(changes) - set(OVER_ALL)
    assert not unknown, f"a healthy server has no {unknown}"
    values = {
        name: text.replace("{n}", str(samples))
        for name, text in (({} if bare else OVER_ALL) | {**changes}).items()
    }
    return {
        _labelled(name, job="samovar", instance=instance): text
        for name, text in values.items()
        if text != "gone"
    }


def _labelled(series: str, **labels: str) -> str:
    """`series`, which may have labels, with more of them."""
    name, inner = re.fullmatch(r"(\w+)(?:\{(.*)\})?", series).groups()  # type: ignore[union-attr]
    more = [f'{label}="{value}"' for label, value in labels.items()]
    return f"{name}{{{','.join([*([inner] if inner else []), *more])}}}"
