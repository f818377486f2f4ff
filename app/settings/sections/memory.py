"""What may be used of the device's memory."""

from typing import Annotated

from msgspec import Meta, Struct

from app.settings.kinds import Auto, Bytes, Count


class Memory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the process may use of the device's memory, and what of it stays free."""

    limit_bytes: Annotated[
        Bytes | Auto,
        Meta(
            description="Most memory for the model, requests and snapshots; auto is what the GPU recommends,"
            " or the machine has, or the container may use."
        ),
    ]
    headroom_bytes: Annotated[
        Bytes | Auto,
        Meta(
            description="Kept free of requests and snapshots, for what cannot be foretold; auto is a"
            " sixteenth of the limit."
        ),
    ]
    reply_tokens: Annotated[
        Count,
        Meta(
            description="A reply that may be longer is reckoned with so many tokens when its request starts,"
            " and with its own length beyond."
        ),
    ]
    cache_bytes: Annotated[
        Bytes | Auto,
        Meta(description="Freed buffers that MLX keeps for later on a GPU; auto is half of the headroom."),
    ]
    wired_bytes: Annotated[
        Bytes | Auto,
        Meta(description="Memory that macOS may not page out; auto is what the GPU recommends."),
    ]
