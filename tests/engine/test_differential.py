"""Random conversations over real models: every reply is that of an engine that never had a store."""

import random
from dataclasses import replace
from functools import cache

import pytest

from app.chat import ChatPrompt
from app.engine.chat_model import ServedChatModel
from app.events import Removal
from app.snapshots.limits import Limits
from tests.engine.conftest import new_decoder
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

SEED = 1871
ROUNDS = 40
WORDS = ("samovar", "tea", "coal", "steam", "cup", "lemon", "sugar", "saucer", "embers", "kettle")
OFF = Limits(capacity_bytes=1, max_entries=1, ttl_seconds=None, min_prefix_tokens=1, enabled=False)


class Talk:
    """One client's conversation: it goes on, goes back, says the same again, or begins anew."""

    def __init__(self, session: str, rng: random.Random) -> None:
        self.session = session
        self._rng = rng
        self._messages: list[dict[str, str]] = []

    def next_prompt(self) -> ChatPrompt:
        kind = self._rng.random()
        if kind < 0.08:
            self._messages.clear()
        elif kind < 0.25 and len(self._messages) > 2:
            del self._messages[self._rng.randrange(1, len(self._messages)) :]
        if kind > 0.35 or not self._messages:
            if not self._messages and self._rng.random() < 0.5:
                self._say("system", 12)
            self._say("user", 14)
        return ChatPrompt(messages=tuple(self._messages), template_kwargs={})

    def hear(self, reply: str) -> None:
        # Some clients echo what they got, some echo something else.
        said = reply if self._rng.random() < 0.5 else "as you say"
        self._messages.append({"role": "assistant", "content": said})

    def _say(self, role: str, most_words: int) -> None:
        text = " ".join(self._rng.choices(WORDS, k=self._rng.randrange(1, most_words)))
        self._messages.append({"role": role, "content": text})


@pytest.mark.slow
@pytest.mark.parametrize("store_completions", [True, False], ids=["with completions", "boundaries only"])
@pytest.mark.parametrize("family", ["llama", "lfm2", "gemma3_text"])
def test_no_reply_depends_on_what_was_stored(tiny, family, store_completions):
    """Branches, replays, resets, evictions, concurrent sessions, a small budget: all turns are equal."""
    rng = random.Random(SEED)
    loaded = tiny(family)
    model = ServedChatModel(loaded, unix_seconds=lambda: 0.0, on_declined=lambda _reason: None)
    limits = Limits(capacity_bytes=700_000, max_entries=3, ttl_seconds=40, min_prefix_tokens=8)
    room = ServingRoom(
        new_decoder(loaded),
        limits=limits,
        store_completions=store_completions,
        truncatable=loaded.truncatable,
        shared_prefix_tokens=24,
    )
    cold = ServingRoom(new_decoder(loaded), limits=OFF, truncatable=loaded.truncatable)

    @cache
    def expected(tokens: tuple[int, ...], max_tokens: int) -> list[int]:
        job = make_job(tokens, id=f"cold-{tokens!r}-{max_tokens}", max_tokens=max_tokens)
        cold.run(job)
        return cold.reply(job)

    talks = [Talk(session, rng) for session in ("a", "b", "b", "c")]
    turns = 0
    for number in range(ROUNDS):
        jobs = []
        for position, talk in enumerate(rng.sample(talks, k=rng.randrange(1, len(talks) + 1))):
            prompt = model.prepare(talk.next_prompt(), session=talk.session, tenant="")
            job = make_job(
                prompt.tokens,
                id=f"{number}-{position}",
                session=talk.session,
                bucket=prompt.bucket,
                max_tokens=rng.randrange(1, 7),
                use_snapshots=rng.random() > 0.05,
            )
            jobs.append((talk, replace(job, boundaries=prompt.boundaries)))
        room.run(*(job for _, job in jobs))
        for talk, job in jobs:
            assert room.reply(job) == expected(job.tokens, job.max_tokens), (number, job.id)
            talk.hear(loaded.tokenizer.decode(room.reply(job)))
            turns += 1
        if rng.random() < 0.04:
            room.store.clear()

    books = room.tally.read()
    assert turns > 100
    assert books.lookups["hit"] > turns // 8
    assert sum(books.inserts.values()) - sum(books.removals.values()) == books.occupancy.entries
    for reason in (Removal.SUPERSEDED, Removal.LRU_ENTRIES, Removal.CLEARED):
        assert books.removals[reason] > 0, reason
