"""The snapshot store: tokens, bytes, sessions and time. It knows nothing of MLX, HTTP or metrics."""
