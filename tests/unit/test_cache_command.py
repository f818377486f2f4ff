"""`samovar cache`: what it prints without a server, and what it says of one that is not there."""

import http.server
import json
import socket
import threading

import mlx.core as mx
import pytest

from app.cli import main
from app.engine.memory import memory_limits
from tests.support.tiny import make_tiny_model


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """A working folder without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def sized(capsys, *argv: str) -> dict[str, object]:
    assert main(["cache", "size", "--json", *argv]) == 0
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    return said


def test_size_tells_what_a_model_needs(capsys, tmp_path):
    """Fixed and per-token parts, bytes by length, and a capacity for what was asked; all of it adds up."""
    folder = str(make_tiny_model(tmp_path / "m", "qwen3_next"))
    said = sized(
        capsys, "--model", folder, "--conversations", "3", "--context", "100", "--context-length", "5000"
    )
    sizes = {each["tokens"]: each["bytes"] for each in said["snapshots"]}  # type: ignore[attr-defined]
    assert list(sizes) == [100, 1024, 4096, 5000]
    for tokens, nbytes in sizes.items():
        assert nbytes == said["fixed_bytes"] + tokens * said["bytes_per_token"]
    assert said["snapshots_per_conversation"] == 2, "its next turns are prepared, as a snapshot of their own"
    needed = 3 * 2 * sizes[100]
    assert said["wanted_bytes"] == needed + max(needed // 4, sizes[100])
    assert said["recommended_bytes"] == said["wanted_bytes"]
    assert said["available_bytes"] == memory_limits(None, None).available_bytes(
        int(str(said["weights_bytes"]))
    )
    without = sized(capsys, "--model", folder, "--no-snapshot-warmup")
    assert without["snapshots_per_conversation"] == 1


def test_size_reads_no_weights(capsys, tmp_path):
    """What it takes of the device is far below what the model's weights are."""
    folder = make_tiny_model(tmp_path / "m", "llama", changes={"intermediate_size": 16_384})
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    said = sized(capsys, "--model", str(folder))
    assert mx.get_peak_memory() - before < said["weights_bytes"] / 4  # type: ignore[operator]


def test_size_needs_no_weights_at_all(capsys, tmp_path):
    """A config alone will do; its `dtype` is that of the state, and the size of the weights is unknown."""
    folder = make_tiny_model(tmp_path / "m", "llama")
    whole = sized(capsys, "--model", str(folder))
    (folder / "model.safetensors").unlink()
    config = json.loads((folder / "config.json").read_text())
    for dtype, share in (("float32", 1), ("bfloat16", 2), (None, 2)):
        (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": dtype}))
        alone = sized(capsys, "--model", str(folder))
        assert alone["bytes_per_token"] * share == whole["bytes_per_token"]  # type: ignore[operator]
        assert alone["weights_bytes"] is None
    (folder / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 4321}}')
    assert sized(capsys, "--model", str(folder))["weights_bytes"] == 4321


def test_size_says_when_it_does_not_fit(capsys, tmp_path):
    """It recommends what memory has, and not a byte more."""
    folder = str(make_tiny_model(tmp_path / "m", "llama"))
    said = sized(capsys, "--model", folder, "--conversations", str(10**9))
    assert said["fits"] is False
    assert said["recommended_bytes"] == said["available_bytes"]
    assert main(["cache", "size", "--model", folder, "--conversations", str(10**9)]) == 0
    out = capsys.readouterr().out
    assert "It does not fit" in out
    assert f"--snapshot-capacity-bytes {said['available_bytes']}" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--model", "./nowhere"], "nowhere"),
        (["--model", "."], "it has no config.json"),
        (["--context", "9999999"], "is more than the model's context of"),
    ],
)
def test_what_cannot_be_sized_is_one_sentence(capsys, tmp_path, argv, said):
    """And exit code 1."""
    folder = make_tiny_model(tmp_path / "m", "llama")
    given = argv if "--model" in argv else ["--model", str(folder), *argv]
    assert main(["cache", "size", *given]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_count_below_one_is_refused(capsys):
    """As a mistake of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(["cache", "size", "--conversations", "0"])
    assert ended.value.code == 2
    assert "0 is not at least 1" in capsys.readouterr().err


class Answering(http.server.BaseHTTPRequestHandler):
    """A server of another kind."""

    answer = (200, b"<html>")

    def do_GET(self) -> None:
        status, body = self.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def stranger():
    """Its address."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def refused(capsys, *argv: str) -> str:
    assert main(["cache", *argv]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return str(err)


@pytest.mark.parametrize("verb", ["stats", "reset"])
def test_no_server_is_one_sentence(capsys, verb):
    """Where nothing listens, or the address is none, the sentence names it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert f"no server answers at {url}" in refused(capsys, verb, "--url", url)
    for url in ("here", "ftp://here", ""):
        assert f"{url!r} is no address of a server" in refused(capsys, verb, "--url", url)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, b"<html>"), "answers 200: what is there is no Samovar server"),
        ((200, b"[]"), "answers 200: what is there is no Samovar server"),
        ((404, b'{"detail": "no"}'), "answers 404: what is there is no Samovar server"),
        ((404, b'{"error": "no"}'), "answers 404: what is there is no Samovar server"),
        ((200, b"{}"), "what is there is no Samovar server"),
        ((503, b'{"error": {"message": "loading"}}'), "answers 503: loading"),
    ],
)
def test_a_strange_answer_is_one_sentence(capsys, monkeypatch, stranger, answer, said):
    """The status, and the server's own reason where it gives one."""
    monkeypatch.setattr(Answering, "answer", answer)
    assert said in refused(capsys, "stats", "--url", stranger)
