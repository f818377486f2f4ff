"""What web pages may do with the server: its own pages, and those of others."""

import pytest

from app.auth.keyring import Keyring
from tests.support.keys import KEYS, bearer
from tests.support.serving import serving


async def test_pages_for_people_are_locked_down() -> None:
    """They run no script, load nothing, are in no frame and in no cache."""
    async with serving() as served:
        for page in ("/", "/docs", "/docs/openapi.json"):
            headers = (await served.client.get(page)).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, "evil.example.org", 200),
        ("https://evil.example.org", None, 403),
        ("null", None, 403),
        ("http://evil.example.org", "evil.example.org", 403),
        ("https://app.example.org", None, 200),
        ("http://localhost:8080", "localhost:8080", 200),
        ("http://[::1]:8080", "[::1]:8080", 200),
        ("http://localhost.evil.org", "localhost.evil.org", 403),
    ],
)
async def test_pages_of_others_cannot_use_a_server_without_keys(
    origin: str | None, host: str | None, status: int
) -> None:
    """Nor under a name of their own that points here; its own can, and so can programs and named origins."""
    headers = {name: value for name, value in (("origin", origin), ("host", host)) if value is not None}
    async with serving(cors_origins=["https://app.example.org"]) as served:
        for method, path in (("POST", "/v1/cache/reset"), ("GET", "/v1/models")):
            assert (await served.client.request(method, path, headers=headers)).status_code == status
        assert served.engine.resets == [None] * (status == 200)
    async with serving(keyring=Keyring(KEYS), cors_origins=[]) as served:
        answer = await served.client.get("/v1/models", headers=headers | bearer("ann"))
        assert answer.status_code == 200, "where there are keys, a page has none"


async def test_no_origin_is_let_in_unless_it_was_named() -> None:
    """CORS is off; where origins are named, theirs alone are, and their browsers may ask before they send."""
    here, elsewhere = "https://app.example.org", "https://evil.example.org"
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    async with serving() as served:
        answer = await served.client.get("/v1/models", headers={"origin": elsewhere})
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
        answer = await served.client.options("/v1/models", headers={"origin": elsewhere, **asks})
        assert not [name for name in answer.headers if name.startswith("access-control")]
    async with serving(keyring=Keyring(KEYS), cors_origins=[here]) as served:
        before = await served.client.options("/v1/chat/completions", headers={"origin": here, **asks})
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == here
        answer = await served.client.get("/v1/models", headers={"origin": here, **bearer("ann")})
        assert answer.headers["access-control-allow-origin"] == here
        for origin in (elsewhere, f"{here}.evil.org", "null"):
            refused = await served.client.options("/v1/models", headers={"origin": origin, **asks})
            assert refused.status_code == 400
            answer = await served.client.get("/v1/models", headers={"origin": origin, **bearer("ann")})
            assert "access-control-allow-origin" not in answer.headers
