"""From tokens to text: whole characters, stop strings that span tokens, reasoning and tool parts."""

from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.generate import TextStateMachine

from app.chat import Piece, PieceKind
from app.engine.text import ReplyText

THINKING = {
    "normal": [("<think>", "reasoning"), ("<tool_call>", "tool")],
    "reasoning": [("</think>", "normal")],
    "tool": [("</tool_call>", "normal")],
}


END_TOKEN = 257


def reply(tiny, *, stop=(), transitions=None, starts_reasoning=False):
    return ReplyText(
        tiny("llama").tokenizer.detokenizer,
        TextStateMachine(transitions),
        end_tokens={END_TOKEN},
        stop=stop,
        starts_reasoning=starts_reasoning,
    )


def say(tiny, text, **how):
    """Feed a text byte by byte, as the byte-level tokenizer has it."""
    answer = reply(tiny, **how)
    pieces = []
    for token in tiny("llama").tokenizer.encode(text, add_special_tokens=False):
        pieces += answer.feed(token)
    pieces += answer.finish()
    return answer, pieces


def joined(pieces, kind=PieceKind.CONTENT):
    return "".join(piece.text for piece in pieces if piece.kind is kind)


def test_characters_of_several_tokens_come_whole(tiny):
    """No half a character is ever handed out."""
    _, pieces = say(tiny, "Ein Samowar ☕ für Übermut 🫖!")

    assert joined(pieces) == "Ein Samowar ☕ für Übermut 🫖!"
    assert not any("\ufffd" in piece.text for piece in pieces)


def test_a_stop_string_that_spans_tokens_ends_the_text_before_it(tiny):
    """Neither the stop string nor anything after it is handed out."""
    answer, pieces = say(tiny, "one two END three", stop=["END", "never"])

    assert answer.stopped
    assert joined(pieces) == "one two "


def test_text_that_only_looks_like_a_stop_string_is_not_lost(tiny):
    """What was held back comes when it turns out to be text, at the latest at the end."""
    answer, pieces = say(tiny, "the EN of the story, EN", stop=["END"])

    assert not answer.stopped
    assert joined(pieces) == "the EN of the story, EN"


def test_reasoning_and_tool_parts_are_told_apart(tiny):
    """Marks are stripped; each part has its kind."""
    _, pieces = say(tiny, '<think>hm</think>Hi <tool_call>{"a": 1}</tool_call>', transitions=THINKING)

    assert joined(pieces, PieceKind.REASONING) == "hm"
    assert joined(pieces) == "Hi "
    assert joined(pieces, PieceKind.TOOL) == '{"a": 1}'


def test_a_prompt_that_opens_the_thinking_part_starts_the_reply_inside_it(tiny):
    """The opening mark is in the prompt then, and never generated."""
    _, pieces = say(tiny, "hm</think>Hi", transitions=THINKING, starts_reasoning=True)

    assert (joined(pieces, PieceKind.REASONING), joined(pieces)) == ("hm", "Hi")


def test_a_stop_string_inside_the_reasoning_stops_as_well(tiny):
    """The text as the model wrote it is what stop strings are looked for in."""
    answer, pieces = say(tiny, "<think>a STOP b</think>c", stop=["STOP"], transitions=THINKING)

    assert answer.stopped
    assert pieces == [Piece(PieceKind.REASONING, char) for char in "a "]


def test_the_token_that_ends_a_turn_has_no_text(tiny):
    """The end of turn is told by the finish reason, not by a mark in the text."""
    answer = reply(tiny)

    assert answer.feed(END_TOKEN) == []
    assert answer.finish() == []


def test_nothing_follows_a_stop(tiny):
    """Tokens that were already on their way when the stop was found are ignored."""
    answer, _ = say(tiny, "aXb", stop=["X"])

    assert answer.feed(99) == []
    assert answer.finish() == []


# mlx-lm's byte-level detokenizer takes a reply's first space for a word's mark and drops it, and reads
# NUL as another character; both are its own, and no chat is about them.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@given(text=TEXT.filter(lambda text: not text.startswith(" ")), stop=st.text(min_size=1, max_size=3))
def test_what_is_handed_out_is_the_text_up_to_the_first_stop(tiny, text, stop):
    """For any text and any stop string."""
    answer, pieces = say(tiny, text, stop=[stop])

    before, found, _ = text.partition(stop)
    assert joined(pieces) == before
    assert answer.stopped is bool(found)
