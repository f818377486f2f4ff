"""From a conversation that is larger than the store to whoever is told, through every program on the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import yaml

from grafana.source.write import ROOT
from tests.support.process import samovar
from tests.support.prometheus import alertmanager, prometheus, told
from tests.support.webhook import webhook

RULES = ROOT / "ops" / "prometheus" / "samovar.rules.yml"


def with_receiver(url: str) -> dict[str, Any]:
    """The example for the Alertmanager, with another receiver's address and no time to wait in."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "ops/alertmanager/alertmanager.yml").read_text())
    for receiver in config["receivers"]:
        for hook in receiver["webhook_configs"]:
            hook["url"] = f"{url}/{receiver['name']}"
    config["route"]["group_wait"] = "0s"
    return config


def each_second(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules as they are, evaluated each second, so that nobody waits for the minute to pass."""
    return {"groups": [{**group, "interval": "1s"} for group in rules["groups"]]}


def test_who_is_to_be_told_is_told(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    """An oversized snapshot becomes a ticket that names the server, the capacity and the one to set."""
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(each_second(yaml.safe_load(RULES.read_text()))))
    with (
        webhook() as hook,
        alertmanager(with_receiver(hook.url), tmp_path) as manager,
        samovar(
            *("--model", str(tiny_folder("llama")), "--snapshot-capacity-bytes", "1kB"), folder=tmp_path
        ) as server,
    ):
        target = server.url.removeprefix("http://")
        config = {
            "global": {"scrape_interval": "500ms"},
            "rule_files": ["rules.yml"],
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [manager.url.removeprefix("http://")]}]}]
            },
            "scrape_configs": [{"job_name": "samovar", "static_configs": [{"targets": [target]}]}],
        }
        # The Alertmanager is found only after the first alerts are sent; these are sent again at once.
        with prometheus(config, tmp_path, "--rules.alert.resend-delay=1s") as watcher:
            watcher.wait_for("samovar_snapshot_rejections_total")
            question = {"role": "user", "content": "What weighs more than all the memory there is?"}
            httpx.post(
                f"{server.url}/v1/chat/completions",
                json={"messages": [question], "max_tokens": 2},
                timeout=60,
            ).raise_for_status()
            message = hook.next()

        (alert,) = message.body["alerts"]
        assert message.path == "/ticket"
        assert alert["status"] == "firing"
        assert alert["labels"] == {
            "alertname": "SamovarCacheRejectsOversized",
            "severity": "warning",
            "job": "samovar",
            "instance": target,
        }
        told_of = alert["annotations"]
        assert told_of["runbook_url"] == "docs/runbooks/snapshots.md#samovarcacherejectsoversized"
        assert f"{target} refused" in told_of["description"]
        assert "may hold 1000B; recommended: " in told_of["description"]
        assert "(unknown)" not in told_of["description"]
        assert "SamovarCacheRejectsOversized" in told(
            "amtool", f"--alertmanager.url={manager.url}", "alert", "query"
        )
