"""Grafana and Prometheus files of Samovar: the sources in `source/`, what they write beside it."""
