"""Laws of every API's writer: what a client puts together from a stream is what it would have got whole."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app.api.anthropic.message import MessageWriter
from app.api.ports import ChatPrompt, ToolUse
from app.api.reply import Reply
from app.api.responses.schema import ResponsesRequest
from app.api.responses.writer import ResponseWriter
from app.api.writer import Facts, Writer
from app.scheduler.job import Delta, Generated, Started
from app.vocabulary import FinishReason
from tests.support.scripted_engine import (
    ANSWER,
    CALL,
    END_OF_TURN,
    THINK,
    CharacterModel,
    CharacterText,
)

MODEL = CharacterModel()
TOOLS = ToolUse(tools=({"type": "function", "function": {"name": "now"}},))
PARTS = st.one_of(
    st.text("ab \n", min_size=1, max_size=6).map(lambda text: THINK + text + ANSWER),
    st.text("ab \n", min_size=1, max_size=6).map(lambda text: ANSWER + text),
    st.sampled_from([f"{CALL}now", f'{CALL}now {{"town": "Bern"}}', f"{CALL}1 is no call"]),
)
FINISHES = st.sampled_from([FinishReason.STOP, FinishReason.LENGTH])


def facts() -> Facts:
    chat = ChatPrompt(messages=({"role": "user", "content": "Hello"},), template_kwargs={})
    prompt = MODEL.prepare(chat, session="s", tenant="")
    return Facts(id="1", created=17, model="scripted", prompt=prompt, token_text=MODEL.token_text)


def deltas(said: str, finish: FinishReason) -> list[Delta]:
    text = said + (END_OF_TURN if finish is FinishReason.STOP else "")
    last = len(text) - 1
    return [
        Started(4, None),
        *(Generated(ord(each), None, finish if at == last else None) for at, each in enumerate(text)),
    ]


def new_reply() -> Reply:
    return Reply(CharacterText(("b a",), tools=TOOLS), id="1")


def events(writer: Writer, said: Sequence[Delta], sizes: Sequence[int]) -> list[Any]:
    """The events of a stream whose tokens come in groups of these sizes."""
    reply = new_reply()
    reply.read(said[:1])
    left = list(said[1:])
    written = writer.opening([reply])
    for size in [*sizes, len(left)]:
        parts = reply.read(left[:size])
        left = left[size:]
        written += writer.parts(0, parts, reply)
        if reply.ended:
            break
    written += writer.ended(0, reply) + writer.closing([reply])
    return [
        json.loads(frame.split("\n")[1].removeprefix("data: "))
        for frame in written.decode().strip().split("\n\n")
    ]


def whole(writer: Writer, said: Sequence[Delta]) -> Any:
    reply = new_reply()
    reply.read(said)
    return json.loads(msgspec.json.encode(writer.whole([reply])))


SPOKEN = st.lists(PARTS, min_size=1, max_size=5).map("".join)
SIZES = st.lists(st.integers(1, 5), max_size=30)


@given(said=SPOKEN, finish=FINISHES, sizes=SIZES)
def test_anthropics_events_add_up_to_the_message(said: str, finish: FinishReason, sizes: list[int]) -> None:
    """Blocks, reasons and usage, however the tokens come; each block is closed before the next is opened."""
    told = deltas(said, finish)
    message: dict[str, Any] = {}
    opened: int | None = None
    for event in events(MessageWriter(facts()), told, sizes):
        match event:
            case {"type": "message_start", "message": begun}:
                message = begun
            case {"type": "content_block_start", "index": index, "content_block": block}:
                assert opened is None
                opened = index
                assert index == len(message["content"])
                message["content"].append(block)
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                assert index == opened
                block = message["content"][index]
                kind = delta.pop("type")
                ((field, value),) = delta.items()
                if kind == "input_json_delta":
                    block["input"] = json.loads(value)
                else:
                    block[field] += value
            case {"type": "content_block_stop", "index": index}:
                assert index == opened
                opened = None
            case {"type": "message_delta", "delta": delta, "usage": usage}:
                assert opened is None
                message |= delta | {"usage": usage}

    assert message == whole(MessageWriter(facts()), told)


@given(said=SPOKEN, finish=FINISHES, sizes=SIZES)
def test_the_events_of_a_response_add_up_to_it(said: str, finish: FinishReason, sizes: list[int]) -> None:
    """The last event has it whole, and so have the events of its items, in their order."""
    told = deltas(said, finish)
    seen = events(ResponseWriter(facts(), request=ResponsesRequest(input="Hello")), told, sizes)
    response = whole(ResponseWriter(facts(), request=ResponsesRequest(input="Hello")), told)

    assert seen[-1]["response"] == response
    assert [event["item"] for event in seen if event["type"] == "response.output_item.done"] == response[
        "output"
    ]
    for index, item in enumerate(response["output"]):
        pieces = [
            event["delta"]
            for event in seen
            if event.get("output_index") == index and event["type"].endswith(".delta")
        ]
        text = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert "".join(pieces) == text
