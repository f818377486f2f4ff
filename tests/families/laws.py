"""What must hold of every model family on the path that serves it: laws over a real store and decoder.

Each law raises AssertionError where it is broken; `test_laws` runs them, `test_mutations` breaks the engine
and asks them to notice.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from app.chat import ChatPrompt
from app.engine.batch_limits import BatchLimits
from app.engine.chat_model import ServedChatModel
from app.engine.decoder import BatchDecoder
from app.engine.loader import LoadedModel, ModelSource, load_model
from app.engine.selfcheck import Capabilities, check
from app.scheduler.job import Generated, Job, JobId, Sampling
from app.snapshots.limits import Limits
from tests.support.serving_room import ServingRoom
from tests.support.tiny import make_tiny_model

ASKED = BatchLimits(max_running=4, prefill_batch=4, prefill_step_tokens=16)
REPLY_TOKENS = 6

FIRST = "The quick brown fox jumps over the lazy dog, and the dog sleeps on. Then it is noon."
SECOND = "Now tell it again, but let the dog win; it has been a long and dreary year for dogs."
TEXTS: Mapping[str, tuple[str, str]] = {
    "anna": (FIRST, SECOND),
    "bert": ("Short.", "And a second turn that is a good deal longer than the first one was."),
    "carl": ("x = [1, 2, 3]; sum(x)", "yes"),
}
"""Session → its two turns; all lengths differ, and anna's first turn is longer than any window."""


@dataclass(frozen=True)
class Family:
    """A loaded tiny model, and what the self-check found it to be good for."""

    name: str
    loaded: LoadedModel
    found: Capabilities

    @cached_property
    def chat(self) -> ServedChatModel:
        """The model as HTTP sees it."""
        return ServedChatModel(self.loaded, unix_seconds=lambda: 0.0, on_declined=lambda _reason: None)

    @property
    def truncatable(self) -> bool:
        """Whether every state can be cut back."""
        return self.loaded.truncatable and self.found.truncation

    def room(self, *, store: bool = True, max_arrays: int | None = None) -> ServingRoom:
        """A scheduler over this model, as the server wires it, with or without a store."""
        decoder = BatchDecoder(
            self.loaded.network,
            end_tokens=self.loaded.tokenizer.eos_token_ids,
            limits=self.found.limits(ASKED),
            truncatable=self.found.truncation,
        )
        return ServingRoom(
            decoder,
            limits=Limits(
                capacity_bytes=10**9,
                max_entries=100,
                ttl_seconds=None,
                min_prefix_tokens=1,
                enabled=store,
                max_arrays=max_arrays,
            ),
            max_running=decoder.max_running,
            store_completions=self.truncatable,
            truncatable=self.truncatable,
        )

    def ask(self, texts: Sequence[str], *, session: str = "anna", max_tokens: int = REPLY_TOKENS) -> Job:
        """A job for a conversation of these user turns, each but the last one answered with the same word."""
        messages: list[Mapping[str, str]] = []
        for text in texts:
            messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "noted"}]
        prompt = self.chat.prepare(
            ChatPrompt(messages=tuple(messages[:-1]), template_kwargs={}), session=session, tenant="acme"
        )
        return Job(
            id=JobId(f"{session} {len(texts)} {texts[-1]}"),
            tokens=prompt.tokens,
            packed=prompt.packed,
            boundaries=prompt.boundaries,
            bucket=prompt.bucket,
            session=session,
            max_tokens=max_tokens,
            sampling=Sampling(top_logprobs=0),
        )

    def cold(self, job: Job) -> "Reply":
        """What this job is answered alone, on an engine that keeps nothing."""
        return replies(self.room(store=False), job)[0]


def load_family(name: str, folder: Path) -> Family:
    """Make a tiny model of a family in `folder`, load it as the server does, and check it."""
    model = make_tiny_model(folder / name, name)
    loaded = load_model(ModelSource(path=str(model)), cache_folder=folder, progress=_silent)
    return Family(name, loaded, check(loaded.network, vocabulary_size=len(loaded.tokenizer)))


def _silent(_what: str, _done: int, _total: int) -> None:
    return


Reply = list[Generated]

LOGPROB_TOLERANCE = 1e-3
"""Of equal replies in float32. A test asks that unlike prompts are more than ten times as far apart."""


