"""The API keys that the settings ask for: read at the start, and again when their file has changed."""

import logging
from pathlib import Path

from app.auth.key import ApiKey, Scope, digest_of
from app.auth.key_file import disagreements, read_keys
from app.auth.keyring import Keyring
from app.errors import ConfigurationError
from app.settings.sections.auth import Auth
from app.settings.units import parse_bytes

log = logging.getLogger(__name__)

SINGLE_NAME = "default"
"""Name and tenant of the key that is a setting."""


def load_keys(asked: Auth) -> tuple[ApiKey, ...]:
    """Every key; none where the settings name none.

    Raises:
        ConfigurationError: the file cannot be read, or its keys cannot be used; one line a fault.
    """
    single = _single(asked.key) if asked.key else ()
    keys = (*single, *(read_key_file(Path(asked.keys_file)) if asked.keys_file else ()))
    faults = list(disagreements(keys))
    if single and any(key.name == SINGLE_NAME for key in keys[1:]):
        faults.append(f"[{SINGLE_NAME}] is the name of auth.key; give the one in the file another")
    if faults:
        raise ConfigurationError("\n".join(f"auth.key and auth.keys_file: {fault}" for fault in faults))
    return keys


def reload_keys(keyring: Keyring, asked: Auth) -> None:
    """Let `keyring` have the keys of the file as it is now; a file that cannot be used changes nothing."""
    try:
        keys = load_keys(asked)
    except ConfigurationError as error:
        log.error("the API keys stay as they were: %s", "; ".join(str(error).splitlines()))  # noqa: TRY400
        return
    keyring.replace(keys)
    log.info("the API keys were read again: %s", ", ".join(key.name for key in keys))


def read_key_file(path: Path) -> tuple[ApiKey, ...]:
    """The keys of a file, at least one.

    Raises:
        ConfigurationError: it cannot be read, or its keys cannot be used; one line a fault.
    """
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: the file of keys cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: the file of keys is not UTF-8") from None
    return read_keys(text, source=f"{path}", parse_bytes=parse_bytes)


def _single(secret: str) -> tuple[ApiKey, ...]:
    return (
        ApiKey(
            name=SINGLE_NAME, tenant=SINGLE_NAME, digest=digest_of(secret.encode()), scopes=frozenset(Scope)
        ),
    )
