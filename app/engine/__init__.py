"""Everything that touches MLX: loading, batching, sealing and restoring model state, and its text."""
