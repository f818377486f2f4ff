"""The `samovar` command with parts that fail when a test says so.

It is run as `python -m tests.support.faulty_server FOLDER serve …`. A test writes a file there, named by the
place and holding the kind of the fault; who comes by the place next takes the file away and fails. Everything
else is the program as it is.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models import llama
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from app.cli import main
from app.engine import decoder, loader, payload, sampling
from app.telemetry.counting import Counting

UNABLE = "[malloc] Unable to allocate 1099511627776 bytes."
"""What MLX raises where the system gives it no memory."""


class Faults:
    """Where to fail next, as a folder says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def order(self, place: str, kind: str) -> None:
        """Have the next one at `place` fail."""
        self._folder.mkdir(exist_ok=True)
        aside = self._folder / f".{place}"
        aside.write_text(kind)
        aside.rename(self._folder / place)

    def pending(self, place: str) -> bool:
        """Whether nobody has come by yet."""
        return (self._folder / place).exists()

    def strike(self, place: str) -> None:
        """Fail, if that was ordered."""
        # Taken by one rename, so that an order is struck or withdrawn, and never both.
        taken = self._folder / f".{place}.taken"
        try:
            (self._folder / place).rename(taken)
        except FileNotFoundError:
            return
        match taken.read_text():
            case "oom":
                raise RuntimeError(UNABLE)
            case "kill":
                raise SystemExit(3)
            case "hang":
                _compute_for_ever()
            case _:
                raise ValueError(f"{place} fails on purpose")


def _compute_for_ever() -> None:
    """Keep MLX busy, as a load or a step does that takes minutes."""
    matrix = mx.ones((700, 700))
    while True:
        matrix = matrix @ matrix
        mx.eval(matrix)


def _before(owner: Any, name: str, strike: Callable[..., None]) -> None:
    """Have `strike` called with the same arguments before a function that `owner` holds."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        strike(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def install(faults: Faults) -> None:
    """Put the places of faults into the program."""

    def forward(_model: Any, inputs: mx.array, *_args: Any, **_kwargs: Any) -> None:
        # The model's check at its load runs on the same thread; no fault is ordered by then.
        faults.strike("prefill" if inputs.shape[1] > 1 else "decode")

    def at(place: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: faults.strike(place)

    _before(llama.Model, "__call__", forward)
    _before(loader, "load", at("load"))
    _before(decoder, "seal", at("capture"))
    _before(payload.SealedState, "restore", at("restore"))
    _before(Counting, "__call__", at("listener"))
    _before(OTLPSpanExporter, "export", at("exporter"))

    make_sampler, make_processors = vars(sampling)["make_sampler"], vars(sampling)["make_logits_processors"]

    def sampler(**options: Any) -> Any:
        sample = make_sampler(**options)

        def struck(logprobs: mx.array) -> mx.array:
            faults.strike("sampler")
            chosen: mx.array = sample(logprobs)
            return chosen

        return struck

    def processors(**options: Any) -> list[Any]:
        def struck(_tokens: Any, logits: mx.array) -> mx.array:
            faults.strike("processor")
            return logits

        return [*make_processors(**options), struck]

    vars(sampling).update(make_sampler=sampler, make_logits_processors=processors)


if __name__ == "__main__":
    install(Faults(Path(sys.argv[1])))
    threading.current_thread().name = "main"
    sys.exit(main(sys.argv[2:]))
