"""Runs helm on the chart: lint, template, notes. Finds it where `make tools` puts it, and nowhere else."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "samovar"
RELEASE, NAMESPACE = "rel", "chat"

OLDEST, NEWEST = "1.30", "1.37"
"""The Kubernetes versions that the chart is for: the oldest as in Chart.yaml, and the newest there is."""

CI_VALUES = sorted(path.name for path in (CHART / "ci").glob("*-values.yaml"))

Object = dict[str, Any]


class HelmError(Exception):
    """Helm refused; the message is what it said."""


def helm(*arguments: str | Path) -> str:
    """What helm prints.

    Raises:
        HelmError: it refuses.
        FileNotFoundError: there is no helm.
    """
    program = Path(sys.executable).parent / "helm"
    if not program.is_file():
        raise FileNotFoundError(f"{program} is missing; run `make tools`")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


def render(*values: str | Path, chart: Path = CHART, kubernetes: str = NEWEST) -> str:
    """The manifests that the chart makes of files of values; a bare name is one of `ci/`."""
    return helm(
        *("template", RELEASE, chart, "--namespace", NAMESPACE),
        *("--kube-version", f"{kubernetes}.0"),
        *_value_flags(values, chart),
    )


def lint(*values: str | Path, chart: Path = CHART) -> str:
    """What the strict linter says."""
    return helm("lint", "--strict", chart, *_value_flags(values, chart))


def notes(*values: str | Path) -> str:
    """What a user reads after an install."""
    printed = helm(
        *("install", RELEASE, CHART, "--namespace", NAMESPACE, "--dry-run=client"),
        *_value_flags(values, CHART),
    )
    return printed.partition("\nNOTES:\n")[2]


@cache
def rendered(values: str, kubernetes: str = NEWEST) -> str:
    """As `render`, for one file of `ci/`, once for all tests."""
    return render(values, kubernetes=kubernetes)


def objects(manifests: str) -> list[Object]:
    """The objects of manifests."""
    return [document for document in yaml.safe_load_all(manifests) if document]


def objects_of(values: str) -> list[Object]:
    """The objects that a file of `ci/` makes."""
    return objects(rendered(values))


def only(found: list[Object], kind: str) -> Object:
    """The one object of a kind.

    Raises:
        ValueError: there are none or several.
    """
    (one,) = [item for item in found if item["kind"] == kind]
    return one


def _value_flags(values: tuple[str | Path, ...], chart: Path) -> list[str | Path]:
    paths = [chart / "ci" / name if isinstance(name, str) else name for name in values]
    return [flag for path in paths for flag in ("--values", path)]
