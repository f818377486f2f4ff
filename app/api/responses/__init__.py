"""OpenAI's Responses API, without a store of responses."""
