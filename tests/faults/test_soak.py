"""A short soak; `python -m benchmarks.soak` makes it as long as one likes."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_random_use_with_faults_leaves_no_trace(tmp_path, tiny_folder):
    """Memory, threads and series are flat, the ledger is exact, words are the same, nobody is stuck."""
    report = tmp_path / "soak.json"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.soak", "--model", str(tiny_folder("llama")), "--faults"),
            *("--requests-per-fault", "50"),
            *("--requests", "5000", "--seconds", "200", "--looks", "10", "--json", str(report)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    result = json.loads(report.read_text())["result"]

    assert result["broken"] == [], ended.stdout
    assert ended.returncode == 0, ended.stderr
    assert result["requests"] >= 300
    assert result["outcomes"]["500"] >= 1
    assert result["outcomes"]["left"] >= 1
    assert result["looks"][-1]["rebuilds"] >= 1
    assert result["looks"][0]["reply"]
