"""Which model of a server is measured. Knows the protocol's list of models, and no way to measure."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from app.bench.replies import Server, authorization, refusal
from app.errors import SamovarError

LIST_SECONDS = 10.0
"""The longest that a server may take to list its models."""


def address(url: str) -> str:
    """A server's address without what the protocol adds: clients are often told it with `/v1`."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def find_model(url: str, asked: str, *, key: str) -> Server:
    """The server with the model `asked`, or with its only one where none is.

    A server that lists no models is believed to have the one that is asked for: it says otherwise itself.

    Raises:
        SamovarError: it has no such model, several to choose from, or refuses to say.
        httpx.HTTPError: it cannot be reached, or answers no HTTP.
    """
    with httpx.Client(base_url=url, headers=authorization(key), timeout=LIST_SECONDS) as client:
        cards = _listed(client)
        if asked:
            if not cards or asked in _known(cards) or _describes(client, asked):
                return Server(url, asked, key)
            raise SamovarError(f"{url} has no model {asked!r}; it has {_names(cards)}")
    if cards is None:
        raise SamovarError(
            f"{url} lists no models as OpenAI's protocol has it; say with --model which to ask"
        )
    if len(cards) != 1:
        raise SamovarError(f"{url} has {_names(cards)}; say with --model which to ask")
    return Server(url, str(cards[0]["id"]), key)


def _listed(client: httpx.Client) -> Sequence[Mapping[str, Any]] | None:
    """What the server lists; None where it has no list. Some fail at this question alone.

    Raises:
        SamovarError: it refuses to say.
    """
    try:
        answer = client.get("/v1/models")
    except httpx.RemoteProtocolError:
        return None
    if answer.status_code == HTTPStatus.NOT_FOUND:
        return None
    if not answer.is_success:
        raise SamovarError(refusal(answer))
    try:
        return [card for card in answer.json()["data"] if "id" in card]
    except (ValueError, KeyError, TypeError):
        return None


def _names(cards: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(card["id"]) for card in cards) or "no model"


def _known(cards: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(name) for card in cards for name in (card["id"], *(card.get("aliases") or ()))}


def _describes(client: httpx.Client, name: str) -> bool:
    """Whether the server knows a model by a name that is not in its list."""
    answer = client.get(f"/v1/models/{quote(name)}")
    if not answer.is_success:
        return False
    try:
        return "id" in answer.json()
    except ValueError:
        return False
