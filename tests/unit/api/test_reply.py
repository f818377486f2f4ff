"""Laws of how deltas become a reply."""

from hypothesis import given
from hypothesis import strategies as st

from app.api.ports import Piece, PieceKind
from app.api.reply import Reply
from app.events import FinishReason, Miss
from app.scheduler.job import Delta, Failed, Generated, Prefilled, Started, TokenLogprob
from tests.support.scripted_engine import ANSWER, END_OF_TURN, THINK, CharacterText


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

    expected = "".join(piece.text for piece in whole.read(deltas))
    said = ""
    while deltas:
        size = data.draw(st.integers(1, len(deltas)))
        said += "".join(piece.text for piece in grouped.read(deltas[:size]))
        deltas = deltas[size:]

    assert said == expected == text.partition("STOP")[0]
    assert grouped.generated_tokens == whole.generated_tokens
    assert grouped.finish is FinishReason.STOP
