"""What is kept of conversations between their turns."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from app.settings.kinds import KEEP_NONE, Auto, Bytes, Count, Off, Seconds
from app.settings.pattern import check_pattern


class Snapshots(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of conversations between their turns."""

    enabled: Annotated[
        bool, Meta(description="Keep model state between turns; without it every turn starts cold.")
    ]
    capacity_bytes: Annotated[
        Bytes | Auto,
        Meta(
            description="Memory for all snapshots together; auto fits it to the model and the memory left.",
            extra=KEEP_NONE,
        ),
    ]
    max_entries: Annotated[
        Count,
        Meta(
            description="Most snapshots kept; the least recently used goes first.",
            extra=KEEP_NONE,
        ),
    ]
    max_arrays: Annotated[
        Count | Auto | Off,
        Meta(
            description="Most device arrays in all snapshots; auto follows the device, off sets no limit.",
            extra=KEEP_NONE,
        ),
    ]
    ttl_seconds: Annotated[
        Seconds | Off,
        Meta(
            description="A snapshot not used for this long is removed; off keeps it until memory is needed.",
            extra={"hint": "to let snapshots never expire write off"},
        ),
    ] = field(name="ttl")
    min_prefix_tokens: Annotated[
        Count, Meta(description="A state of fewer tokens is not kept: computing it again is as fast.")
    ]
    supersede: Annotated[
        bool, Meta(description="Let a conversation's newer snapshot replace the older ones it contains.")
    ]
    keep_ancestors: Annotated[
        int,
        Meta(
            ge=0,
            description="Superseded snapshots a session keeps while there is room, for when its last"
            " messages are edited.",
        ),
    ]
    system_anchors: Annotated[
        bool,
        Meta(description="Keep the state of each system prompt, and start new conversations from it."),
    ]
    completions: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Whether the state at a reply's end is kept as well; auto keeps it where the model's"
            " state can be truncated."
        ),
    ]
    warmup: Annotated[
        bool,
        Meta(description="After a reply, compute in idle time what the next turn will begin with."),
    ]
    reasoning_echo_bytes: Annotated[
        Bytes | Off,
        Meta(
            description="Memory for replies' reasoning, for clients that leave it out later; off keeps none.",
            extra={"hint": "to keep no reasoning write off"},
        ),
    ]
    ignored_system_lines: Annotated[
        str,
        Meta(
            extra={"check": check_pattern, "allowed": "empty, or a regular expression of Python"},
            description="Regular expression; lines of system prompts that it is found in are left out,"
            " because they change from request to request. Empty leaves all in.",
        ),
    ]