def replies(room: ServingRoom, *jobs: Job) -> list[Reply]:
    """Run jobs together; their replies.

    Raises:
        RuntimeError: one has failed; that is no broken law, but a broken engine.
    """
    for job in jobs:
        room.deltas.pop(job.id, None)
    room.run(*jobs)
    said = [[delta for delta in room.deltas[job.id] if isinstance(delta, Generated)] for job in jobs]
    for job, reply in zip(jobs, said, strict=True):
        if not reply or reply[-1].finish is None:
            raise RuntimeError(f"{job.id} was not answered: {room.last_words(job)}")
    return said


def apart(one: Reply, other: Reply) -> float:
    """How far two replies are apart: in tokens infinitely, else in their log-probabilities."""
    if [each.token for each in one] != [each.token for each in other]:
        return math.inf
    return max(
        abs(left.logprob.logprob - right.logprob.logprob)
        for left, right in zip(one, other, strict=True)
        if left.logprob is not None and right.logprob is not None
    )


def assert_same(said: Sequence[Reply], expected: Sequence[Reply]) -> None:
    """Each reply is the expected one, token for token and with the same certainty."""
    for reply, wanted in zip(said, expected, strict=True):
        assert apart(reply, wanted) < LOGPROB_TOLERANCE, (reply, wanted)


def the_second_turn_hits_and_is_as_cold(family: Family) -> None:
    """A conversation's second turn starts from the first one's state and says what a cold engine says."""
    room = family.room()
    first, second = family.ask([FIRST]), family.ask([FIRST, SECOND])

    assert_same(replies(room, first), [family.cold(first)])
    assert_same(replies(room, second), [family.cold(second)])
    assert room.started(first).cached_tokens == 0
    assert room.started(second).cached_tokens >= first.boundaries[0].length


def a_replay_is_equal(family: Family) -> None:
    """The identical prompt again, and again, says the same: a restore leaves what is stored as it was."""
    room = family.room()
    first, second = family.ask([FIRST]), family.ask([FIRST, SECOND])
    replies(room, first)
    expected = family.cold(second)

    for _ in range(3):
        assert_same(replies(room, second), [expected])
        assert room.started(second).cached_tokens > 0


def together_is_as_alone(family: Family) -> None:
    """Prompts of unequal length, cold in turn one and restored in turn two, do not disturb each other."""
    room = family.room()
    for turn in (1, 2):
        jobs = [family.ask(texts[:turn], session=name) for name, texts in TEXTS.items()]
        assert len({len(job.tokens) for job in jobs}) == len(jobs)
        assert_same(replies(room, *jobs), [family.cold(job) for job in jobs])
        assert all((room.started(job).cached_tokens > 0) == (turn == 2) for job in jobs)


def a_cold_one_beside_a_restored_one_is_as_alone(family: Family) -> None:
    """A restored prompt and a cold one of another length, prefilled together, say what they say alone."""
    room = family.room()
    replies(room, family.ask([FIRST]))
    jobs = [family.ask([FIRST, SECOND]), family.ask(["Short."], session="bert")]

    assert_same(replies(room, *jobs), [family.cold(job) for job in jobs])
    assert [room.started(job).cached_tokens > 0 for job in jobs] == [True, False]


def sessions_never_mix(family: Family) -> None:
    """Two conversations with prompts of the same length, turn by turn in turn, keep their own state."""
    room = family.room()
    other = (FIRST[::-1], SECOND[::-1])
    for turn in (1, 2):
        for session, texts in (("anna", (FIRST, SECOND)), ("otto", other)):
            job = family.ask(texts[:turn], session=session)
            assert_same(replies(room, job), [family.cold(job)])
            assert (room.started(job).cached_tokens > 0) == (turn == 2)


def a_state_cut_back_is_as_cold(family: Family) -> None:
    """A prompt that leaves the stored one in its middle starts there if states can be cut back, else cold."""
    room = family.room()
    kept, edited = family.ask(["Count to twenty"]), family.ask(["Count to a hundred"])
    replies(room, kept)

    assert_same(replies(room, edited), [family.cold(edited)])
    assert (room.started(edited).cached_tokens > 0) == family.found.truncation


LAWS: tuple[Callable[[Family], None], ...] = (
    the_second_turn_hits_and_is_as_cold,
    a_replay_is_equal,
    together_is_as_alone,
    a_cold_one_beside_a_restored_one_is_as_alone,
    sessions_never_mix,
    a_state_cut_back_is_as_cold,
)
