"""`python -m tests.families.document` measures every family and writes the table of docs/families.md."""

import tempfile
from pathlib import Path

from tests.families.laws import load_family
from tests.families.table import measure, render, write
from tests.support.families import FAMILIES


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(render(measure(load_family(family, Path(folder))) for family in FAMILIES))


if __name__ == "__main__":
    main()
