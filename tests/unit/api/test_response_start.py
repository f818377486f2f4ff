"""Laws of what middleware sees of a response."""

from typing import Any

from app.api.response_start import SeeingStart, past_start


async def test_each_sees_the_start_and_may_add_to_it() -> None:
    """The innermost sees it first, and what it adds is sent on; bodies pass by all of them."""
    sent: list[Any] = []
    seen: list[str] = []

    async def send(message: Any) -> None:
        sent.append(message)

    def adding(name: str) -> Any:
        def see(start: Any) -> None:
            seen.append(name)
            start["headers"] = [*start["headers"], (name.encode(), b"1")]

        return see

    wrapped = SeeingStart(SeeingStart(send, adding("outer")), adding("inner"))
    await wrapped({"type": "http.response.start", "status": 200, "headers": []})
    await wrapped({"type": "http.response.body", "body": b"x", "more_body": False})

    assert seen == ["inner", "outer"]
    assert sent[0]["headers"] == [(b"inner", b"1"), (b"outer", b"1")]
    assert sent[1]["body"] == b"x"


async def test_a_response_that_has_begun_goes_past_all_of_them() -> None:
    """What is left is the send that they were put around."""

    async def send(message: Any) -> None:
        raise AssertionError(message)

    assert past_start(SeeingStart(SeeingStart(send, print), print)) is send
    assert past_start(send) is send


async def test_a_start_waits_for_what_was_returned_to_be_awaited() -> None:
    """Nothing of the response is sent before that is done."""
    order: list[str] = []

    async def send(message: Any) -> None:
        order.append(message["type"])

    async def first(_start: Any) -> None:
        order.append("first")

    wrapped = SeeingStart(send, first)
    await wrapped({"type": "http.response.start", "status": 200, "headers": []})
    await wrapped({"type": "http.response.body", "body": b"x", "more_body": False})

    assert order == ["first", "http.response.start", "http.response.body"]
