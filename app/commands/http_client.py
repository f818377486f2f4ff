"""Asks a running server, and says in one sentence why that failed. Knows no route and no verb."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any, Literal

import httpx

from app.errors import SamovarError
from app.settings.layers import built_in, client_key

_SECONDS = 10.0


def add_url(verb: argparse.ArgumentParser) -> None:
    """The flag that says which server."""
    server = built_in().server
    default = f"http://{server.host}:{server.port}"
    verb.add_argument("--url", default=default, metavar="URL", help=f"the server. Default: {default}.")


def ask(url: str, method: Literal["GET", "POST"], path: str, *, expecting: str) -> dict[str, Any]:
    """What the server at `url` answers: a JSON object that has the key `expecting`.

    It is asked with the API key of SAMOVAR_AUTH__KEY, where there is one.

    Raises:
        SamovarError: nothing answers there, or something that is no Samovar, or with an error.
    """
    with reaching(url, timeout_seconds=_SECONDS):
        answer = httpx.request(method, url.rstrip("/") + path, headers=credentials(), timeout=_SECONDS)
    said = _object_of(answer)
    if answer.is_success and expecting in said:
        return said
    raise SamovarError(why_refused(answer))


def credentials() -> dict[str, str]:
    """The header with the API key of SAMOVAR_AUTH__KEY, where there is one."""
    key = client_key()
    return {"authorization": f"Bearer {key}"} if key else {}


@contextlib.contextmanager
def reaching(url: str, *, timeout_seconds: float) -> Iterator[None]:
    """For a block that asks the server at `url`.

    Raises:
        SamovarError: it cannot be reached, or says nothing for so long.
    """
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise SamovarError(f"{url!r} is no address of a server; write it as http://host:port") from error
    except httpx.TimeoutException as error:
        raise SamovarError(
            f"the server at {url} does not answer within {timeout_seconds:g} seconds"
        ) from error
    except httpx.HTTPError as error:
        raise SamovarError(f"no server answers at {url}: {error}") from error


def why_refused(answer: httpx.Response) -> str:
    """What an answer says that is not the one expected."""
    fault = _object_of(answer).get("error")
    reason = fault.get("message") if isinstance(fault, dict) else None
    return f"{answer.url} answers {answer.status_code}: {reason or 'what is there is no Samovar server'}"


def _object_of(answer: httpx.Response) -> dict[str, Any]:
    try:
        said = answer.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
