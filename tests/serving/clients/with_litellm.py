"""A conversation with a tool in LiteLLM, streamed: `with_litellm.py URL MODEL QUESTION`, told as JSON."""

import json
import sys
from typing import Any

import litellm
from weather import sky

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "What the sky is like over a town.",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}

url, model, question = sys.argv[1:]
messages: list[Any] = [{"role": "user", "content": question}]
cached, called = [], []


def reply(**more: Any) -> Any:
    """The next reply, put together of its chunks; it is part of the conversation then."""
    chunks = litellm.completion(
        model=f"openai/{model}",
        api_base=f"{url}/v1",
        api_key="unused",
        messages=messages,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        **more,
    )
    whole = litellm.stream_chunk_builder(list(chunks), messages=messages)
    cached.append(whole.usage.prompt_tokens_details.cached_tokens)
    messages.append(whole.choices[0].message)
    return whole.choices[0].message


answer = reply(tools=[TOOL])
while answer.tool_calls:
    for call in answer.tool_calls:
        arguments = json.loads(call.function.arguments)
        called.append(arguments["town"])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": sky(**arguments)})
    answer = reply(tools=[TOOL])
messages.append({"role": "user", "content": "Thank you."})
reply(tools=[TOOL], max_tokens=4)
print(json.dumps({"called": called, "answer": answer.content, "cached": cached}))
