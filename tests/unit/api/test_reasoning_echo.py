"""The thinking of a reply comes back to the conversation it belongs to, within a budget, and to no other."""

import pytest

from app.api.reasoning_echo import ENTRY_BYTES, LARGEST_SHARE, ReasoningEcho
from app.chat import ChatPrompt, ToolCall, with_reply

ANN = ("", "ann")
THOUGHT = "They greet me."


def chat(*messages: tuple[str, str], **more: str) -> ChatPrompt:
    """A conversation of (role, content); `more` is added to its last message."""
    plain = [{"role": role, "content": content} for role, content in messages]
    plain[-1] |= more
    return ChatPrompt(messages=tuple(plain), template_kwargs={})


TOLD = chat(("user", "Hi"), ("assistant", "Hello."))
NEXT = chat(("user", "Hi"), ("assistant", "Hello."), ("user", "And?"))


def reasoning_of(conversation: ChatPrompt) -> list[str | None]:
    return [message.get("reasoning_content") for message in conversation.messages]


@pytest.fixture
def echo() -> ReasoningEcho:
    return ReasoningEcho(100_000)


def test_the_next_turn_gets_its_reasoning_back(echo: ReasoningEcho) -> None:
    """The assistant's message is whole again, and the others are as they were sent."""
    echo.keep(ANN, TOLD, THOUGHT)

    whole = echo.restored(ANN, NEXT)

    assert reasoning_of(whole) == [None, THOUGHT, None]
    assert [message["content"] for message in whole.messages] == ["Hi", "Hello.", "And?"]


def test_every_turn_of_a_long_conversation_is_whole(echo: ReasoningEcho) -> None:
    """Keys are of what clients send, so reasoning that was restored or sent changes none of them."""
    asked = chat(("user", "Hi"))
    for turn in range(4):
        told = with_reply(echo.restored(ANN, asked), f"Reply {turn}.")
        echo.keep(ANN, told, f"Thought {turn}.")
        plain = with_reply(asked, f"Reply {turn}.")
        asked = ChatPrompt(
            messages=(*plain.messages, {"role": "user", "content": f"And {turn}?"}), template_kwargs={}
        )

    thoughts = [thought for thought in reasoning_of(echo.restored(ANN, asked)) if thought]
    assert thoughts == [f"Thought {turn}." for turn in range(4)]


@pytest.mark.parametrize(
    "sent",
    [
        chat(("user", "Ho"), ("assistant", "Hello.")),
        chat(("user", "Hi"), ("assistant", "Hello!")),
        chat(("user", "Hi"), ("user", "Hello.")),
        chat(("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello.")),
    ],
    ids=["other question", "other reply", "not the assistant's", "other beginning"],
)
def test_another_conversation_gets_nothing(echo: ReasoningEcho, sent: ChatPrompt) -> None:
    """All that came before the reply must be the same, and the reply itself."""
    echo.keep(ANN, TOLD, THOUGHT)

    assert echo.restored(ANN, sent) == sent


@pytest.mark.parametrize("other", [("", "bob"), ("tenant", "ann")])
def test_another_session_or_tenant_gets_nothing(echo: ReasoningEcho, other: tuple[str, str]) -> None:
    """The same words in another scope are somebody else's."""
    echo.keep(ANN, TOLD, THOUGHT)

    assert echo.restored(other, NEXT) == NEXT


def test_margins_of_the_reply_do_not_matter(echo: ReasoningEcho) -> None:
    """Clients trim what they show."""
    echo.keep(ANN, chat(("user", "Hi"), ("assistant", "\n\nHello. ")), THOUGHT)

    assert reasoning_of(echo.restored(ANN, NEXT)) == [None, THOUGHT, None]


def test_what_the_client_sends_itself_stays(echo: ReasoningEcho) -> None:
    """Only what was left out is put in."""
    echo.keep(ANN, TOLD, THOUGHT)
    sent = chat(("user", "Hi"), ("assistant", "Hello."), reasoning_content="My own.")

    assert echo.restored(ANN, sent) == sent


