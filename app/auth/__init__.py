"""API keys: who calls, as which tenant, what they may do and how much. Knows no HTTP, files or settings."""
