"""A port that nobody listens on."""

import socket


def free_port() -> int:
    """One of loopback's, free at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
