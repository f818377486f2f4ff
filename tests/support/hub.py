"""A small hub on this machine: it serves a folder as a repository, and can hold back a file."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = hashlib.sha1(b"the only commit").hexdigest()
HELD_SECONDS = 120


@dataclass
class Hub:
    """A running hub.

    `downloads`: the files whose bytes were asked for, in order. `held`: a file that waits for `let_go`
    after half of it was sent.
    """

    url: str
    repository: str
    folder: Path
    held: str = ""
    downloads: list[str] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)

    def environment(self, cache: Path) -> dict[str, str]:
        """What a process needs to download from here, into that folder and from nowhere else."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HUB_CACHE": str(cache),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        }


@contextlib.contextmanager
def hub_with(folder: Path, repository: str, *, held: str = "") -> Iterator[Hub]:
    """A hub with that one repository, for a block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_port}", repository, folder, held)
    server.hub = hub  # type: ignore[attr-defined]
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield hub
    finally:
        hub.let_go.set()
        server.shutdown()
        server.server_close()
        serving.join()


class _Handler(BaseHTTPRequestHandler):
    """The four answers that a download needs."""

    protocol_version = "HTTP/1.1"

    @property
    def _hub(self) -> Hub:
        hub: Hub = self.server.hub  # type: ignore[attr-defined]
        return hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_args: Any) -> None:
        pass

    def _answer(self) -> None:
        path, of = unquote(urlsplit(self.path).path), self._hub.repository
        files = {file.name: file for file in sorted(self._hub.folder.iterdir())}
        if path in {f"/api/models/{of}", f"/api/models/{of}/revision/main"}:
            self._json({"id": of, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]})
        elif path.startswith(f"/api/models/{of}/tree/{COMMIT}"):
            self._json(
                [
                    {"type": "file", "path": name, "size": file.stat().st_size, "oid": _digest(file)}
                    for name, file in files.items()
                ]
            )
        elif (name := path.removeprefix(f"/{of}/resolve/{COMMIT}/")) in files:
            self._file(files[name])
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _file(self, file: Path) -> None:
        self._send(200, file.read_bytes(), {"ETag": f'"{_digest(file)}"', "X-Repo-Commit": COMMIT}, file.name)

    def _send(self, status: int, body: bytes, headers: dict[str, str], name: str = "") -> None:
        self.send_response(status)
        for each, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(each, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if name:
            self._hub.downloads.append(name)
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        if name and name == self._hub.held:
            self._hub.let_go.wait(HELD_SECONDS)
        self.wfile.write(body[half:])


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
