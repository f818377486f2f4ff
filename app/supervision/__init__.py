"""What supervisors of the process need of it: the journal of starts, systemd's messages, launchd's files."""
