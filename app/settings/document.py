"""Writes the tables of docs/settings.md from the schema: `python -m app.settings.document PAGE`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.settings.keys import Key, sections
from app.settings.layers import built_in
from app.settings.schema import Settings

BEGIN = "<!-- tables: written by `python -m app.settings.document docs/settings.md` -->"
END = "<!-- end of tables -->"


def tables() -> str:
    """Every setting in Markdown, a table a section."""
    return "\n".join(_lines(built_in()))


def with_tables(page: str) -> str:
    """`page` with the part between its two marks written anew.

    Raises:
        ValueError: the marks are not there, once each and in this order.
    """
    before, _, rest = page.partition(BEGIN)
    between, _, after = rest.partition(END)
    if not between or BEGIN in rest or END in before + after:
        raise ValueError(f"the page needs one {BEGIN} and then one {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def main(argv: Sequence[str]) -> None:
    """Rewrite the page at the path that is the only argument."""
    [path] = map(Path, argv)
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


def _lines(defaults: Settings) -> Iterator[str]:
    for section in sections():
        yield f"### `[{section.name}]`" if section.name else "### At the top of the file"
        yield ""
        yield section.description
        yield ""
        yield "| setting | flag | environment | default | allowed | what it does |"
        yield "|---|---|---|---|---|---|"
        for key in section.keys:
            yield _row(key, key.show(key.value_in(defaults)))
        yield ""


def _row(key: Key, default: str) -> str:
    flag = f"`{key.flag}`" if key.flag else "none"
    if key.is_switch:
        flag += f", `{key.off_flag}`"
    cells = (f"`{key.dotted}`", flag, f"`{key.environment}`", f"`{default}`", key.allowed, key.description)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
