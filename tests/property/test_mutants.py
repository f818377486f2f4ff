"""The store's machine is worth its time: it finds each of these mistakes, and none where there is none."""

import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

import app.snapshots
from tests.property.mutants import MUTANTS, Changes, Mutant
from tests.property.store_machine import StoreMachine, TenantMachine

SOURCE = Path(app.snapshots.__file__).parent
COPY = "mutated_snapshots"
SEEDS = range(4)
"""Which lives a seed makes depends on the modules loaded beside it, so no single seed may decide."""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for a copy of the store under another name, which is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / COPY
    for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
        del sys.modules[name]


def machine_of(room: Path, changes: Changes, base: type[StoreMachine] = StoreMachine) -> type[StoreMachine]:
    """The machine over a copy of the store with `changes` in it."""
    room.mkdir()
    for path in SOURCE.glob("*.py"):
        text = path.read_text()
        for module, old, new in changes:
            if module == path.stem:
                assert text.count(old) == 1, f"{module}.py has no longer exactly one {old!r}"
                text = text.replace(old, new)
        (room / path.name).write_text(text.replace("app.snapshots", COPY))
    attributes = {
        "store_type": importlib.import_module(f"{COPY}.store").SnapshotStore,
        "limits_type": importlib.import_module(f"{COPY}.limits").Limits,
    }
    return type("MutantMachine", (base,), attributes)


def live(machine: type[StoreMachine], seeds: Iterable[int], lives: int) -> None:
    """Run `machine` through the lives of each seed; no time is spent on shrinking a failure."""
    for number in seeds:
        run_state_machine_as_test(
            seed(number)(machine),
            settings=settings(max_examples=lives, database=None, deadline=None, phases=[Phase.generate]),
        )


def test_copy_without_a_mistake_lives(room: Path) -> None:
    """What kills the mutants is their mistake, and not that they are copies."""
    live(machine_of(room, ()), seeds=[0], lives=20)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.law)
def test_mutant_dies(room: Path, mutant: Mutant) -> None:
    """A store that breaks the law is told from the oracle."""
    machine = machine_of(room, mutant.changes, TenantMachine if mutant.tenants else StoreMachine)
    machine.choices = mutant.limits

    with pytest.raises((AssertionError, KeyError, ValueError)):
        live(machine, SEEDS, lives=500)