def test_a_reply_to_the_same_words_replaces_its_reasoning(echo: ReasoningEcho) -> None:
    """One trace a key, and its bytes are counted once."""
    echo.keep(ANN, TOLD, "a first thought, and a long one")
    echo.keep(ANN, TOLD, THOUGHT)

    assert reasoning_of(echo.restored(ANN, NEXT)) == [None, THOUGHT, None]
    assert (len(echo), echo.nbytes) == (1, len(THOUGHT) + ENTRY_BYTES)


def test_the_least_recently_used_goes_first() -> None:
    """The budget holds, and a use counts."""
    size = ENTRY_BYTES + 2
    echo = ReasoningEcho(LARGEST_SHARE * size)
    told = [chat(("user", f"q{n}"), ("assistant", "Hello.")) for n in range(LARGEST_SHARE + 1)]
    for each in told[:-1]:
        echo.keep(ANN, each, "é")
    assert echo.nbytes == LARGEST_SHARE * size
    assert reasoning_of(echo.restored(ANN, told[0])) == [None, "é"]

    echo.keep(ANN, told[-1], "é")

    assert echo.nbytes == LARGEST_SHARE * size
    kept = [reasoning_of(echo.restored(ANN, each))[1] for each in told]
    assert kept == ["é", None, *["é"] * (LARGEST_SHARE - 1)]


def test_one_trace_takes_no_more_than_its_share() -> None:
    """What is larger is not kept, and pushes out nothing."""
    echo = ReasoningEcho(LARGEST_SHARE * (ENTRY_BYTES + len(THOUGHT)))
    echo.keep(ANN, TOLD, THOUGHT)
    echo.keep(ANN, chat(("user", "Other"), ("assistant", "Yes.")), THOUGHT + "!")

    assert len(echo) == 1
    assert reasoning_of(echo.restored(ANN, NEXT)) == [None, THOUGHT, None]


def test_without_a_budget_nothing_is_kept() -> None:
    """Switched off, conversations pass as they are."""
    echo = ReasoningEcho(0)
    echo.keep(ANN, TOLD, "")

    assert len(echo) == 0
    assert echo.restored(ANN, NEXT) is NEXT


ASKED = chat(("user", "What time is it?"))
CALLED = with_reply(ASKED, "", [ToolCall(0, "now", '{"town": "Bern", "hours": 24}', id="a1")])
RESULT = {"role": "tool", "tool_call_id": "a1", "content": "noon"}


def test_thinking_before_a_call_comes_back_with_the_call(echo: ReasoningEcho) -> None:
    """In a tool loop too, though a client may write the arguments anew; to other calls nothing comes."""
    echo.keep(ANN, CALLED, THOUGHT)
    same, other = (
        with_reply(ASKED, "", [ToolCall(0, name, '{"hours":24,"town":"Bern"}', id="a1")])
        for name in ("now", "later")
    )

    def sent(told: ChatPrompt) -> ChatPrompt:
        return ChatPrompt(messages=(*told.messages, RESULT), template_kwargs={})

    assert reasoning_of(echo.restored(ANN, sent(CALLED))) == [None, THOUGHT, None]
    assert reasoning_of(echo.restored(ANN, sent(same))) == [None, THOUGHT, None]
    assert reasoning_of(echo.restored(ANN, sent(other))) == [None, None, None]


def test_what_is_forgotten_is_one_session_one_tenant_or_all() -> None:
    """The memory it took is free again; what is left is found as before."""
    echo = ReasoningEcho(100_000)
    scopes = [("ann", "a"), ("ann", "b"), ("bob", "a")]
    chat = ChatPrompt(
        messages=({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}),
        template_kwargs={},
    )
    for scope in scopes:
        echo.keep(scope, chat, "thought")
    each = echo.nbytes // 3

    def known() -> list[tuple[str, str]]:
        return [scope for scope in scopes if "reasoning_content" in echo.restored(scope, chat).messages[-1]]

    echo.forget("ann", "a")
    assert (known(), echo.nbytes) == ([("ann", "b"), ("bob", "a")], 2 * each)
    echo.forget("ann")
    assert (known(), echo.nbytes) == ([("bob", "a")], each)
    echo.forget()
    assert (known(), echo.nbytes) == ([], 0)
