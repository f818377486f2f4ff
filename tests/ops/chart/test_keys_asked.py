"""The environment and the files of the chart's pod make a real server that asks for keys, over HTTPS."""

import ssl
from collections.abc import Iterator

import httpx
import pytest
import trustme

from app.auth.key import digest_of, new_secret
from tests.ops.chart.helm import objects, only, render
from tests.ops.chart.pod import environment_of
from tests.support.process import Samovar, samovar
from tests.support.tiny import make_tiny_model

ANN, SCRAPER = new_secret(), new_secret()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs certificates here."""
    return trustme.CA()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[Samovar]:
    """A server with the environment of the chart's pod, in which only addresses and folders are others."""
    folder = tmp_path_factory.mktemp("pod")
    values = folder / "values.yaml"
    digests = [digest_of(secret.encode()).hex() for secret in (ANN, SCRAPER)]
    values.write_text(
        f"auth: {{keys: {{ann: {{sha256: '{digests[0]}'}},"
        f" scraper: {{sha256: '{digests[1]}', scopes: [metrics]}}}}}}\n"
        "tls: {enabled: true, existingSecret: certificate}\n",
        encoding="utf-8",
    )
    made = objects(render(values))
    issued = authority.issue_cert("127.0.0.1")
    secrets = {
        "keys/keys.toml": only(made, "Secret")["stringData"]["keys.toml"].encode(),
        "tls/tls.crt": b"".join(pem.bytes() for pem in issued.cert_chain_pems),
        "tls/tls.key": issued.private_key_pem.bytes(),
    }
    for name, content in secrets.items():
        path = folder / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    environment = {
        name: value.replace("/secrets/", f"{folder}/secrets/")
        for name, value in environment_of(made).items()
        if name.startswith("SAMOVAR_")
    }
    model = make_tiny_model(folder / "tiny", "llama")
    # The port is a free one. The address stays that of all interfaces, which a server without keys refuses.
    with samovar("--model", str(model), folder=folder, environment=environment) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("/readyz", None, 200),
        ("/v1/models", None, 401),
        ("/v1/models", ANN, 200),
        ("/metrics", None, 401),
        ("/metrics", ANN, 403),
        ("/metrics", SCRAPER, 200),
        ("/v1/cache/stats", SCRAPER, 403),
        ("/v1/cache/stats", ANN, 200),
    ],
    ids=lambda value: {None: "nobody", ANN: "ann", SCRAPER: "scraper"}.get(value, str(value)),
)
def test_the_server_of_the_chart_asks_for_keys(
    server: Samovar, authority: trustme.CA, path: str, key: str | None, status: int
):
    """Probes are open, the model is for ann, the metrics are for the scraper; all over HTTPS."""
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    headers = {"authorization": f"Bearer {key}"} if key else {}

    answer = httpx.get(url + path, headers=headers, verify=trusting, timeout=30)

    assert url.startswith("https://")
    assert answer.status_code == status, answer.text
