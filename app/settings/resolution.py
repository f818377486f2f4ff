"""Lays layers over one another: of each key, the strongest layer that says something allowed decides.

Every fault of every layer is found before anything is said. Knows not where a layer comes from.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from app.errors import ConfigurationError
from app.settings.conflicts import conflicts
from app.settings.keys import HIDDEN, Key, all_keys, sections
from app.settings.schema import Provenance, Settings
from app.settings.sources import Given, Layer

# Two names in the same section are alike by the section alone; a guess below this only misleads.
LIKENESS = 0.7
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, where each came from, and what was passed over because `strict` is false."""

    settings: Settings
    provenance: Provenance
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An allowed value of a key, and the layer that has it."""

    value: object
    layer: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What cannot be used, in one line, and the keys it is about (none, if there is no such key)."""

    keys: tuple[str, ...]
    line: str
    keeps_out: bool = False
    """Whether it is about who may use the server: passing it over could let in everybody."""


Candidates = dict[str, list[Candidate]]
"""Dotted key → the values it could have, the strongest first. The built-in one is always there, and last."""


def resolve(layers: Sequence[Layer]) -> Loaded:
    """One value a key, out of layers in falling strength, the last of which has every key.

    With `strict`, whatever cannot be used stops the start. Without it, the next layer that can be used
    decides that key, and a warning says so; but what is about keys and TLS stops the start all the same.

    Raises:
        ConfigurationError: something cannot be used; one line a fault.
    """
    keys = {key.dotted: key for key in all_keys()}
    candidates, faults = _sift(layers, keys)
    if candidates["strict"][0].value:
        # A refused value has not earned a second complaint about the one that stands in for it.
        mentioned = {dotted for fault in faults for dotted in fault.keys}
        faults += [fault for fault in _at_odds(candidates, keys) if mentioned.isdisjoint(fault.keys)]
        if faults:
            raise ConfigurationError("\n".join(fault.line for fault in faults))
    unsafe = [fault for fault in [*faults, *_at_odds(candidates, keys)] if fault.keeps_out]
    if unsafe:
        raise ConfigurationError("\n".join(fault.line for fault in unsafe))
    while at_odds := _at_odds(candidates, keys):
        faults.append(at_odds[0])
        # The first key yields before the second, so that no explicit "no" is dropped to make peace.
        yielding = next(dotted for dotted in at_odds[0].keys if len(candidates[dotted]) > 1)
        del candidates[yielding][0]
    return Loaded(
        settings=_settings(candidates),
        provenance={dotted: strongest.layer for dotted, (strongest, *_) in candidates.items()},
        warnings=tuple(_warning(fault, candidates, keys) for fault in faults),
    )


def _sift(layers: Sequence[Layer], keys: Mapping[str, Key]) -> tuple[Candidates, list[Fault]]:
    candidates: Candidates = {dotted: [] for dotted in keys}
    faults = []
    for layer in layers:
        for dotted, given in layer.items():
            if dotted not in keys:
                line = f"{dotted} ({given.layer}): {_why_unknown(dotted, given, keys)}"
                faults.append(Fault((), line, _keeps_out(dotted)))
                continue
            try:
                candidates[dotted].append(Candidate(keys[dotted].read(given.value), given.layer))
            except ValueError as error:
                shown = HIDDEN if keys[dotted].secret else _quoted(given.value)
                line = f"{dotted} = {shown} ({given.layer}): {error}"
                faults.append(Fault((dotted,), line, _keeps_out(dotted)))
    return candidates, faults


def _keeps_out(dotted: str) -> bool:
    return dotted.startswith(("auth.", "server.tls_"))


def _settings(candidates: Candidates) -> Settings:
    tree: dict[str, Any] = {}
    for dotted, (strongest, *_) in candidates.items():
        section, _, name = dotted.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = strongest.value
    return msgspec.convert(tree, Settings)


def _at_odds(candidates: Candidates, keys: Mapping[str, Key]) -> list[Fault]:
    return [
        Fault(
            conflict.keys,
            f"{' with '.join(_said(dotted, candidates, keys) for dotted in conflict.keys)}: {conflict.rule}",
            all(map(_keeps_out, conflict.keys)),
        )
        for conflict in conflicts(_settings(candidates))
    ]


def _said(dotted: str, candidates: Candidates, keys: Mapping[str, Key]) -> str:
    strongest = candidates[dotted][0]
    return f"{dotted} = {keys[dotted].show(strongest.value)} ({strongest.layer})"


def _warning(fault: Fault, candidates: Candidates, keys: Mapping[str, Key]) -> str:
    if not fault.keys:
        return f"{fault.line}; it is ignored"
    in_use = " and ".join(_said(dotted, candidates, keys) for dotted in fault.keys)
    return f"{fault.line}; in use: {in_use}"


def _why_unknown(dotted: str, given: Given, keys: Mapping[str, Key]) -> str:
    inside = [key.name for section in sections() if section.name == dotted for key in section.keys]
    if inside:
        return f"this is a section and takes no value; its settings are {', '.join(inside)}"
    spellings = [spelling for key in keys.values() for spelling in (key.dotted, key.environment)]
    namesakes = [key.dotted for key in keys.values() if key.name == dotted.rpartition(".")[2]]
    guesses = difflib.get_close_matches(given.spelling, spellings, n=1, cutoff=LIKENESS) or namesakes
    if guesses:
        return f"there is no such setting; did you mean {guesses[0]}?"
    return "there is no such setting; `samovar config show` lists all there are"


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
