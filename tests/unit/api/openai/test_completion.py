"""Laws of a reply in OpenAI's shapes."""

import json
from typing import Any

import msgspec

from app.api.openai.completion import CompletionWriter
from app.api.ports import Piece, PieceKind
from app.api.reply import Reply
from app.events import FinishReason
from app.scheduler.job import Generated, Started, TokenLogprob
from tests.support.scripted_engine import CharacterModel, CharacterText

WRITER = CompletionWriter("chatcmpl-1", 17, "scripted", 10, CharacterModel().token_text)
THOUGHT = Piece(PieceKind.REASONING, "hm")
SAID = Piece(PieceKind.CONTENT, "Hello")
CALLED = Piece(PieceKind.TOOL, '{"name": "now"}')


def plain(value: object) -> dict[str, Any]:
    """As a client decodes it."""
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return decoded


def finished(*, logprob: TokenLogprob | None = None) -> Reply:
    reply = Reply(CharacterText(()))
    reply.read([Started(4, None), Generated(ord("é"), logprob, FinishReason.LENGTH)])
    return reply


def test_whole_reply_has_the_shape_clients_expect() -> None:
    """Every field of a completion, with usage that counts cached tokens within the prompt's."""
    assert plain(WRITER.whole([SAID], finished())) == {
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
            "completion_tokens": 1,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


def test_reasoning_stands_apart_and_tool_text_is_not_lost() -> None:
    """Reasoning goes to a field of its own; the text of a tool call stays in the content."""
    message = plain(WRITER.whole([THOUGHT, SAID, CALLED], finished()))["choices"][0]["message"]

    assert message == {
        "role": "assistant",
        "content": 'Hello{"name": "now"}',
        "reasoning_content": "hm",
    }


def test_chunks_carry_one_piece_each() -> None:
    """Each piece is one chunk with one delta; only what it adds is in it."""
    deltas = [
        plain(chunk)["choices"][0]["delta"] for chunk in WRITER.text([THOUGHT, SAID, CALLED], finished())
    ]

    assert deltas == [
        {"reasoning_content": "hm"},
        {"content": "Hello"},
        {"content": '{"name": "now"}'},
    ]


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
    assert chunk["usage"] == plain(WRITER.whole([], reply))["usage"]
    assert "usage" not in plain(WRITER.opening())


def test_logprobs_show_tokens_as_text_and_as_bytes() -> None:
    """A token's entry has its text, its UTF-8 bytes, its log-probability and the alternatives'."""
    reply = finished(logprob=TokenLogprob(-0.5, ((ord("a"), -1.0), (ord("b"), -2.0))))

    logprobs = plain(WRITER.whole([SAID], reply))["choices"][0]["logprobs"]
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

    assert list(WRITER.text([], reply)) == []
    assert len(plain(WRITER.closing(reply))["choices"][0]["logprobs"]["content"]) == 1
