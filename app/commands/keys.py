"""`samovar keys`: make an API key, and look at a file of them. It never writes a secret to a file."""

import argparse
import sys
from pathlib import Path

import msgspec

from app.auth.key import NAME_RULE, ApiKey, Scope, digest_of, is_name, new_secret
from app.commands.arguments import DONE, Commands, add_group, add_verb
from app.errors import ConfigurationError
from app.keys import read_key_file


def register(commands: Commands) -> None:
    """Add the verbs."""
    group = add_group(commands, "keys", "make API keys, and look at a file of them")
    new = add_verb(
        group,
        "new",
        _new,
        "print a new key: its secret on standard error, once, and its table for the file on standard output",
    )
    new.add_argument("name", metavar="NAME", help=f"what logs call it: {NAME_RULE}")
    new.add_argument("--tenant", metavar="NAME", help="whose it is. Default: the key's own name.")
    new.add_argument(
        "--scope",
        action="append",
        choices=[scope.value for scope in Scope],
        help="what it may be used for; may be given again. Default: inference.",
    )
    check = add_verb(group, "check", _check, "print the keys of a file, or what is wrong with it")
    check.add_argument("file", type=Path, metavar="FILE", help="as in auth.keys_file")


def _new(arguments: argparse.Namespace) -> int:
    for what, name in (("NAME", arguments.name), ("--tenant", arguments.tenant)):
        if name is not None and not is_name(name):
            raise ConfigurationError(f"{what} {name!r}: must be {NAME_RULE}")
    secret = new_secret()
    scopes = arguments.scope or [Scope.INFERENCE.value]
    # A quoted name, because dots would make tables within tables.
    lines = [f'["{arguments.name}"]', f'sha256 = "{digest_of(secret.encode()).hex()}"']
    if arguments.tenant is not None:
        lines.append(f'tenant = "{arguments.tenant}"')
    lines.append(f"scopes = {msgspec.json.encode(scopes).decode()}")
    sys.stderr.write(f"{secret}\n")
    print("\n".join(lines))
    return DONE


def _check(arguments: argparse.Namespace) -> int:
    for key in read_key_file(arguments.file):
        print(_line(key))
    return DONE


def _line(key: ApiKey) -> str:
    said = [f"{key.name}: tenant {key.tenant}", ", ".join(scope for scope in Scope if scope in key.scopes)]
    limits = {
        "bytes of snapshots": key.quota_bytes,
        "requests at a time": key.max_concurrent,
        "requests a minute": key.requests_per_minute,
    }
    said += [f"{limit} {name}" for name, limit in limits.items() if limit is not None]
    return "; ".join(said)
