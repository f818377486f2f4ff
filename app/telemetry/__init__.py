"""What listens to events: metrics, spans and log lines."""
