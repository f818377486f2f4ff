"""A file for each section of settings: its keys, their types and bounds, and one sentence each."""
