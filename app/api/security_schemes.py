"""How an API key is sent, and which keys an operation takes, for the schema. Checks none: guards do."""

from collections.abc import Mapping

from litestar.openapi.spec import SecurityRequirement, SecurityScheme

from app.auth.key import Scope
from app.auth.keyring import Keyring

_SCOPES = (
    "Scopes: `inference` opens the model's routes, and the numbers and sessions of the key's own tenant;"
    " `metrics` opens `/metrics` and `/v1/overview`; `admin` opens every tenant's numbers, sessions and"
    " snapshots, and `/v1/overview`. No scope contains another. An operation names those of which the key has"
    " to have one; where it names none, every key will do. A server without keys asks for none."
)

SCHEMES: Mapping[str, SecurityScheme] = {
    "bearer": SecurityScheme(
        type="http", scheme="bearer", description=f"An API key of this server. {_SCOPES}"
    ),
    "header": SecurityScheme(
        type="apiKey",
        name="x-api-key",
        security_scheme_in="header",
        description="The same key, where `Authorization` holds none.",
    ),
}


def key_needed(keyring: Keyring, *scopes: Scope) -> list[SecurityRequirement]:
    """What the schema says of operations that `may(keyring, *scopes)` guards: one of these has to be met."""
    named: list[list[str]] = (
        [[]] if frozenset(scopes) == frozenset(Scope) else [[scope.value] for scope in scopes]
    )
    asked = [{scheme: roles} for roles in named for scheme in SCHEMES]
    return [*asked, {}] if keyring.is_open else asked
