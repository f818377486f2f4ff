"""Draws dashboards to pictures with Grafana's own components, without a Grafana server."""
