"""The fan-out of events: no listener can hurt another or the one who publishes."""

import logging
from typing import Any

from app.bus import Bus, discard
from app.events import EngineRebuilt, Event

EVENT = EngineRebuilt("RuntimeError", 1)


def test_every_listener_hears_every_event_in_order():
    """Listeners are called in the order they were given."""
    heard: list[tuple[str, Event]] = []
    bus = Bus(
        [("a", lambda event: heard.append(("a", event))), ("b", lambda event: heard.append(("b", event)))]
    )

    bus.publish(EVENT)

    assert heard == [("a", EVENT), ("b", EVENT)]


def test_a_listener_that_raises_is_counted_logged_once_and_stops_nobody(caplog):
    """The others still hear, the publisher never learns of it, and the log is not flooded."""
    heard: list[Any] = []

    def broken(_event):
        raise ValueError("on purpose")

    bus = Bus([("broken", broken), ("sound", heard.append)])

    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            bus.publish(EVENT)

    assert heard == [EVENT] * 3
    assert bus.failures() == {"broken": 3, "sound": 0}
    assert len(caplog.records) == 1
    assert "broken" in caplog.text


def test_nobody_may_listen():
    """The silent listener takes anything."""
    discard(EVENT)
    Bus().publish(EVENT)
