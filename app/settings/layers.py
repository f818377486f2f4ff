"""Where the layers lie, from the strongest to the weakest. Knows not how they are weighed."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from app.errors import ConfigurationError
from app.settings.keys import all_keys
from app.settings.resolution import Loaded, resolve
from app.settings.schema import Settings
from app.settings.sources import Layer, read_defaults, read_environment, read_file


def load_here(flags: Layer, *, config: Path | None) -> Loaded:
    """`load` for this process: its environment, its working folder, this system's file."""
    return load(
        flags, config=config, environ=os.environ, folder=Path.cwd(), system_file=system_file(sys.platform)
    )


def client_key() -> str:
    """`auth.key` as the environment has it, for a command that calls a server; empty where it has none.

    Raises:
        ConfigurationError: it can be no key.
    """
    given = read_environment(os.environ).get("auth.key")
    if given is None:
        return ""
    [key] = [key for key in all_keys() if key.dotted == "auth.key"]
    try:
        return str(key.read(given.value))
    except ValueError as error:
        raise ConfigurationError(f"auth.key ({given.layer}): {error}") from None


def load(
    flags: Layer, *, config: Path | None, environ: Mapping[str, str], folder: Path, system_file: Path
) -> Loaded:
    """The settings of all layers. `config` is a file that must exist.

    Raises:
        ConfigurationError: a layer cannot be read, or says something that cannot be used; one line a fault.
    """
    named = [] if config is None else [config.absolute()]
    # As keys of a dict, so that a file that is named and found as well is read once.
    paths = dict.fromkeys([*named, (folder / "samovar.toml").absolute(), system_file])
    files, unreadable = [], []
    for path in paths:
        try:
            files.append(read_file(path, required=path in named))
        except ConfigurationError as error:
            unreadable.append(str(error))
    # What the other layers say is not judged without these: a conflict may be settled in one of them.
    if unreadable:
        raise ConfigurationError("\n".join(unreadable))
    return resolve([flags, read_environment(environ), *files, read_defaults()])


def system_file(platform: str) -> Path:
    """Where a machine's own settings lie; `platform` as in `sys.platform`."""
    if platform == "darwin":
        return Path("/Library/Application Support/Samovar/samovar.toml")
    return Path("/etc/samovar/samovar.toml")


def built_in() -> Settings:
    """The settings where nobody sets anything."""
    return resolve([read_defaults()]).settings
