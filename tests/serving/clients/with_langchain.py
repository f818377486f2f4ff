"""A conversation with a tool in LangChain, streamed: `with_langchain.py URL MODEL QUESTION`, told as JSON."""

import json
import sys
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from weather import sky


@tool
def weather(town: str, days: int) -> str:
    """What the sky is like over a town."""
    return sky(town, days)


url, model, question = sys.argv[1:]
plain = ChatOpenAI(base_url=f"{url}/v1", api_key="unused", model=model, temperature=0, stream_usage=True)
with_tools = plain.bind_tools([weather])
messages: list[Any] = [HumanMessage(question)]
cached, called = [], []


def reply(asked: Any) -> Any:
    """The next reply, put together of its chunks; it is part of the conversation then."""
    chunks = list(asked.stream(messages))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    cached.append(whole.usage_metadata["input_token_details"]["cache_read"])
    messages.append(whole)
    return whole


answer = reply(with_tools)
while answer.tool_calls:
    for call in answer.tool_calls:
        called.append(call["args"]["town"])
        messages.append(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]))
    answer = reply(with_tools)
messages.append(HumanMessage("Thank you."))
reply(with_tools.bind(max_tokens=4))
print(json.dumps({"called": called, "answer": answer.text, "cached": cached}))
