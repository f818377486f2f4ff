"""Laws of a reply in OpenAI's shapes."""

import json
import re
from typing import Any

import msgspec

from app.api.openai.completion import CompletionWriter
from app.api.ports import ToolUse
from app.api.reply import Reply
from app.scheduler.job import Generated, Started, TokenLogprob
from app.vocabulary import FinishReason
from tests.support.scripted_engine import ANSWER, CALL, END_OF_TURN, THINK, CharacterModel, CharacterText

WRITER = CompletionWriter("chatcmpl-1", 17, "scripted", 10, CharacterModel().token_text)
TOOLS = ToolUse(tools=({"type": "function", "function": {"name": "now"}},))
THOUGHT_AND_CALLED = f'{THINK}hm{ANSWER}One moment.{CALL}now {{"at": "é"}}{CALL}later'


def plain(value: object) -> dict[str, Any]:
    """As a client decodes it."""
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return decoded


def finished(
    said: str = "Hello",
    *,
    finish: FinishReason = FinishReason.LENGTH,
    logprob: TokenLogprob | None = None,
    tools: ToolUse | None = None,
) -> Reply:
    reply = Reply(CharacterText((), tools=tools), id="chatcmpl-1")
    reply.read([Started(4, None), *(Generated(ord(each), None, None) for each in said[:-1])])
    reply.read([Generated(ord(said[-1]), logprob, finish)])
    return reply


def called() -> Reply:
    """A reply that ended its turn with two calls."""
    return finished(THOUGHT_AND_CALLED + END_OF_TURN, finish=FinishReason.STOP, tools=TOOLS)


def test_whole_reply_has_the_shape_clients_expect() -> None:
    """Every field of a completion, with usage that counts cached tokens within the prompt's."""
    assert plain(WRITER.whole(finished())) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 17,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "logprobs": None,
                "finish_reason": "length",
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


def test_reasoning_and_calls_stand_apart_from_content() -> None:
    """Each has a field of its own; arguments are JSON text; the reason says that results are awaited."""
    (choice,) = plain(WRITER.whole(called()))["choices"]

    ids = [call.pop("id") for call in choice["message"]["tool_calls"]]
    assert choice["message"] == {
        "role": "assistant",
        "content": "One moment.",
        "reasoning_content": "hm",
        "tool_calls": [
            {"type": "function", "function": {"name": "now", "arguments": '{"at": "é"}'}},
            {"type": "function", "function": {"name": "later", "arguments": "{}"}},
        ],
    }
    assert choice["finish_reason"] == "tool_calls"
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[a-z0-9]{9}", each) for each in ids), "some templates take no other ids"


def test_content_is_null_where_there_are_only_calls() -> None:
    """As OpenAI has it; a reply without calls and without text has empty content."""
    silent = finished(f"{CALL}now{END_OF_TURN}", finish=FinishReason.STOP, tools=TOOLS)

    assert plain(WRITER.whole(silent))["choices"][0]["message"]["content"] is None
    assert plain(WRITER.whole(finished(END_OF_TURN)))["choices"][0]["message"]["content"] == ""


def test_a_reply_that_was_cut_says_so_whatever_it_called() -> None:
    """The limit is the reason then: what the client got may not be all that the model wanted."""
    reply = finished(f"{CALL}now{ANSWER}And", tools=TOOLS)

    assert [call.name for call in reply.tool_calls] == ["now"]
    assert plain(WRITER.whole(reply))["choices"][0]["finish_reason"] == "length"


def test_chunks_carry_one_part_each() -> None:
    """Each part is one chunk with one delta; a call is whole, with its place among the calls."""
    reply = Reply(CharacterText((), tools=TOOLS), id="chatcmpl-1")
    parts = reply.read([Generated(ord(each), None, None) for each in THOUGHT_AND_CALLED])
    parts = [*parts, *reply.read([Generated(ord(END_OF_TURN), None, FinishReason.STOP)])]
    deltas = [plain(chunk)["choices"][0]["delta"] for chunk in WRITER.parts(parts, reply)]

    whole = plain(WRITER.whole(reply))["choices"][0]["message"]["tool_calls"]
    assert deltas == [
        {"reasoning_content": "hm"},
        {"content": "One moment."},
        {"tool_calls": [{"index": 0, **whole[0]}]},
        {"tool_calls": [{"index": 1, **whole[1]}]},
    ]
    assert plain(WRITER.closing(reply))["choices"][0]["finish_reason"] == "tool_calls"


def test_opening_and_closing_chunks_frame_the_text() -> None:
    """The first chunk gives the role, the last the reason, and neither has text."""
    reply = finished()

    assert plain(WRITER.opening())["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    assert plain(WRITER.closing(reply))["choices"] == [
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    ]


def test_usage_chunk_has_no_choices() -> None:
    """The usage of a stream comes in a chunk without choices, with the numbers of the whole reply."""
    reply = finished()

    chunk = plain(WRITER.usage_chunk(reply))
    assert chunk["choices"] == []
    assert chunk["usage"] == plain(WRITER.whole(reply))["usage"]
    assert "usage" not in plain(WRITER.opening())


def test_logprobs_show_tokens_as_text_and_as_bytes() -> None:
    """A token's entry has its text, its UTF-8 bytes, its log-probability and the alternatives'."""
    reply = finished("é", logprob=TokenLogprob(-0.5, ((ord("a"), -1.0), (ord("b"), -2.0))))

    logprobs = plain(WRITER.whole(reply))["choices"][0]["logprobs"]
    assert logprobs == {
        "content": [
            {
                "token": "é",
                "bytes": [195, 169],
                "logprob": -0.5,
                "top_logprobs": [
                    {"token": "a", "bytes": [97], "logprob": -1.0},
                    {"token": "b", "bytes": [98], "logprob": -2.0},
                ],
            }
        ]
    }


def test_logprobs_of_text_held_back_come_with_the_closing_chunk() -> None:
    """Log-probabilities travel with the last chunk of a batch, and none is lost when there is no text."""
    reply = finished(logprob=TokenLogprob(-0.5, ()))

    assert list(WRITER.parts([], reply)) == []
    assert len(plain(WRITER.closing(reply))["choices"][0]["logprobs"]["content"]) == 1
