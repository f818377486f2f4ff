"""HTTPS with certificates of a real authority, and what is said of files that it cannot be served with."""

import re
import ssl
from pathlib import Path

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from litestar import Litestar, get

from app.errors import StartError
from app.listener import listening, reserve_address, url_of
from app.tls import TlsFiles, usable


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs certificates here."""
    return trustme.CA()


@pytest.fixture
def files(tmp_path: Path, authority: trustme.CA) -> TlsFiles:
    """A certificate of this machine, with its key."""
    issued = authority.issue_cert("127.0.0.1", "localhost")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    for pem in issued.cert_chain_pems:
        pem.write_to_path(str(certificate), append=True)
    issued.private_key_pem.write_to_path(str(key))
    return TlsFiles(certificate, key)


@get("/")
async def hello() -> str:
    return "hello"


async def test_https_is_served_to_whoever_trusts_the_certificate(
    files: TlsFiles, authority: trustme.CA
) -> None:
    """TLS 1.3 with the very certificate; a client that does not trust it, or speaks HTTP, gets nothing."""
    app = Litestar([hello], openapi_config=None, logging_config=None)
    address = reserve_address("127.0.0.1", 0)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    old = ssl.create_default_context()
    authority.configure_trust(old)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    url = url_of(address, tls=True)
    async with listening(app, address, connections=8, tls=usable(*map(str, (files.certificate, files.key)))):
        async with httpx.AsyncClient(verify=trusting) as client:
            assert url.startswith("https://")
            assert (await client.get(url)).text == "hello"
        for verify in (True, old):
            async with httpx.AsyncClient(verify=verify) as client:
                with pytest.raises(httpx.ConnectError):
                    await client.get(url)
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.TransportError):
                await client.get(url_of(address))


def refused(certificate: Path, key: Path) -> str:
    """What is said of two files."""
    with pytest.raises(StartError) as raised:
        usable(str(certificate), str(key))
    return str(raised.value)


def test_files_that_cannot_be_used_are_named(files: TlsFiles, authority: trustme.CA, tmp_path: Path) -> None:
    """Absent, unreadable, no PEM, another's key: one sentence that names the file and its setting."""
    none = tmp_path / "none.pem"
    assert (
        refused(none, files.key)
        == f"{none} (server.tls_certificate) cannot be read: No such file or directory."
    )
    assert refused(files.certificate, none).startswith(f"{none} (server.tls_key) cannot be read")
    assert "(server.tls_key) cannot be read: Is a directory" in refused(files.certificate, tmp_path)
    text = tmp_path / "text.pem"
    text.write_text("hello")
    both = r"HTTPS cannot be served with .* \(server.tls_certificate\) and .* \(server.tls_key\): \S+"
    for certificate, key in ((text, files.key), (files.certificate, text), (files.key, files.certificate)):
        assert re.fullmatch(both + ".*", refused(certificate, key))
    other = tmp_path / "other.pem"
    authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(str(other))
    assert "KEY_VALUES_MISMATCH" in refused(files.certificate, other)


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(
    files: TlsFiles, tmp_path: Path
) -> None:
    """A server starts without anybody at its terminal."""
    locked = tmp_path / "locked.pem"
    key = load_pem_private_key(files.key.read_bytes(), None)
    locked.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
    )
    assert refused(files.certificate, locked).endswith(
        "the key is encrypted; give it one without a password."
    )
