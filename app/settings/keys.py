"""The settings one by one, read off the schema: a key's names, what it takes, and how it is read and shown.

Flags, environment names, help texts, error messages and the documentation's tables all come from here.
Knows no layer and no value.
"""

from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect

from app.settings.schema import Settings
from app.settings.units import Unit, format_bytes, format_seconds, parse_bytes, parse_seconds

ENVIRONMENT_PREFIX = "SAMOVAR_"

# A flag names its section in the singular; what is asked for most often needs no section at all.
_FLAG_PREFIX = {
    "": "",
    "server": "",
    "model": "",
    "scheduler": "scheduler-",
    "snapshots": "snapshot-",
    "telemetry": "telemetry-",
}
_FLAG_NAME = {"model.path": "model"}


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `section` is empty for a key at the top of a file."""

    section: str
    name: str
    annotation: Any
    description: str
    zero_hint: str
    kind: inspect.Type
    bounds: inspect.Type
    unit: Unit | None
    words: tuple[str, ...]
    allowed: str
    """What may be written, as it reads after "must be"."""

    @property
    def dotted(self) -> str:
        """The name in messages and in provenance, such as `snapshots.ttl`."""
        return f"{self.section}.{self.name}" if self.section else self.name
