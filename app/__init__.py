"""Samovar: a server for language models on MLX that keeps every conversation warm between turns."""

__version__ = "0.1.0"
