"""The packages that draw are the same everywhere, wherever they are fetched from."""

import json
import re

from grafana.render.draw import HERE


def test_every_package_is_locked_by_hash_and_no_host_is_named():
    """Each has an exact version and a hash; where it comes from is up to who installs."""
    text = (HERE / "package-lock.json").read_text()
    packages = {path: facts for path, facts in json.loads(text)["packages"].items() if path}

    assert packages
    assert all(facts["integrity"].startswith("sha512-") for facts in packages.values())
    assert "resolved" not in text


def test_the_packages_asked_for_are_named_by_exact_versions():
    """A new version is a decision."""
    asked = json.loads((HERE / "package.json").read_text())["dependencies"]

    assert asked
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in asked.values())
