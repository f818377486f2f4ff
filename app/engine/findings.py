"""What the check of a model found, kept on disk for as long as nothing that it depends on changes.

It must not know what is checked, nor how. What cannot be kept or read is found anew: no file is needed.
"""

import hashlib
import json
import logging
import platform
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import msgspec

from app import __version__
from app.engine.loader import LoadedModel
from app.engine.selfcheck import Capabilities, check

log = logging.getLogger(__name__)

_MOST_BYTES = 64 * 1024
"""A file larger than this was not written here."""

_CODE = ("app.engine.", "mlx_lm.", "mlx.")
"""The modules whose files a finding depends on, as far as they are loaded: a version misses an edit."""


_DEVICE = ("device_name", "architecture")


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file's content: what was found, and by which fingerprint."""

    fingerprint: str
    found: Capabilities


def find(model: LoadedModel, *, folder: Path, anew: bool, kernels: str = "") -> Capabilities:
    """What a model can be trusted with: as was found at an earlier load, or found now and kept.

    Only what answers decided is kept. What an error decided may have been an accident.

    Args:
        model: as it was loaded.
        folder: where findings are kept, a file for each model; made if it is not there.
        anew: check it in any case.
        kernels: how MLX was told to make them, by which rounding differs.
    """
    sources = [model.folder, *([Path(model.adapter).expanduser()] if model.adapter else [])]
    file = folder / f"{_digest([str(source.absolute()) for source in sources])}.json"
    try:
        now = fingerprint(model, sources, kernels)
    except OSError as error:
        log.info("the model's files cannot be looked at: %s", error)
        return check(model.network, vocabulary_size=len(model.tokenizer))
    if not anew and (kept := _read(file)) is not None and kept.fingerprint == now:
        log.info("the model is as it was when it was last checked")
        return kept.found
    found = check(model.network, vocabulary_size=len(model.tokenizer))
    if found.lasting:
        _write(file, _Kept(now, found))
    return found


def fingerprint(model: LoadedModel, sources: Iterable[Path], kernels: str) -> str:
    """A digest of all that could change a finding: the model's files, the code that runs it, the device.

    A file counts by its name, size and time of change; reading gigabytes would cost more than the check.
    """
    code = (
        Path(file)
        for name, module in tuple(sys.modules.items())
        if name.startswith((*_CODE, type(model.network).__module__))
        and (file := getattr(module, "__file__", None))
    )
    files = (file for source in sources for file in source.rglob("*") if file.is_file())
    return _digest(
        {
            "versions": [__version__, version("mlx"), version("mlx-lm"), platform.python_version()],
            "device": [
                str(mx.default_device()),
                *(str(mx.device_info().get(each)) for each in _DEVICE),
                kernels,
            ],
            "caches": model.cache_signature,
            "files": sorted([str(file), *_when(file)] for file in {*files, *code}),
        }
    )


def _when(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_size, facts.st_mtime_ns


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def _read(file: Path) -> _Kept | None:
    try:
        with file.open("rb") as opened:
            return msgspec.json.decode(opened.read(_MOST_BYTES), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        log.info("what was found of the model before cannot be read: %s", error)
        return None


def _write(file: Path, kept: _Kept) -> None:
    """Written aside and moved, so that a reader never finds half of it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".", delete=False) as made:
            try:
                made.write(msgspec.json.encode(kept))
                made.close()
                Path(made.name).replace(file)
            except OSError:
                Path(made.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        log.info("what was found of the model cannot be kept, and is found anew next time: %s", error)
