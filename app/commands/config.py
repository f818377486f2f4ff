"""`samovar config`: every setting with the layer it comes from, and what is wrong with them."""

import argparse
import json

from app.commands.arguments import DONE, Commands, add_group, add_settings_verb, load
from app.settings.keys import all_keys


def register(commands: Commands) -> None:
    """Add the verbs."""
    looks = add_group(commands, "config", "look at the settings")
    show = add_settings_verb(
        looks, "show", _show, "print every setting, its value and the layer it comes from"
    )
    show.add_argument("--json", action="store_true", help="print it as JSON, in bytes and seconds")
    add_settings_verb(
        looks, "check", _check, 'print "ok", or what is wrong with the settings, one line a fault'
    )


def _show(arguments: argparse.Namespace) -> int:
    loaded = load(arguments)
    if arguments.json:
        values = {
            key.dotted: key.show(value) if key.secret and value else value
            for key in all_keys()
            for value in [key.value_in(loaded.settings)]
        }
        layers = loaded.provenance
        print(json.dumps({name: {"value": values[name], "layer": layers[name]} for name in values}, indent=2))
        return DONE
    heading = ("setting", "value", "layer")
    rows = [
        (key.dotted, key.show(key.value_in(loaded.settings)), loaded.provenance[key.dotted])
        for key in all_keys()
    ]
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for row in (heading, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return DONE


def _check(arguments: argparse.Namespace) -> int:
    load(arguments)
    print("ok")
    return DONE
