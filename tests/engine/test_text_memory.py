"""What is remembered of prompts: bounded, the last ones, and nobody else's."""

from hypothesis import given
from hypothesis import strategies as st

from app.chat import TokenisedText
from app.engine.text_memory import TextMemory
from app.snapshots.entry import pack

OURS, THEIRS = ("us", "s"), ("them", "s")


def text_of(text: str) -> TokenisedText:
    return TokenisedText(text, pack(map(ord, text)))


def kept(memory: TextMemory, *texts: str, scope: tuple[str, str] = OURS) -> None:
    for text in texts:
        memory.keep(scope, text_of(text), settled=len(text))


def test_the_prompt_with_the_longest_shared_beginning_is_found():
    """Of several conversations of one session, the one that goes on."""
    memory = TextMemory()
    kept(memory, "system: one", "system: two", "other")

    assert memory.nearest(OURS, "system: two and more") == text_of("system: two")
    assert memory.nearest(OURS, "system: o") == text_of("system: one")
    assert memory.nearest(OURS, "nothing like it") is None


def test_what_another_tenant_or_session_asked_is_not_known():
    """How long a prompt takes tells nobody of another's."""
    memory = TextMemory()
    kept(memory, "a secret")

    assert memory.nearest(THEIRS, "a secret") is None
    assert memory.nearest((OURS[0], "another"), "a secret") is None


def test_a_prompt_takes_the_place_of_the_one_that_it_goes_on_from():
    """A conversation is remembered once, and another one under the same system prompt beside it."""
    memory = TextMemory()
    memory.keep(OURS, text_of("sys.one>"), settled=len("sys.one"))
    memory.keep(OURS, text_of("sys.one.two>"), settled=len("sys.one.two"))
    memory.keep(OURS, text_of("sys.else>"), settled=len("sys.else"))

    assert len(memory) == 2
    assert memory.nearest(OURS, "sys.one>") == text_of("sys.one.two>")


def test_the_least_recently_used_goes_first():
    """Whether it was asked for or kept."""
    memory = TextMemory(most_texts=2)
    kept(memory, "one", "two")
    memory.nearest(OURS, "one")
    kept(memory, "three")

    assert [memory.nearest(OURS, text) for text in ("one", "wo")] == [text_of("one"), None]


def test_a_prompt_larger_than_all_there_may_be_is_not_kept_and_costs_no_other_its_place():
    """Nor is the one kept that it would have taken the place of, which it is a later state of."""
    memory = TextMemory(capacity_bytes=10_000)
    kept(memory, "small", "grows")
    kept(memory, "grows" + "." * 10_000)

    assert memory.nearest(OURS, "small") == text_of("small")
    assert memory.nearest(OURS, "grows") is None


@given(
    st.lists(st.tuples(st.sampled_from([OURS, THEIRS, ("us", "t")]), st.text("ab", max_size=40)), max_size=40)
)
def test_it_never_holds_more_than_it_may_and_knows_how_much_that_is(asked):
    """After whatever was kept, and nothing is left once all is forgotten."""
    memory = TextMemory(capacity_bytes=2_000, most_texts=5)
    for scope, text in asked:
        kept(memory, text, scope=scope)
        assert memory.nbytes <= 2_000
        assert len(memory) <= 5
    memory.forget("us")
    assert memory.nearest(OURS, "a") is memory.nearest(("us", "t"), "a") is None
    memory.forget()
    assert (len(memory), memory.nbytes) == (0, 0)


def test_forgetting_is_of_all_of_a_tenant_of_a_session_or_everything():
    """Nothing of anybody else's goes with it."""
    memory = TextMemory()
    for scope in (OURS, ("us", "t"), THEIRS):
        kept(memory, "text", scope=scope)

    memory.forget("us", "s")
    assert [memory.nearest(scope, "t") is None for scope in (OURS, ("us", "t"), THEIRS)] == [
        True,
        False,
        False,
    ]
    memory.forget("us")
    assert [memory.nearest(scope, "t") is None for scope in (("us", "t"), THEIRS)] == [True, False]
