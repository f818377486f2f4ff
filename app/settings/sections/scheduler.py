"""How many requests run and wait, and how a step is cut."""

from typing import Annotated

from msgspec import Meta, Struct

from app.settings.kinds import Auto, Count, Off, Seconds


class Scheduler(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many requests run, and how many wait."""

    max_running: Annotated[Count, Meta(description="Most requests generated at the same time.")]
    max_waiting: Annotated[
        Count, Meta(description="Most requests that wait for a place; one more is answered with 429.")
    ]
    prefill_step_tokens: Annotated[
        Count | Auto,
        Meta(
            description="Prompt tokens computed in one step; running replies pause for that long. auto is"
            " 2048 on a GPU and 512 on the CPU."
        ),
    ]
    prefill_batch: Annotated[
        Count,
        Meta(
            description="Most prompts computed in one step; never more than max_running. On a GPU one of them"
            " at a time is longer than prefill_step_tokens."
        ),
    ]
    shared_prefix_tokens: Annotated[
        Count,
        Meta(
            description="A request waits for another one's snapshot under way that saves it so many tokens."
        ),
    ]
    queue_seconds: Annotated[
        Seconds,
        Meta(description="Longest a request waits for a place; then it is answered with 503."),
    ]
    decode_stall_seconds: Annotated[
        Seconds | Off,
        Meta(
            description="While replies are written, a prompt's chunks are made so short that a step takes no"
            " longer than this; off keeps prefill_step_tokens.",
            extra={"hint": "for chunks that are always as long write off"},
        ),
    ]
    max_rebuilds: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | Off,
        Meta(
            description="After so many failed steps within rebuild_window_seconds the server reports not"
            " ready; off never does."
        ),
    ]
    rebuild_window_seconds: Annotated[
        Seconds,
        Meta(description="How long a failed step counts for max_rebuilds."),
    ]
    stall_seconds: Annotated[
        Seconds,
        Meta(
            description="With work pending and no step finished for this long, the server reports not live."
        ),
    ]
    default_max_tokens: Annotated[
        Count | Auto,
        Meta(
            description="Reply limit for a request that names none, cut to what is left of the context;"
            " auto is all that is left."
        ),
    ]
