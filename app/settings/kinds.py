"""The kinds of values that settings of several sections have, with their bounds and units."""

from typing import Annotated, Literal

from msgspec import Meta

from app.settings.units import Unit

Auto = Literal["auto"]
Off = Literal["off"]
# The upper bounds (1 PiB, a year) are there for typing errors: no machine and no wait is that large,
# and an endless duration cannot be handed to a timer.
Bytes = Annotated[int, Meta(ge=1, le=2**50, extra={"unit": Unit.BYTES})]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000.0, extra={"unit": Unit.SECONDS})]
SecondsOrZero = Annotated[float, Meta(ge=0, le=31_536_000.0, extra={"unit": Unit.SECONDS})]
Count = Annotated[int, Meta(ge=1)]
KEEP_NONE = {"hint": "to keep no snapshots write snapshots.enabled = false"}
