"""What a case is: one server's life, and the alerts of it. It knows no alert."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grafana.source.rules import document

GROUPS = [group["name"] for group in document()["groups"]]
"""The rule groups in the order that promtool is told to take them in.

Left to itself it takes them in another order each time, and an alert may read what a step before recorded.
"""
HIT, NO_CANDIDATE, DIVERGED = (
    f'samovar_snapshot_lookups_total{{outcome="{outcome}"}}'
    for outcome in ("hit", "no_candidate", "diverged")
)
EVICTIONS = {
    # One goes for each that comes, in place of those that were superseded.
    'samovar_snapshot_removals_total{reason="lru_bytes"}': "0+8x{n}",
    'samovar_snapshot_removed_bytes_total{reason="lru_bytes"}': "0+8e9x{n}",
    'samovar_snapshot_removals_total{reason="superseded"}': "0+2x{n}",
    'samovar_snapshot_removed_bytes_total{reason="superseded"}': "0+2e9x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="60",reason="lru_bytes"}': "0x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="600",reason="lru_bytes"}': "0+8x{n}",
    'samovar_snapshot_idle_before_removal_seconds_bucket{le="+Inf",reason="lru_bytes"}': "0+8x{n}",
}
DAY = 24 * 60
"""In minutes."""


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
