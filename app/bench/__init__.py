"""Measures a server that speaks OpenAI's protocol, from outside. Knows no inside of one, and no settings."""
