"""Keys of a few tenants, with the secrets that a test may send."""

from app.auth.key import ApiKey, Scope, digest_of

SECRETS = {
    name: f"sk-test-{name}-0123456789abcdef" for name in ("ann", "bob", "bob-2", "scraper", "admin", "slow")
}


def key(name: str, *scopes: Scope, tenant: str | None = None, **limits: int) -> ApiKey:
    """The key whose secret is `SECRETS[name]`; for inference, unless other scopes are named."""
    return ApiKey(
        name=name,
        digest=digest_of(SECRETS[name].encode()),
        tenant=name if tenant is None else tenant,
        scopes=frozenset(scopes or {Scope.INFERENCE}),
        **limits,
    )


KEYS = (
    key("ann"),
    key("bob"),
    key("bob-2", tenant="bob"),
    key("scraper", Scope.METRICS),
    key("admin", Scope.ADMIN),
)


def bearer(name: str) -> dict[str, str]:
    """The header that sends a key."""
    return {"authorization": f"Bearer {SECRETS[name]}"}
