"""The image's health check, run as the container would, against a real server over HTTP and over HTTPS."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.support.containers import CONTAINERFILE
from tests.support.ports import free_port
from tests.support.process import clean_environment, samovar
from tests.support.tiny import make_tiny_model


def healthy(**environment: str) -> bool:
    """Whether the committed command ends with 0; the interpreter of the image is the one of these tests."""
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", text, flags=re.MULTILINE)
    _, *arguments = json.loads(command)
    done = subprocess.run(
        [sys.executable, *arguments],
        env=clean_environment(**environment),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.mark.parametrize("https", [False, True], ids=["http", "https"])
def test_it_finds_the_server_well(tmp_path: Path, https: bool):
    """It speaks as the server does, whatever name the certificate has; with keys, it needs none."""
    environment = {"SAMOVAR_AUTH__KEY": "sk-samovar-of-the-test"}
    if https:
        issued = trustme.CA().issue_cert("chat.example.com")
        certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        environment |= {
            "SAMOVAR_SERVER__TLS_CERTIFICATE": str(certificate),
            "SAMOVAR_SERVER__TLS_KEY": str(key),
        }
    model = make_tiny_model(tmp_path / "tiny", "llama")
    with samovar("--model", str(model), folder=tmp_path, environment=environment) as server:
        port = server.url.rpartition(":")[2]

        assert healthy(SAMOVAR_SERVER__PORT=port, **environment)


def test_it_finds_nobody_ill():
    """Where nothing listens it fails."""
    assert not healthy(SAMOVAR_SERVER__PORT=str(free_port()))
