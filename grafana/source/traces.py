"""Links from a panel to traces: Grafana's Explore with a TraceQL query. It knows no panel.

They need a Tempo data source. The dashboard's `traces` variable says which; `frame.py` makes it.
"""

import json
from urllib.parse import quote

DATASOURCE = "${traces}"
RANGE = ("${__from}", "${__to}")


def explore(traceql: str) -> str:
    """The address of Explore with a query over the time that the panel shows."""
    query = {
        "refId": "A",
        "datasource": {"type": "tempo", "uid": DATASOURCE},
        "queryType": "traceql",
        "query": traceql,
        "limit": 20,
        "tableType": "spans",
    }
    pane = {
        "samovar": {
            "datasource": DATASOURCE,
            "queries": [query],
            "range": dict(zip(("from", "to"), RANGE, strict=True)),
        }
    }
    panes = quote(json.dumps(pane), safe="")
    # Grafana puts the variables in before the browser sees the address, so their marks stay as they are.
    for variable in (DATASOURCE, *RANGE):
        panes = panes.replace(quote(variable, safe=""), variable)
    return f"/explore?schemaVersion=1&panes={panes}"


def spans(name: str, *conditions: str) -> str:
    """TraceQL for spans of one name: each condition is on an attribute of the span."""
    return "{ " + " && ".join((f'name = "{name}"', *conditions)) + " }"
