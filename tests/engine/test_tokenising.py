"""Tokens made from those of another text are the tokens that the text has alone, whatever the two are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from app.chat import TokenisedText
from app.engine.tokenising import Tokeniser, common_characters
from app.snapshots.entry import pack
from tests.support.tiny import SPECIAL_TOKENS
from tests.support.tokenizers import CORPUS, TOKENIZERS, UNCUT, byte_pairs, wrapped

BEGIN, END = SPECIAL_TOKENS
FULL_WIDTH = END.translate({ord(letter): ord(letter) + 0xFEE0 for letter in END})

PIECES = (
    *(BEGIN, END, BEGIN[:-1], END[:-1], END[1:], "<|", "|>", END.upper(), FULL_WIDTH),
    *("<l>", "<r>", "<n>", "tea", "team", " ", "  ", "\n", "\n\n", "\t", "s", "user", "u"),
    *("assistant\n", "Sunny.", " and", "Größe", "☕", "茶", "é", "2026", "<unk>", "▁"),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4).filter(str.isprintable), max_size=14).map(
    "".join
)


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Any]:
    return {name: make() for name, make in {**TOKENIZERS, **UNCUT}.items() if name != "dropout"}


def alone(tokenizer: Any, text: str) -> bytes:
    return pack(tokenizer.encode(text, add_special_tokens=False))


@given(
    shared=TEXTS,
    one=TEXTS,
    other=TEXTS,
    name=st.sampled_from([*TOKENIZERS, *sorted(UNCUT.keys() - {"dropout"})]),
)
def test_tokens_made_from_another_texts_are_those_of_the_text_alone(tokenizers, name, shared, one, other):
    """The two go on from a shared beginning, or one is the beginning of the other; so are its seams."""
    tokenizer = tokenizers[name]
    tokeniser = Tokeniser(tokenizer)
    first = tokeniser.tokenise(shared + one)
    second = tokeniser.tokenise(shared + other, first)
    back = tokeniser.tokenise(shared, second)

    assert first.packed == alone(tokenizer, shared + one)
    assert second.packed == alone(tokenizer, shared + other)
    assert back.packed == alone(tokenizer, shared)
    assert second == tokeniser.tokenise(shared + other)
    assert back == tokeniser.tokenise(shared)


@given(data=st.data(), name=st.sampled_from(list(TOKENIZERS)))
def test_a_text_that_grows_keeps_the_tokens_it_has_alone(tokenizers, name, data):
    """However often it grows, is cut back and grows again."""
    tokenizer = tokenizers[name]
    tokeniser = Tokeniser(tokenizer)
    known = tokeniser.tokenise("")
    for _ in range(data.draw(st.integers(1, 6))):
        kept = known.text[: data.draw(st.integers(0, len(known.text)))]
        known = tokeniser.tokenise(kept + data.draw(TEXTS), known)
        assert known.packed == alone(tokenizer, known.text)


@given(text=TEXTS, name=st.sampled_from(list(TOKENIZERS)))
def test_each_seam_is_a_mark_where_the_text_falls_into_two(tokenizers, name, text):
    """What stands before it, and what begins with it, have the tokens that they have together."""
    tokenizer = tokenizers[name]
    whole = Tokeniser(tokenizer).tokenise(text)

    for seam in whole.seams:
        before, after = alone(tokenizer, text[: seam.begins]), alone(tokenizer, text[seam.begins :])
        assert (len(before), before + after) == (4 * seam.tokens, whole.packed)


def conversation(turns: int) -> str:
    return "".join(f"{BEGIN}user\n{CORPUS[turn % 6]} {turn}{END}\n" for turn in range(turns))


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_of_a_conversation_that_goes_on_only_the_last_messages_are_read(tokenizers, name, monkeypatch):
    """So that a turn costs what is new in it, and its history's rendering nothing but its end."""
    tokeniser = Tokeniser(tokenizers[name])
    first = tokeniser.tokenise(conversation(400) + f"{BEGIN}assistant\n")
    read: list[int] = []
    encode = PreTrainedTokenizerFast._encode_plus

    def listening(self: Any, text: str, **options: Any) -> Any:
        read.append(len(text))
        return encode(self, text, **options)

    monkeypatch.setattr(PreTrainedTokenizerFast, "_encode_plus", listening)
    second = tokeniser.tokenise(conversation(402) + f"{BEGIN}assistant\n", first)
    history = tokeniser.tokenise(conversation(402), second)
    again = tokeniser.tokenise(second.text, second)

    assert again is second
    assert history.text == conversation(402)
    assert sum(read) < 4 * len(f"{BEGIN}user\n{CORPUS[1]} 400{END}\n") < len(second.text) / 50


@pytest.mark.parametrize("name", UNCUT)
def test_where_nothing_is_known_of_a_tokenizer_texts_are_tokenised_whole(name):
    """Without marks that split every text, with chance in it, or with code of its own."""
    tokeniser = Tokeniser(UNCUT[name]())
    known = tokeniser.tokenise(conversation(3))

    assert known.seams == ()
    assert tokeniser.tokenise(conversation(4), known).seams == ()


def test_marks_that_are_taken_for_text_cut_nothing():
    """A tokenizer can be told so after a text was tokenised."""
    tokenizer = wrapped(byte_pairs())
    tokeniser = Tokeniser(tokenizer)
    known = tokeniser.tokenise(conversation(3))
    tokenizer.split_special_tokens = True

    after = tokeniser.tokenise(conversation(4), known)

    assert (len(known.seams), after.seams) == (6, ())
    assert after.packed == alone(tokenizer, conversation(4))


@given(shared=st.text(max_size=600), one=st.text(max_size=4), other=st.text(max_size=4))
def test_common_characters_are_the_leading_equal_ones(shared, one, other):
    """Counted one by one."""
    left, right = shared + one, shared + other
    same = next(
        (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )

    assert common_characters(left, right) == same


def test_a_text_that_is_known_is_handed_back():
    """Nothing is made anew."""
    known = TokenisedText("abc", pack([1]))

    assert Tokeniser(wrapped(byte_pairs())).tokenise("abc", known) is known
