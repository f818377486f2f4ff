"""Laws of the bytes of an event stream."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from app.api import sse


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@example("tea\u0085\u2028\u2029\x0b\x0c\x1c\x1d\x1ecup")
def test_event_carries_any_value_in_one_line(value: Any) -> None:
    """Whatever is sent comes out again from the one data line, whatever a client takes for a line break."""
    event = sse.event(value)

    assert event.endswith(b"\n\n")
    (line,) = event.decode().removesuffix("\n\n").splitlines()
    assert json.loads(line.removeprefix("data: ")) == value


def test_keep_alive_is_a_comment() -> None:
    """A keep-alive starts with a colon, so that clients skip it, and ends an event, so that none is torn."""
    assert sse.KEEP_ALIVE.startswith(b":")
    assert sse.KEEP_ALIVE.endswith(b"\n\n")


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.text(), st.text(), st.dictionaries(NAMES, NAMES | st.none()))
def test_text_event_is_the_event_with_that_text(text: str, other: str, rest: dict[str, Any]) -> None:
    """Encoded in pieces, it is byte for byte what it would be encoded whole, one text after the other."""

    def data(told: str) -> object:
        return {"before": rest, "text": told, "after": [rest]}

    made = sse.TextEvent(data)

    assert [made(text), made(other)] == [sse.event(data(text)), sse.event(data(other))]
