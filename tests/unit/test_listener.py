"""Laws of finding an address and listening on it. Real sockets, a real Granian."""

import socket
from collections.abc import Iterator

import httpx
import pytest
from litestar import Litestar, get

from app.errors import StartError
from app.listener import listening, reserve_address, url_of


@get("/")
async def hello() -> str:
    return "hello"


def application() -> Litestar:
    return Litestar([hello], openapi_config=None, logging_config=None)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_port_zero_is_any_free_port() -> None:
    """Port 0 becomes a real one that can be bound."""
    ip, port = reserve_address("127.0.0.1", 0)

    assert ip == "127.0.0.1"
    with socket.socket() as probe:
        probe.bind((ip, port))


def test_localhost_is_where_clients_look_first() -> None:
    """A name with an IPv4 and an IPv6 address is listened on at the IPv4 one."""
    assert reserve_address("localhost", 0)[0] == "127.0.0.1"


def test_taken_port_names_the_way_out(taken: int) -> None:
    """A port in use is a StartError with the port and the flag to choose another."""
    with pytest.raises(StartError, match=rf"Port {taken} on 127.0.0.1 is in use.*--port"):
        reserve_address("127.0.0.1", taken)


@pytest.mark.parametrize(
    ("host", "says"), [("192.0.2.1", "not an address of this machine"), ("no.invalid", "no address")]
)
def test_host_that_is_not_ours_is_said_to_be(host: str, says: str) -> None:
    """An address of another machine, or a name without one, is a StartError that names the setting."""
    with pytest.raises(StartError, match=says) as refusal:
        reserve_address(host, 0)
    assert "server.host" in str(refusal.value)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (("127.0.0.1", 80), "http://127.0.0.1:80"),
        (("0.0.0.0", 80), "http://127.0.0.1:80"),
        (("::", 80), "http://[::1]:80"),
        (("::1", 80), "http://[::1]:80"),
    ],
)
def test_url_is_one_that_can_be_asked(address: tuple[str, int], url: str) -> None:
    """A wildcard address is shown as this machine's own, and IPv6 in brackets."""
    assert url_of(address) == url


async def test_listener_serves_within_its_block_only() -> None:
    """Inside the block requests are answered; after it the port is free again."""
    address = reserve_address("127.0.0.1", 0)
    async with listening(application(), address, connections=8), httpx.AsyncClient() as client:
        assert (await client.get(url_of(address))).text == "hello"

    assert reserve_address(*address) == address


async def test_address_that_cannot_be_had_is_a_start_error() -> None:
    """If Granian cannot listen after all, the start fails at once with a sentence that names the address."""
    with pytest.raises(StartError, match=r"192\.0\.2\.1:1 has ended"):
        async with listening(application(), ("192.0.2.1", 1), connections=8):
            pass
