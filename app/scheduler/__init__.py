"""Decides what runs when: admission, continuous batching, lookups and captures. Pure Python."""
