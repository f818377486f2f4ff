"""OpenAI's protocol: what clients send and what they get."""
