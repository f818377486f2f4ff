"""The rooms stay rooms: sizes, import direction, what a module must not bring along."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "app").rglob("*.py"))
MOST_LINES = 320
"""About 300 is the aim; a file over this has more than one idea."""


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_one_idea_and_says_it_first(source):
    """No file outgrows its idea, each begins with a sentence, and nothing is left for later."""
    text = source.read_text()

    assert len(text.splitlines()) <= MOST_LINES
    assert not text.strip() or text.lstrip().startswith('"""')
    assert not any(word in text for word in ("TODO", "FIXME", "XXX"))


def test_imports_point_one_way():
    """The contracts of pyproject.toml hold, transitive leaks included."""
    linter = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("app.snapshots.store", ("mlx", "litestar", "prometheus_client", "opentelemetry", "dynaconf")),
        ("app.scheduler.worker", ("mlx", "litestar", "prometheus_client", "opentelemetry", "dynaconf")),
        ("app.api.application", ("mlx", "mlx_lm", "transformers", "dynaconf", "prometheus_client")),
        ("app.telemetry.counting", ("mlx", "litestar", "dynaconf")),
        ("app.bootstrap", ("mlx", "mlx_lm", "transformers")),
    ],
)
def test_importing_a_room_brings_none_of_the_others_tools(module, unwanted):
    """The core is pure Python, and MLX comes only with the engine."""
    program = f"import sys, {module}; print(*(n for n in {unwanted!r} if n in sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert ran.stdout.split() == []


def test_the_repository_names_no_package_host_and_no_lock_with_addresses():
    """Pins are names, versions and hashes."""
    pins = sorted((ROOT / "constraints").glob("*.txt"))

    assert len(pins) == 11
    for file in pins:
        text = file.read_text()
        assert "://" not in text, file.name
        assert "--hash=sha256:" in text, file.name
