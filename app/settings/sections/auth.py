"""Who may use the server."""

from typing import Annotated

from msgspec import Meta, Struct


class Auth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may use the server; without keys, whoever reaches it."""

    keys_file: Annotated[
        str, Meta(description="File of API keys (TOML), read again at SIGHUP; empty has none.")
    ]
    key: Annotated[
        str,
        Meta(
            pattern=r"^([!-~]{16,})?$",
            extra={"allowed": "empty, or at least 16 characters without spaces", "secret": True},
            description="One API key that may do everything; empty has none.",
        ),
    ]
