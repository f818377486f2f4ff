"""Every alert, in the order of docs/alerts.md."""

from grafana.source.request_alerts import REQUEST_ALERTS
from grafana.source.server_alerts import SERVER_ALERTS
from grafana.source.snapshot_alerts import SNAPSHOT_ALERTS

ALERTS = (*SERVER_ALERTS, *REQUEST_ALERTS, *SNAPSHOT_ALERTS)
