"""The table of families in docs/families.md, out of what was measured. It runs no law and judges nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.families.laws import FIRST, SECOND, Family, replies

DOCUMENT = Path(__file__).parents[2] / "docs" / "families.md"
HEADER = (
    "| Family | State | Snapshots | Cut back | Prefill | Decode | Second turn, cached of prompt tokens |\n"
    "|---|---|---|---|---|---|---|\n"
)
END = "\n\n<!-- end of the table -->"


@dataclass(frozen=True)
class FamilyRow:
    """One line of the table."""

    family: str
    cells: tuple[str, ...]

    def render(self) -> str:
        """As a line of Markdown."""
        return f"| `{self.family}` | {' | '.join(self.cells)} |"


def measure(family: Family) -> FamilyRow:
    """What the self-check found, and what a second turn really got out of the store."""
    found = family.found
    room = family.room()
    second = family.ask([FIRST, SECOND])
    replies(room, family.ask([FIRST]))
    replies(room, second)
    cut_back = "no"
    if found.truncation:
        cut_back = "to any token" if family.truncatable else "until a window is full"
    return FamilyRow(
        family.name,
        (
            ", ".join(family.loaded.cache_kinds),
            "yes" if found.reuse else "no",
            cut_back,
            "together" if found.batched_prefill else "one at a time",
            "together" if found.batched_decode else "one at a time",
            f"{room.started(second).cached_tokens} of {len(second.tokens)}",
        ),
    )


def render(rows: Iterable[FamilyRow]) -> str:
    """The whole table, sorted by family."""
    return HEADER + "\n".join(row.render() for row in sorted(rows, key=lambda row: row.family))


def documented() -> str:
    """The table as it stands in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    begin = text.index(HEADER)
    return text[begin : text.index(END)]


def write(table: str) -> None:
    """Put a table in the place of the one in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(text.replace(documented(), table), encoding="utf-8")
