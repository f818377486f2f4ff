"""The certificate that HTTPS is served with: two files, looked at before anything listens. Serves nothing."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from app.errors import StartError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate chain and its private key, both PEM."""

    certificate: Path
    key: Path


def usable(certificate: str, key: str) -> TlsFiles:
    """The two files, if HTTPS can be served with them.

    Raises:
        StartError: one cannot be read, is no PEM, or is not the other's; or the key is encrypted.
    """
    files = TlsFiles(Path(certificate).expanduser().absolute(), Path(key).expanduser().absolute())
    for setting, path in (("server.tls_certificate", files.certificate), ("server.tls_key", files.key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise StartError(f"{path} ({setting}) cannot be read: {error.strerror}.") from None
    asked = False

    def no_password() -> str:
        # Without this, OpenSSL would ask on the terminal, where nobody sits.
        nonlocal asked
        asked = True
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key, no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = (
            "the key is encrypted; give it one without a password"
            if asked
            else getattr(error, "reason", None) or str(error)
        )
        raise StartError(
            f"HTTPS cannot be served with {files.certificate} (server.tls_certificate) and {files.key}"
            f" (server.tls_key): {reason}."
        ) from None
    return files
