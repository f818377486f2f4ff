"""Where the server listens, how long things may take, and what it keeps on disk."""

from typing import Annotated

from msgspec import Meta, Struct

from app.settings.kinds import Bytes, Off, Seconds, SecondsOrZero
from app.settings.units import Unit


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server listens, and how long things may take."""

    host: Annotated[str, Meta(min_length=1, description="Address or host name to listen on.")]
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes any free one.")]
    drain_seconds: Annotated[
        SecondsOrZero,
        Meta(description="After SIGTERM, how long running requests may go on before they are ended."),
    ]
    max_request_bytes: Annotated[
        Bytes, Meta(description="Largest request body accepted; a larger one is answered with 413.")
    ]
    max_header_bytes: Annotated[
        Annotated[int, Meta(ge=8192, le=2**24, extra={"unit": Unit.BYTES})],
        Meta(description="Largest request line and headers together; larger ones are answered with 431."),
    ]
    keepalive_seconds: Annotated[
        Seconds,
        Meta(description="How long a stream may be silent before a comment is sent to keep it open."),
    ]
    request_seconds: Annotated[Seconds, Meta(description="Longest a request may take before it is ended.")]
    allow_unauthenticated: Annotated[
        bool,
        Meta(
            description="Allow a host that is not loopback without API keys: whoever reaches it may use it."
        ),
    ]
    cors_origins: Annotated[
        str,
        Meta(
            pattern=r"^(\*|[a-z][a-z0-9+.-]*://[^\s,/*]+(\s*,\s*[a-z][a-z0-9+.-]*://[^\s,/*]+)*)?$",
            extra={"allowed": "empty, *, or origins such as https://example.org, separated by commas"},
            description="Origins whose web pages may call the server from a browser; empty lets none.",
        ),
    ]
    tls_certificate: Annotated[
        str, Meta(description="File of the certificate chain (PEM) to serve HTTPS with; empty serves HTTP.")
    ]
    tls_key: Annotated[str, Meta(description="File of the certificate's private key (PEM).")]
    state_folder: Annotated[
        str,
        Meta(description="Folder for what outlives the process, the journal of starts; empty is the user's."),
    ]
    crash_loop_starts: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | Off,
        Meta(
            description="After so many starts that did not end well, the model is not loaded for a while; off"
            " keeps no journal of starts, and port 0 has none.",
        ),
    ]
    crash_loop_seconds: Annotated[
        Seconds,
        Meta(description="Within how long those starts make a crash loop, and how long the while is."),
    ]
