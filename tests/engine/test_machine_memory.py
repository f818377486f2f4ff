"""What the machine gives, and what a control group leaves of it."""

import os

import pytest

from app.engine.machine_memory import machine_memory_bytes

BUILT_IN = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
LIMIT = 512 * 2**20


def ask(root, membership, files):
    """The answer on a machine with that membership and those limit files."""
    said = root / "cgroup"
    said.write_text(membership)
    for name, content in files.items():
        file = root / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
    return machine_memory_bytes(membership=said, hierarchies=root / "fs")


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/\n", {"memory.max": LIMIT}),
        ("0::/kubepods/pod1/app\n", {"kubepods/pod1/app/memory.max": LIMIT}),
        (
            "0::/kubepods/pod1/app\n",
            {"kubepods/pod1/app/memory.max": "max", "kubepods/memory.max": LIMIT},
        ),
        ("4:memory:/docker/abc\n1:cpu:/x\n", {"memory/docker/abc/memory.limit_in_bytes": LIMIT}),
        ("4:cpu,memory:/docker/abc\n", {"memory/memory.limit_in_bytes": LIMIT}),
        (
            "4:memory:/a\n0::/\n",
            {"memory/a/memory.limit_in_bytes": LIMIT, "memory.max": 2 * LIMIT},
        ),
    ],
    ids=["v2", "v2-nested", "v2-above", "v1", "v1-container", "both"],
)
def test_the_least_limit_of_all_groups_around_the_process_holds(tmp_path, membership, files):
    """Of either version, of the process's own group or of one above it."""
    assert ask(tmp_path, membership, files) == LIMIT


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("", {}),
        ("0::/\n", {"memory.max": "max"}),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": 9223372036854771712}),
        ("0::/\n", {"memory.max": "nonsense"}),
        ("1:cpu:/a\n", {"memory/a/memory.limit_in_bytes": LIMIT}),
    ],
    ids=["none", "max", "v1-none", "nonsense", "not-ours"],
)
def test_without_a_limit_it_is_the_machines_memory(tmp_path, membership, files):
    """A limit beyond the machine, or none, or one that cannot be read, takes nothing away."""
    assert ask(tmp_path, membership, files) == BUILT_IN


def test_a_machine_without_control_groups_has_what_is_built_in(tmp_path):
    """As on macOS."""
    missing = tmp_path / "nowhere"
    assert machine_memory_bytes(membership=missing, hierarchies=missing) == BUILT_IN
