"""Links lead where they say: to traces that there are, and to dashboards of ours."""

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.ops.dashboards.asking import NAMES, ROOT, dashboard, panels

LINKS = [
    pytest.param(link["url"], id=link["title"])
    for name in NAMES
    for panel in panels(dashboard(name))
    for link in panel["links"]
    if not link["url"].startswith("${runbooks}/")
]
DOCUMENTED = (ROOT / "docs" / "metrics.md").read_text().split("## Spans")[1]


def queries(url: str) -> list[dict[str, Any]]:
    """What an address of Explore asks."""
    panes = json.loads(parse_qs(urlsplit(url).query)["panes"][0])
    return [query for pane in panes.values() for query in pane["queries"]]


@pytest.mark.parametrize("url", LINKS)
def test_a_link_leads_to_a_dashboard_of_ours_or_to_traces(url: str):
    """Spans and attributes in a trace query are documented, and so tested, names."""
    address = urlsplit(url)
    if address.path.startswith("/d/"):
        assert address.path.removeprefix("/d/samovar-") in NAMES
        return
    assert address.path == "/explore"
    for query in queries(url):
        assert query["datasource"] == {"type": "tempo", "uid": "${traces}"}
        for span in re.findall(r'name = "([\w.]+)"', query["query"]):
            assert f"| `{span}` |" in DOCUMENTED
        for attribute in re.findall(r"span\.([\w.]+)", query["query"]):
            assert f"| `{attribute}` |" in DOCUMENTED
    assert set(re.findall(r"\$\{(\w+)\}", url)) == {"traces", "__from", "__to"}
