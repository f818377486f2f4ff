"""What can be set, as frozen values: types, bounds and one sentence each. Knows no file, environment or flag.

The defaults are in `defaults.toml` and nowhere else, so a `Settings` always comes out of a loader.
Help texts, docs/settings.md and the flags are made from the annotations here. An attribute has its unit
in its name; where the name a user writes differs, `field(name=…)` says so.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from app.settings.pattern import check_pattern
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

DEFAULT_LAYER = "default"

Provenance = Mapping[str, str]
"""Dotted key → the layer its value came from: `default`, a file's path, `env SAMOVAR_…`, `flag --…`."""


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


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model is served."""

    path: Annotated[
        str,
        Meta(
            description="Folder of a model, or its hub id (owner/name); empty serves the built-in demo model."
        ),
    ]
    alias: Annotated[
        str, Meta(description="Name clients see and ask for; empty derives it from the model's path.")
    ]
    aliases: Annotated[
        str, Meta(description="More names that clients may ask for, separated by commas; empty adds none.")
    ]
    revision: Annotated[
        str, Meta(description="Branch, tag or commit of the hub repository; empty is its default branch.")
    ]
    adapter_path: Annotated[str, Meta(description="Folder of a LoRA adapter to apply; empty applies none.")]
    trust_remote_code: Annotated[
        bool, Meta(description="Let the model's repository run its own Python code in this process.")
    ]
    chat_template: Annotated[
        str,
        Meta(
            description="File with a Jinja chat template to use instead of the model's own; empty keeps it."
        ),
    ]
    template_kwargs: Annotated[
        dict[str, Any],
        Meta(
            description="Variables for the chat template, where a request's chat_template_kwargs do not set"
            " them."
        ),
    ]
    context_length: Annotated[
        Count | Auto,
        Meta(description="Most tokens of prompt and reply together; auto is what the model declares."),
    ]


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
        Count, Meta(description="Most prompts computed in one step; never more than max_running.")
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


class Telemetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the server tells about itself."""

    otlp_endpoint: Annotated[
        str,
        Meta(
            pattern=r"^(https?://\S+)?$",
            extra={"allowed": "empty, or an address that begins with http:// or https://"},
            description="Where spans are sent, as an http:// or https:// address; empty sends none.",
        ),
    ]
    otlp_protocol: Annotated[
        Literal["http/protobuf", "grpc"], Meta(description="How spans are sent to otlp_endpoint.")
    ]
    sample_ratio: Annotated[
        float,
        Meta(ge=0, le=1, description="Share of traces that are recorded, where the caller decided nothing."),
    ]
    capture_content: Annotated[
        bool,
        Meta(description="Send prompts and replies along with spans; whoever reads the traces reads them."),
    ]
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe log line written.")
    ]
    log_format: Annotated[
        Literal["auto", "json", "console"],
        Meta(description="How log lines look; auto is console on a terminal and json elsewhere."),
    ]
    log_file: Annotated[
        str,
        Meta(
            description="File that standard output and error go to, begun anew when it is moved away; empty"
            " leaves both as they are."
        ),
    ]
    service_name: Annotated[str, Meta(min_length=1, description="service.name of spans and log lines.")]
    metrics: Annotated[bool, Meta(description="Serve Prometheus metrics at /metrics.")]


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
