"""The store's machine is worth its time: it finds every one of these mistakes, and none where there is none."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import app.snapshots
from tests.property.mutants import MUTANTS, Mutant
from tests.property.store_machine import StoreMachine

SOURCE = Path(app.snapshots.__file__).parent
COPY = "mutated_snapshots"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for a copy of the store under another name, which is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / COPY
    for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
        del sys.modules[name]


def live(room: Path, mutant: Mutant | None) -> None:
    """Run the machine over a copy of the store with `mutant` in it; always the same lives."""
    room.mkdir()
    for path in SOURCE.glob("*.py"):
        text = path.read_text()
        for module, old, new in mutant.changes if mutant else ():
            if module == path.stem:
                assert text.count(old) == 1, f"{module}.py has no longer exactly one {old!r}"
                text = text.replace(old, new)
        (room / path.name).write_text(text.replace("app.snapshots", COPY))
    machine = type(
        "MutantMachine",
        (StoreMachine,),
        {
            "store_type": importlib.import_module(f"{COPY}.store").SnapshotStore,
            "limits_type": importlib.import_module(f"{COPY}.limits").Limits,
        },
    )
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=1_000, derandomize=True, database=None, deadline=None, phases=[Phase.generate]
        ),
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.law_broken)
def test_mutant_dies(room: Path, mutant: Mutant) -> None:
    """A store that breaks the law is told apart from the oracle."""
    with pytest.raises(Exception) as death:  # noqa: PT011, B017 - however it shows, it must show
        live(room, mutant)

    assert COPY in "".join(str(path) for path in sys.path) or death.value is not None
