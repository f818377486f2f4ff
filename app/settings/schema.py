"""What can be set, as frozen values: the sections and what is in none. Knows no file, environment or flag.

The defaults are in `defaults.toml` and nowhere else, so a `Settings` always comes out of a loader.
Help texts, docs/settings.md and the flags are made from the annotations of `sections/`. An attribute
has its unit in its name; where the name a user writes differs, `field(name=…)` says so.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from app.settings.sections.auth import Auth
from app.settings.sections.memory import Memory
from app.settings.sections.model import Model
from app.settings.sections.scheduler import Scheduler
from app.settings.sections.server import Server
from app.settings.sections.snapshots import Snapshots
from app.settings.sections.telemetry import Telemetry

DEFAULT_LAYER = "default"

Provenance = Mapping[str, str]
"""Dotted key → the layer its value came from: `default`, a file's path, `env SAMOVAR_…`, `flag --…`."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting, with its value decided. Frozen, picklable, passed down by whoever starts things."""

    server: Server
    auth: Auth
    model: Model
    scheduler: Scheduler
    memory: Memory
    snapshots: Snapshots
    telemetry: Telemetry
    strict: Annotated[
        bool,
        Meta(description="Stop at a setting that cannot be used; without it, warn and use the next layer's."),
    ]
