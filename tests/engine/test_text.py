"""From tokens to text: whole characters, stop strings that span tokens, reasoning and tool parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.generate import TextStateMachine
from mlx_lm.tool_parsers import json_tools

from app.chat import Piece, PieceKind, ToolCall, ToolUse
from app.engine.text import ReplyText, split
from app.engine.tool_calls import CallReader, ToolFormat

THINKING = {
    "normal": [("<think>", "reasoning"), ("<tool_call>", "tool")],
    "reasoning": [("</think>", "normal")],
    "tool": [("</tool_call>", "normal")],
}


END_TOKEN = 257

JSON_CALLS = ToolFormat("<tool_call>", "</tool_call>", json_tools.parse_tool_call)
TOOLS = ToolUse(tools=({"type": "function", "function": {"name": "now"}},))
ONE_CALL = ToolUse(tools=TOOLS.tools, parallel=False)


def reply(tiny, *, stop=(), transitions=None, starts_reasoning=False, tools=None):
    return ReplyText(
        tiny("llama").tokenizer.detokenizer,
        TextStateMachine(transitions),
        end_tokens={END_TOKEN},
        stop=stop,
        starts_reasoning=starts_reasoning,
        calls=CallReader(JSON_CALLS, tools),
    )


def say(tiny, text, *, cut=False, **how):
    """Feed a text byte by byte, as the byte-level tokenizer has it."""
    answer = reply(tiny, **how)
    pieces = []
    for token in tiny("llama").tokenizer.encode(text, add_special_tokens=False):
        pieces += answer.feed(token)
    pieces += answer.finish(cut=cut)
    return answer, pieces


def joined(pieces, kind=PieceKind.CONTENT):
    return "".join(piece.text for piece in pieces if isinstance(piece, Piece) and piece.kind is kind)


def calls_of(pieces):
    return [piece for piece in pieces if isinstance(piece, ToolCall)]


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


@pytest.mark.parametrize(
    ("stop", "first"), [(["normal", "one", " two"], "one"), (["x", "wo"], "wo"), (["x"], None)]
)
def test_it_says_which_stop_string_ended_it(tiny, stop, first):
    """The one that was complete first, whatever it is called; none where none came."""
    answer, _ = say(tiny, "one two END three", stop=stop)

    assert answer.stop_string == first


def test_it_says_how_long_a_call_is_that_is_not_read_yet(tiny):
    """From its first character on until its end, when reading it is over."""
    answer = reply(tiny, transitions=THINKING, tools=TOOLS)
    lengths = []
    for token in tiny("llama").tokenizer.encode(
        'a<tool_call>{"name": "now"}</tool_call>b', add_special_tokens=False
    ):
        answer.feed(token)
        lengths.append(answer.call_characters)

    assert max(lengths) >= len('{"name": "now"}')
    assert lengths[0] == lengths[-1] == 0


def test_text_that_only_looks_like_a_stop_string_is_not_lost(tiny):
    """What was held back comes when it turns out to be text, at the latest at the end."""
    answer, pieces = say(tiny, "the EN of the story, EN", stop=["END"])

    assert not answer.stopped
    assert joined(pieces) == "the EN of the story, EN"


def test_reasoning_and_calls_are_told_apart_from_text(tiny):
    """Marks are stripped; reasoning has its kind, a call is whole."""
    said = '<think>hm</think>Hi <tool_call>{"name": "now", "arguments": {"a": 1}}</tool_call>'
    _, pieces = say(tiny, said, transitions=THINKING, tools=TOOLS)

    assert joined(pieces, PieceKind.REASONING) == "hm"
    assert joined(pieces) == "Hi"
    assert calls_of(pieces) == [ToolCall(0, "now", '{"a": 1}')]


def test_white_space_around_calls_is_layout_and_between_words_it_is_text(tiny):
    """What a template puts around calls is no content; what stands between words stays, calls or not."""
    call = '<tool_call>\n{"name": "now"}\n</tool_call>'
    _, around = say(tiny, f"One,  two.\n\n{call}\n{call}\n", transitions=THINKING, tools=TOOLS)
    _, between = say(tiny, f"One.\n{call}\nTwo.", transitions=THINKING, tools=TOOLS)
    _, without = say(tiny, "\nOne. \n", transitions=THINKING, tools=TOOLS)
    _, only = say(tiny, f"\n\n{call}", transitions=THINKING, tools=TOOLS)

    assert (joined(around), len(calls_of(around))) == ("One,  two.", 2)
    assert joined(between) == "One.\nTwo."
    assert joined(without) == "\nOne. \n"
    assert (joined(only), len(calls_of(only))) == ("", 1)


def test_without_tools_the_marks_are_text(tiny):
    """Nobody asked for calls: the reply is what the model wrote, as it writes it."""
    said = 'See: <tool_call>{"name": "now"}</tool_call>!'
    _, pieces = say(tiny, said, transitions=THINKING)

    assert joined(pieces) == said
    assert calls_of(pieces) == []
    assert len(pieces) > len(said) - len("<tool_call></tool_call>"), "and it does not wait for the end"


@pytest.mark.parametrize("cut", [False, True])
def test_a_call_without_its_end_is_one_only_where_the_turn_is_over(tiny, cut):
    """Half a command must not be carried out; a model that merely forgets the mark is understood."""
    said = '<tool_call>{"name": "now"}'
    _, pieces = say(tiny, said, transitions=THINKING, tools=TOOLS, cut=cut)

    assert calls_of(pieces) == ([] if cut else [ToolCall(0, "now", "{}")])
    assert joined(pieces) == (said if cut else "")


def test_a_stop_string_within_a_call_leaves_its_beginning_as_text(tiny):
    """Nothing that came before the stop string is lost, held back for a mark or not."""
    answer, pieces = say(tiny, '<tool_call>{"na STOP', stop=["STOP"], transitions=THINKING, tools=TOOLS)
    _, held = say(tiny, "a <too STOP", stop=[" STOP"], transitions=THINKING)

    assert answer.stopped
    assert (joined(pieces), calls_of(pieces)) == ('<tool_call>{"na ', [])
    assert joined(held) == "a <too"


def test_where_one_call_is_allowed_the_reply_is_over_with_it(tiny):
    """Nothing after it is handed out, in the same token or later."""
    call = '<tool_call>{"name": "now"}</tool_call>'
    answer, pieces = say(tiny, f"So: {call}{call} more", transitions=THINKING, tools=ONE_CALL)

    assert answer.stopped
    assert pieces[-1] == ToolCall(0, "now", "{}")
    assert (joined(pieces), len(calls_of(pieces))) == ("So:", 1)


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
    assert answer.finish(cut=False) == []


def test_nothing_follows_a_stop(tiny):
    """Tokens that were already on their way when the stop was found are ignored."""
    answer, _ = say(tiny, "aXb", stop=["X"])

    assert answer.feed(99) == []
    assert answer.finish(cut=False) == []


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


CALL = '<tool_call>{"name": "now", "arguments": {"a": [1, "x"]}}</tool_call>'


@given(
    parts=st.lists(
        st.sampled_from([CALL, "<tool_call>no</tool_call>", "<tool_call>", " \n", "a", "<", "tool_call>"]),
        max_size=8,
    ),
    cut=st.booleans(),
)
def test_no_word_of_a_reply_is_lost(tiny, parts, cut):
    """Calls and text together are all that the model wrote, but for white space, whatever can be read."""
    said = "".join(parts)
    _, pieces = say(tiny, said, transitions=THINKING, tools=TOOLS, cut=cut)

    again = "".join(CALL if isinstance(piece, ToolCall) else piece.text for piece in pieces)
    assert "".join(again.split()) == "".join(said.split())


MARKS = {
    "normal": [("<think>", "reasoning"), ("<tool_call>", "tool"), ("[END]", None)],
    "reasoning": [("</think>", "normal")],
    "tool": [("</tool_call>", "normal")],
}


@given(st.sampled_from(["normal", "reasoning", "tool", "without marks"]), st.data())
def test_text_without_marks_is_told_apart_as_mlx_lm_does_it(initial, data):
    """The same segments whatever is held back, and the same state for what follows."""
    pieces = st.sampled_from(
        ["a", " ", "<", ">", "<think>", "<thi", "nk>", "</think>", "[EN", "D]", "[END]", "é", ""]
    )
    ours = theirs = TextStateMachine(MARKS).make_state(initial)
    for text in data.draw(st.lists(pieces | st.text(max_size=5), max_size=12)):
        if theirs[0] is None:
            break
        ours, said = split(ours, text)
        theirs, expected = TextStateMachine.split(theirs, text)
        assert said == expected
        assert ours == theirs
