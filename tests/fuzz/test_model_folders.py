"""Whatever stands in a model's folder: a model, or one sentence; in a process that may crash."""

import json
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny import make_tiny_model

SEED = 20260101
VARIANTS = 60


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing wrong."""
    return make_tiny_model(tmp_path_factory.mktemp("whole") / "llama", "llama")


def header_of(file: Path) -> tuple[dict[str, object], bytes]:
    """A safetensors file's header, and the rest."""
    raw = file.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def with_header(file: Path, header: bytes, rest: bytes, *, length: int | None = None) -> None:
    """Write it with another header, which claims to be of that length."""
    file.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + rest)


def spoil(folder: Path, rng: random.Random) -> str:  # noqa: C901 - a list of what can be wrong
    """Spoil one thing in a folder; what it was."""
    weights = folder / "model.safetensors"
    header, rest = header_of(weights)
    encoded = json.dumps(header).encode()
    name = rng.choice([key for key in header if key != "__metadata__"])
    tensor = dict(header[name])  # type: ignore[call-overload]
    kind = rng.choice(
        (
            "cut",
            "bytes",
            "length",
            "shape",
            "dtype",
            "offsets",
            "missing",
            "config",
            "json",
            "tokenizer",
            "empty",
        )
    )
    match kind:
        case "cut":
            raw = weights.read_bytes()
            weights.write_bytes(raw[: rng.randrange(len(raw))])
        case "bytes":
            with_header(weights, bytes(rng.randrange(256) for _ in range(len(encoded))), rest)
        case "length":
            with_header(weights, encoded, rest, length=rng.choice((0, 1, 7, 2**31, 2**63, 2**64 - 1)))
        case "shape":
            tensor["shape"] = rng.choice(([-1], [0], [2**62], [2**40, 2**40], ["x"], None, [1, 2, 3]))
            with_header(weights, json.dumps(header | {name: tensor}).encode(), rest)
        case "dtype":
            tensor["dtype"] = rng.choice(("X7", "", None, "I64", "F8_E4M3", 5))
            with_header(weights, json.dumps(header | {name: tensor}).encode(), rest)
        case "offsets":
            tensor["data_offsets"] = rng.choice(([5, 1], [-9, 9], [0, 2**62], [2**63, 2**64], [], ["a", "b"]))
            with_header(weights, json.dumps(header | {name: tensor}).encode(), rest)
        case "missing":
            with_header(
                weights, json.dumps({key: header[key] for key in header if key != name}).encode(), rest
            )
        case "config":
            config = json.loads((folder / "config.json").read_text())
            key = rng.choice(list(config))
            config[key] = rng.choice((None, -1, 0, "x", 10**30, [], {}, 1e300))
            (folder / "config.json").write_text(json.dumps(config))
        case "json":
            file = folder / rng.choice(("config.json", "tokenizer.json", "tokenizer_config.json"))
            raw = file.read_bytes()
            file.write_bytes(raw[: rng.randrange(len(raw))] + rng.choice((b"", b"\xff", b"}", b"[" * 9999)))
        case "tokenizer":
            (folder / "tokenizer.json").write_text(rng.choice(("{}", "[]", '{"model": {}}', "null")))
        case _:
            (folder / rng.choice(("model.safetensors", "tokenizer.json"))).write_bytes(b"")
    return kind


LOAD = """
import sys
from pathlib import Path
from app.engine.loader import ModelSource, load_model
from app.errors import ModelError
for folder in sys.argv[1:]:
    print(Path(folder).name, end=" ", flush=True)
    try:
        load_model(ModelSource(path=folder), cache_folder=Path(folder), progress=lambda *_: None)
        print("loaded", flush=True)
    except ModelError as error:
        assert len(str(error).splitlines()) == 1, str(error)
        print("refused", error, flush=True)
"""


def load_all(folders: list[Path]) -> subprocess.CompletedProcess[str]:
    """Load one after the other, in one process."""
    return subprocess.run(
        [sys.executable, "-c", LOAD, *map(str, folders)],
        cwd=Path.cwd(),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_a_spoilt_folder_is_one_sentence_or_a_model(tmp_path, whole):
    """Cut, empty, of other types or sizes, with nonsense in every file: never a traceback, never a crash."""
    rng = random.Random(SEED)
    folders = []
    for number in range(VARIANTS):
        folder = tmp_path / f"{number:03}"
        shutil.copytree(whole, folder)
        folder = folder.rename(tmp_path / f"{number:03}-{spoil(folder, rng)}")
        folders.append(folder)
    ended = load_all([whole, *folders])

    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, (ended.stdout[-300:], ended.stderr[-2000:])
    assert lines[0] == "llama loaded"
    assert len(lines) == VARIANTS + 1
    assert sum(" refused " in line for line in lines) > VARIANTS / 2
