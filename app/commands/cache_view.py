"""The numbers of `/v1/cache/stats` as a person reads them. Knows the keys, and no server."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.settings.units import format_seconds

_KIBI = 1024
_EVICTIONS = ("lru_bytes", "lru_entries", "lru_arrays", "pressure")


def readable_bytes(nbytes: float) -> str:
    """Three digits or so, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < _KIBI:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= _KIBI
    return f"{nbytes:.1f} TiB"


def view(stats: Mapping[str, Any]) -> RenderableType:
    """A verdict, and below it what it rests on; to a tenant, what it has and what became of it."""
    if "tenant" in stats:
        return Group(Text(f"The tenant {stats['tenant']}"), _own(stats), _happened(stats))
    return Group(_verdict(stats), _held(stats), _happened(stats))


def _verdict(stats: Mapping[str, Any]) -> Text:
    if not stats["enabled"]:
        return Text("The store is off.", style="yellow")
    capacity, right = stats["snapshot_capacity_bytes"], stats["snapshot_recommended_bytes"]
    because = stats["snapshot_recommendation"]
    if because["basis"] == "model":
        return Text("Nothing is stored yet: the recommendation comes from the model alone.")
    for_whom = f"{because['sessions']} conversations of {readable_bytes(because['bytes_per_session'])}"
    if right <= capacity:
        return Text(f"The capacity is enough for {for_whom}.", style="green")
    text = (
        f"The capacity is too small for {for_whom}: set {readable_bytes(right)} "
        f"(--snapshot-capacity-bytes {right})"
    )
    if not because["fits"]:
        text += f", which is all this machine has; {readable_bytes(because['wanted_bytes'])} would be right"
    return Text(f"{text}.", style="yellow")


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    return table


def _held(stats: Mapping[str, Any]) -> Table:
    table = _table("held now")
    limits = stats["snapshot_limits_from"]
    capacity = stats["snapshot_capacity_bytes"]
    share = stats["snapshot_bytes"] / capacity
    ttl = stats["snapshot_ttl_seconds"]
    set_by = "automatic" if stats["snapshot_capacity_automatic"] else limits["capacity_bytes"]
    table.add_row(
        "bytes",
        readable_bytes(stats["snapshot_bytes"]),
        f"{share:.0%} of {readable_bytes(capacity)} ({set_by})",
    )
    table.add_row(
        "snapshots",
        str(stats["snapshot_entries"]),
        f"of {stats['snapshot_max_entries']} ({limits['max_entries']}), "
        f"{readable_bytes(stats['snapshot_bytes_per_entry'])} each",
    )
    expires = "never expire" if ttl is None else f"expire after {format_seconds(ttl)}"
    table.add_row(
        "oldest use", f"{stats['snapshot_oldest_age_seconds']:.0f} s", f"ago; {expires} ({limits['ttl']})"
    )
    table.add_row(
        "recommended",
        readable_bytes(stats["snapshot_recommended_bytes"]),
        f"memory has {readable_bytes(stats['snapshot_available_bytes'])} for snapshots",
    )
    return table


def _own(stats: Mapping[str, Any]) -> Table:
    table = _table("held now")
    capacity = stats["snapshot_capacity_bytes"]
    share = stats["snapshot_bytes"] / capacity
    table.add_row(
        "bytes", readable_bytes(stats["snapshot_bytes"]), f"{share:.0%} of {readable_bytes(capacity)}"
    )
    each = readable_bytes(stats["snapshot_bytes_per_entry"])
    table.add_row("snapshots", str(stats["snapshot_entries"]), f"{each} each")
    return table


def _happened(stats: Mapping[str, Any]) -> Table:
    table = _table("since the start")
    removals = stats["snapshot_removals_by_reason"]
    tokens = stats["snapshot_lookup_tokens"]
    reused = stats["snapshot_reused_tokens"] / tokens if tokens else 0.0
    misses = {
        outcome: count
        for outcome, count in stats["snapshot_lookups_by_outcome"].items()
        if count and outcome != "hit"
    }
    table.add_row(
        "hits",
        str(stats["snapshot_hits"]),
        f"of {stats['snapshot_lookups']} lookups; {reused:.0%} of tokens reused",
    )
    table.add_row("misses", str(sum(misses.values())), _counts(misses))
    table.add_row("inserted", str(stats["snapshot_inserts"]), _counts(stats["snapshot_inserts_by_origin"]))
    evicted = {reason: removals[reason] for reason in _EVICTIONS}
    others = {reason: count for reason, count in removals.items() if reason not in _EVICTIONS}
    table.add_row("evicted", str(sum(evicted.values())), _counts(evicted))
    table.add_row("left otherwise", str(sum(others.values())), _counts(others))
    rejected = stats["snapshot_rejections_by_reason"]
    table.add_row("rejected", str(sum(rejected.values())), _counts(rejected))
    ghosts = stats["snapshot_ghost_hits_by_capacity"]
    table.add_row(
        "more memory", str(max(ghosts.values())), f"lookups it would have helped: {_counts(ghosts) or 'none'}"
    )
    return table


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)
