"""The settings one by one, read off the schema: a key's names, what it takes, how it is read and shown.

Flags, environment names, help texts, error messages and the documentation's tables all come from here.
Knows no layer, and no value but the one it is asked about.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect
from msgspec.structs import FieldInfo, fields

from app.settings.schema import Settings
from app.settings.units import Unit, format_bytes, format_seconds, parse_bytes, parse_seconds

ENVIRONMENT_PREFIX = "SAMOVAR_"

_OBJECT_FORM = "JSON"
"""The placeholder of a setting that is an object, written as text: in a file a table would be a section."""

HIDDEN = "(hidden)"
"""What is shown of a secret."""

# What is asked for most often needs no section; the others name theirs in the singular.
_FLAG_PREFIX = {
    "": "",
    "server": "",
    "auth": "auth-",
    "model": "",
    "scheduler": "scheduler-",
    "memory": "memory-",
    "snapshots": "snapshot-",
    "telemetry": "telemetry-",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the file; the keys at its top are the section without a name."""

    name: str
    description: str
    keys: tuple["Key", ...]


@dataclass(frozen=True, slots=True)
class Key:
    """One setting.

    `allowed` reads well after "must be"; `form` is a placeholder for the value, empty for a switch;
    `hint` is what else to say to somebody whose value was refused. The value of a `secret` is never shown.
    """

    section: str
    name: str
    attribute: str
    annotation: Any
    unit: Unit | None
    words: tuple[str, ...]
    form: str
    allowed: str
    description: str
    hint: str
    secret: bool = False
    check: Callable[[Any], object] | None = None
    """Raises ValueError for a value of the right type that is no use."""

    @property
    def dotted(self) -> str:
        """The name in messages and in provenance, such as `snapshots.ttl`."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def flag(self) -> str:
        """The name on the command line, such as `--snapshot-ttl`.

        Empty for a secret: everybody on a machine can read the command lines of its processes.
        """
        if self.secret:
            return ""
        if self.dotted == "model.path":
            return "--model"
        return "--" + _FLAG_PREFIX[self.section] + self.name.replace("_", "-")

    @property
    def off_flag(self) -> str:
        """The flag that turns a switch off."""
        return self.flag.replace("--", "--no-", 1)

    @property
    def environment(self) -> str:
        """The name in the environment, such as `SAMOVAR_SNAPSHOTS__TTL`."""
        return ENVIRONMENT_PREFIX + self.dotted.replace(".", "__").upper()

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false."""
        return not self.form

    def read(self, written: object) -> object:
        """The value of what a file, the environment or a flag says.

        Raises:
            ValueError: it is not allowed; the message says what is.
        """
        try:
            value = written
            if self.unit is not None and written not in self.words:
                value = parse_bytes(written) if self.unit is Unit.BYTES else parse_seconds(written)
            if self.form == _OBJECT_FORM and isinstance(written, str):
                value = msgspec.json.decode(written)
            # Lax, because text is all that the environment and flags can give: "8080", "true".
            value = msgspec.convert(value, self.annotation, strict=False)
            if self.check is not None:
                self.check(value)
        except (ValueError, msgspec.DecodeError):
            hint = f"; {self.hint}" if self.hint else ""
            raise ValueError(f"must be {self.allowed}{hint}") from None
        return value

    def value_in(self, settings: Settings) -> object:
        """What `settings` says of it."""
        holder = getattr(settings, self.section) if self.section else settings
        value: object = getattr(holder, self.attribute)
        return value

    def show(self, value: object) -> str:
        """A value as it could be written; of a secret, only whether there is one."""
        if self.secret and value:
            return HIDDEN
        if self.unit is Unit.BYTES and isinstance(value, int):
            return format_bytes(value)
        if self.unit is Unit.SECONDS and isinstance(value, float):
            return format_seconds(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, dict):
            return msgspec.json.encode(value).decode()
        return str(value) or '""'


def sections() -> tuple[Section, ...]:
    """The whole schema, in its order; the keys that stand alone come first."""
    alone: list[Key] = []
    tables: list[Section] = []
    for field, annotation in _fields(Settings):
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            keys = tuple(_key(field.encode_name, *inner) for inner in _fields(annotation))
            tables.append(Section(field.encode_name, annotation.__doc__ or "", keys))
        else:
            alone.append(_key("", field, annotation))
    return (Section("", "How the settings themselves are read.", tuple(alone)), *tables)


def all_keys() -> tuple[Key, ...]:
    """Every setting there is."""
    return tuple(key for section in sections() for key in section.keys)


def _fields(struct: type[msgspec.Struct]) -> list[tuple[FieldInfo, Any]]:
    hints = get_type_hints(struct, include_extras=True)
    return [(field, hints[field.name]) for field in fields(struct)]


def _key(section: str, field: FieldInfo, annotation: Any) -> Key:
    kinds, extra = _kinds(annotation)
    literals = [kind for kind in kinds if isinstance(kind, inspect.LiteralType)]
    words = tuple(str(word) for literal in literals for word in literal.values)
    quantities = [kind for kind in kinds if kind not in literals]
    unit = extra.get("unit")
    form, quantity = _describe(quantities[0], unit) if quantities else ("|".join(words), "")
    return Key(
        section=section,
        name=field.encode_name,
        attribute=field.name,
        annotation=annotation,
        unit=unit,
        words=words,
        form=form,
        allowed=extra.get("allowed") or _joined([*words, *([quantity] if quantity else [])]),
        description=extra["description"],
        hint=extra.get("hint", ""),
        check=extra.get("check"),
        secret=extra.get("secret", False),
    )


def _kinds(annotation: Any) -> tuple[list[inspect.Type], dict[str, Any]]:
    """The alternatives of a type without their wrapping, and all that the schema says beside them."""
    extra: dict[str, Any] = {}
    pending, kinds = [inspect.type_info(annotation)], []
    while pending:
        kind = pending.pop(0)
        if isinstance(kind, inspect.Metadata):
            extra |= (kind.extra or {}) | (kind.extra_json_schema or {})
            pending.append(kind.type)
        elif isinstance(kind, inspect.UnionType):
            pending.extend(kind.types)
        else:
            kinds.append(kind)
    return kinds, extra


def _describe(kind: inspect.Type, unit: Unit | None) -> tuple[str, str]:
    """A placeholder for a value, and what is allowed in words."""
    match kind:
        case inspect.BoolType():
            words = "", "true or false"
        case inspect.IntType(ge=int(low), le=int(high)) if unit is Unit.BYTES:
            span = f"from {format_bytes(low)} to {format_bytes(high)}"
            words = "SIZE", f"a size {span}, such as 500MB or 8GiB"
        case inspect.FloatType(gt=low, le=float(high)) if unit is Unit.SECONDS:
            span = f"{'of' if low is None else 'of more than 0 and'} at most {format_seconds(high)}"
            words = "DURATION", f"a duration {span}, such as 90s or 1h30m"
        case inspect.IntType(ge=low, le=None):
            words = "N", f"a whole number not below {low}"
        case inspect.IntType(ge=low, le=high):
            words = "N", f"a whole number from {low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            words = "NUMBER", f"a number from {low} to {high}"
        case inspect.StrType(min_length=shortest):
            words = "TEXT", "text that is not empty" if shortest else "text"
        case inspect.DictType():
            words = _OBJECT_FORM, 'a JSON object as text, such as {"enable_thinking": false}'
        case _:
            raise TypeError(f"no words for settings of type {kind}")
    return words


def _joined(alternatives: list[str]) -> str:
    *most, last = alternatives
    return f"{', '.join(most)} or {last}" if most else last
