"""HTTP: routes, OpenAI's shapes, streams, probes and errors. Knows no MLX and no settings."""
