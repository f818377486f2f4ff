"""The first reply of a loaded model: it compiles the kernels and proves that the model can speak."""

from collections.abc import Callable

from app.engine.decoder import BatchDecoder
from app.engine.loader import LoadedModel
from app.errors import ModelError
from app.scheduler.job import Job, JobId, Sampling
from app.snapshots.entry import Bucket, pack

_WARM_UP_TOKENS = 1


def warm_up(decoder: BatchDecoder, model: LoadedModel, *, progress: Callable[[str, int, int], None]) -> None:
    """Run one short reply, so that kernels are compiled before the first request and a broken model is found.

    Raises:
        ModelError: the model cannot produce a token.
    """
    progress("warming up", 0, 1)
    tokens = tuple(model.tokenizer.encode("Hello", add_special_tokens=False)) or (0,)
    job = Job(
        id=JobId("warm-up"),
        tokens=tokens,
        packed=pack(tokens),
        boundaries=(),
        bucket=Bucket(model=model.name, cache_signature=model.cache_signature),
        session="",
        max_tokens=_WARM_UP_TOKENS,
        sampling=Sampling(),
    )
    try:
        decoder.admit(job, start=0, state=None, stops=())
        while not any(generated.finish for _, generated in decoder.step().generated):
            pass
    except Exception as error:
        raise ModelError(f"model {model.name!r} was loaded but cannot generate: {error}") from error
    decoder.release(job.id)
    progress("warming up", 1, 1)
