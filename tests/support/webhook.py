"""A receiver of the Alertmanager's messages, as whoever is woken has one."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """One message: the path it was sent to and what it says."""

    path: str
    body: dict[str, Any]


class Webhook:
    """Takes messages, in the order in which they come."""

    def __init__(self, port: int, messages: "queue.Queue[Message]") -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._messages = messages

    def next(self, seconds: float = 60) -> Message:
        """Wait for the next message."""
        return self._messages.get(timeout=seconds)


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A receiver for a block."""
    messages: queue.Queue[Message] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            messages.put(Message(self.path, json.loads(body)))

        def log_message(self, *_words: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Webhook(server.server_address[1], messages)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
