"""Where dashboards, rules and alerts are written: one table of each, and what makes files of them."""
