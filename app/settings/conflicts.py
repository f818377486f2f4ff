"""Settings that are each allowed and do not go together. Knows no layer."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from app.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two keys at odds, and the rule they break. The first one is the one to look at."""

    keys: tuple[str, str]
    rule: str


def conflicts(settings: Settings) -> Iterator[Conflict]:
    """Every rule between keys that `settings` breaks."""
    server, model, scheduler = settings.server, settings.model, settings.scheduler
    has_keys = settings.auth.keys_file or settings.auth.key
    if not (has_keys or server.allow_unauthenticated or is_loopback(server.host)):
        yield Conflict(
            ("server.host", "server.allow_unauthenticated"),
            "whoever reaches this address could use the server; listen on 127.0.0.1, or have API keys"
            " (auth.keys_file, auth.key), or, if that is meant, set server.allow_unauthenticated = true",
        )
    if bool(server.tls_certificate) != bool(server.tls_key):
        yield Conflict(
            ("server.tls_certificate", "server.tls_key"),
            "HTTPS takes both, the certificate and its private key",
        )
    if server.keepalive_seconds >= server.request_seconds:
        yield Conflict(
            ("server.keepalive_seconds", "server.request_seconds"),
            "the first must be shorter than the second, or no keep-alive is ever sent",
        )
    for key, value in [("model.revision", model.revision), ("model.adapter_path", model.adapter_path)]:
        if value and not model.path:
            yield Conflict((key, "model.path"), "the built-in demo model has none; say which model it is of")
    context = model.context_length
    if context == "auto":
        return
    if scheduler.default_max_tokens != "auto" and scheduler.default_max_tokens >= context:
        yield Conflict(
            ("scheduler.default_max_tokens", "model.context_length"),
            "the first must be smaller than the second, which has to hold the prompt as well",
        )
    if settings.snapshots.min_prefix_tokens >= context:
        yield Conflict(
            ("snapshots.min_prefix_tokens", "model.context_length"),
            "the first must be smaller than the second, or no state is ever kept",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name is believed only if it is localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
