"""What the server tells about itself."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


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
