"""Laws of how deltas become a reply."""

from hypothesis import given
from hypothesis import strategies as st

from app.api.ports import Piece, PieceKind, ReplyPart, ToolCall, ToolUse
from app.api.reply import Reply
from app.scheduler.job import Delta, Failed, Generated, Prefilled, Started, TokenLogprob
from app.vocabulary import FinishReason, Miss
from tests.support.scripted_engine import ANSWER, CALL, END_OF_TURN, THINK, CharacterText


def tokens(text: str, *, finish: FinishReason | None = None) -> list[Delta]:
    last = len(text) - 1
    return [Generated(ord(each), None, finish if index == last else None) for index, each in enumerate(text)]


def test_tokens_of_one_reading_are_one_piece_of_each_kind() -> None:
    """Tokens that were queued at once become as few pieces as there are changes of kind."""
    reply = Reply(CharacterText(()))

    pieces = reply.read(tokens(f"{THINK}hm, yes{ANSWER}Hello"))

    assert list(pieces) == [Piece(PieceKind.REASONING, "hm, yes"), Piece(PieceKind.CONTENT, "Hello")]


def test_reply_tells_how_it_started_and_ended() -> None:
    """Cached tokens, the generated ones (that which ends the turn included) and the reason are kept."""
    reply = Reply(CharacterText(()))

    reply.read([Started(5, None), Prefilled(7, 7)])
    assert not reply.ended
    reply.read(tokens("ab" + END_OF_TURN, finish=FinishReason.STOP))

    assert reply.started == Started(5, None)
    assert reply.generated_tokens == 3
    assert reply.finish is FinishReason.STOP
    assert reply.ended


def test_text_held_back_comes_with_the_last_token() -> None:
    """What might have become a stop string is text after all when no token follows."""
    reply = Reply(CharacterText(("STOP",)))

    assert list(reply.read(tokens("so ST"))) == [Piece(PieceKind.CONTENT, "so ")]
    assert list(reply.read(tokens("O", finish=FinishReason.LENGTH))) == [Piece(PieceKind.CONTENT, "STO")]
    assert reply.finish is FinishReason.LENGTH
    assert not reply.stopped_by_text


def test_stop_string_ends_the_reply_before_the_engine_does() -> None:
    """The stop string and everything after it is neither text nor counted, and the reason is `stop`."""
    reply = Reply(CharacterText(("STOP",)))

    pieces = reply.read([*tokens("one STOP two", finish=FinishReason.LENGTH), Failed("late", 500)])

    assert list(pieces) == [Piece(PieceKind.CONTENT, "one ")]
    assert reply.stopped_by_text
    assert reply.finish is FinishReason.STOP
    assert reply.generated_tokens == len("one STOP")
    assert reply.failure is None
    assert list(reply.read(tokens("more"))) == []


def test_failure_ends_a_reply_without_a_finish() -> None:
    """A failed job keeps the text it had, has a failure and no finish reason."""
    reply = Reply(CharacterText(()))

    pieces = reply.read([Started(0, Miss.EMPTY), *tokens("ab"), Failed("broken", 500), *tokens("c")])

    assert list(pieces) == [Piece(PieceKind.CONTENT, "ab")]
    assert reply.failure == Failed("broken", 500)
    assert reply.finish is None
    assert reply.ended


def test_logprobs_are_handed_over_once() -> None:
    """Each token's log-probability is taken exactly once, in order."""
    reply = Reply(CharacterText(()))
    first, second = TokenLogprob(-1.0, ()), TokenLogprob(-2.0, ())

    reply.read([Generated(97, first, None)])
    assert list(reply.take_logprobs()) == [(97, first)]
    reply.read([Generated(98, second, None)])

    assert list(reply.take_logprobs()) == [(98, second)]
    assert list(reply.take_logprobs()) == []


@given(st.text(alphabet="abSTOP ", max_size=40), st.data())
def test_text_does_not_depend_on_how_deltas_are_grouped(text: str, data: st.DataObject) -> None:
    """However the steps fall, the reply's text and end are the same."""
    deltas = tokens(text + END_OF_TURN, finish=FinishReason.STOP)
    whole, grouped = Reply(CharacterText(("STOP",))), Reply(CharacterText(("STOP",)))

    whole.read(deltas)
    expected = whole.content
    said: list[ReplyPart] = []
    while deltas:
        size = data.draw(st.integers(1, len(deltas)))
        said += grouped.read(deltas[:size])
        deltas = deltas[size:]

    assert "".join(part.text for part in said if isinstance(part, Piece)) == grouped.content
    assert grouped.content == expected == text.partition("STOP")[0]
    assert grouped.generated_tokens == whole.generated_tokens
    assert grouped.finish is FinishReason.STOP


TOOLS = ToolUse(tools=({"type": "function", "function": {"name": "now"}},))


def test_calls_are_told_with_ids_that_no_other_reply_has() -> None:
    """An id of the model's own is kept; the others follow from the reply's id, and repeat nowhere."""
    said = tokens(f"{CALL}now{CALL}later{END_OF_TURN}", finish=FinishReason.STOP)
    ids = set()
    for name in ("chatcmpl-1", "chatcmpl-2"):
        reply = Reply(CharacterText((), tools=TOOLS), id=name)
        calls = reply.read(said)
        assert list(calls) == list(reply.tool_calls)
        assert [call.name for call in reply.tool_calls] == ["now", "later"]
        ids |= {call.id for call in reply.tool_calls}

    assert len(ids) == 4
    own = Reply(OwnId(()), id="chatcmpl-3")
    own.read(tokens("x"))
    assert own.tool_calls == [ToolCall(0, "now", "{}", id="functions.now:0")]


class OwnId(CharacterText):
    """A model that names its calls."""

    def feed(self, token: int) -> list[ReplyPart]:
        return [ToolCall(0, "now", "{}", id="functions.now:0")]


def test_the_one_call_that_was_allowed_ends_the_reply() -> None:
    """The engine is to be told, and what the model made meanwhile is ignored."""
    reply = Reply(CharacterText((), tools=ToolUse(tools=TOOLS.tools, parallel=False)))

    reply.read(tokens(f"{CALL}now{CALL}later{END_OF_TURN}"))

    assert reply.stopped_by_text
    assert [call.name for call in reply.tool_calls] == ["now"]
    assert (reply.finish, reply.finish_reason) == (FinishReason.STOP, "tool_calls")


def test_a_reply_ends_with_calls_only_where_the_turn_is_over() -> None:
    """Otherwise the reason is what ended it; and without calls it is the model's."""
    cut = Reply(CharacterText((), tools=TOOLS))
    cut.read(tokens(f"{CALL}now{CALL}later", finish=FinishReason.LENGTH))

    assert [call.name for call in cut.tool_calls] == ["now"], "half a call is none"
    assert (cut.content, cut.finish_reason) == ("later", "length")
    plain = Reply(CharacterText((), tools=TOOLS))
    plain.read(tokens(f"Hi{END_OF_TURN}", finish=FinishReason.STOP))
    assert plain.finish_reason == "stop"
    assert Reply(CharacterText(())).finish_reason is None
