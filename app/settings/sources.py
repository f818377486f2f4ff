"""Reads one file, or the environment, into a layer. Knows no schema, and decides nothing.

Dynaconf reads; its conveniences stay out, because each of them changes what somebody wrote: files nobody
named (`.local.`, `.env`, includes, hook scripts beside a file), `@format` and its kin inside a value,
`DYNACONF_…` variables, and TOML typing in the environment, where a commit `12e4` would become a number.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynaconf import Dynaconf
from dynaconf.loaders import toml_loader

from app.errors import ConfigurationError
from app.settings.keys import ENVIRONMENT_PREFIX
from app.settings.schema import DEFAULT_LAYER

DEFAULTS = Path(__file__).with_name("defaults.toml")

# Kubernetes puts the address of each Service into the environment of every pod near it, and a Service is
# likely to be called samovar. None of those names has two underscores together, as a setting's has.
_SERVICE_LINK = re.compile(
    r"([A-Z0-9]+_)+(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


@dataclass(frozen=True, slots=True)
class Given:
    """What one layer says about one key: the raw value, the key as it is spelled there, the layer's name."""

    value: object
    spelling: str
    layer: str


Layer = Mapping[str, Given]
"""Dotted key → what the layer says of it. The key need not exist."""


def read_defaults() -> Layer:
    """The built-in values."""
    return _read_toml(DEFAULTS, layer=DEFAULT_LAYER)


def read_file(path: Path, *, required: bool) -> Layer:
    """A TOML file; an absent one that is not `required` is an empty layer.

    Raises:
        ConfigurationError: it cannot be read, is not TOML, or is required and absent.
    """
    try:
        # Dynaconf takes a name without this ending for the text of a file.
        if path.suffix != ".toml":
            raise ConfigurationError(f"{path}: the name of a settings file must end in .toml")
        with path.open("rb"):
            return _read_toml(path, layer=str(path))
    except FileNotFoundError:
        if required:
            raise ConfigurationError(f"{path}: there is no such settings file") from None
        return {}
    except OSError as error:
        raise ConfigurationError(f"{path}: the settings file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: the settings file is not TOML in UTF-8: {error}") from None


def read_environment(environ: Mapping[str, str]) -> Layer:
    """All `SAMOVAR_…` variables, with their values as the text they are."""
    in_pod = "KUBERNETES_SERVICE_HOST" in environ
    texts = {
        name.removeprefix(ENVIRONMENT_PREFIX): text
        for name, text in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and not (in_pod and _SERVICE_LINK.fullmatch(name))
    }
    settings = _bare_dynaconf(nested_separator="__")
    settings.update(texts)
    spellings = {text.strip().lower().replace("__", "."): ENVIRONMENT_PREFIX + text for text in texts}
    layer = {}
    for dotted, text in _flat(_own(settings)):
        spelling = spellings.get(dotted, dotted)
        layer[dotted] = Given(text, spelling=spelling, layer=f"env {spelling}")
    return layer


def _read_toml(path: Path, *, layer: str) -> Layer:
    settings = _bare_dynaconf(nested_separator=False)
    toml_loader.load(settings, env="_envless", filename=[str(path)])
    return {dotted: Given(value, spelling=dotted, layer=layer) for dotted, value in _flat(_own(settings))}


def _bare_dynaconf(*, nested_separator: str | bool) -> Any:
    return Dynaconf(
        dynaconf_skip_loaders=True,
        load_dotenv=False,
        auto_cast=False,
        dotted_lookup=False,
        nested_separator=nested_separator,
    )


def _own(settings: Any) -> dict[str, object]:
    """What was read, without Dynaconf's options and with the sections in lower case again."""
    options = {"DYNACONF_SKIP_LOADERS", "LOAD_DOTENV"}
    return {name.lower(): value for name, value in settings.as_dict().items() if name not in options}


def _flat(tree: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """(dotted key, value) of every leaf; a table without keys says nothing."""
    leaves: list[tuple[str, object]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            leaves += _flat(value, f"{prefix}{name}.")
        else:
            leaves.append((prefix + name, value))
    return leaves
