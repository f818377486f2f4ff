"""Six hours of a server: enough memory at first, then a client that rewrites, then too many talks.

It plays the rules of the store in their simplest form, so that the numbers fit together: what was put in
is there, or has left.
"""

import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.telemetry import catalogue as c
from app.telemetry.label_values import DEPARTURES, Capability
from tests.ops.dashboards.book import Book, Sample

STEP_SECONDS = 60
HOURS = 6

CAPACITY_BYTES = 16 * 2**30
MEMORY_LIMIT_BYTES = 48 * 2**30
WEIGHTS_BYTES = 15 * 2**30
AVAILABLE_BYTES = MEMORY_LIMIT_BYTES - WEIGHTS_BYTES - 4 * 2**30
BYTES_A_TOKEN = 100_000
MAX_ENTRIES = 512
TTL_SECONDS = 7200
MAX_RUNNING, MAX_WAITING = 8, 64
CPU_SHARE = 0.6
GHOST_FACTORS = (("1.5x", 0.5), ("2x", 1.0), ("4x", 3.0))


@dataclass
class Talk:
    """A conversation: session and branch, how long it is, and when its next turn comes."""

    name: tuple[int, int]
    next_second: float
    tokens: int
    turns_left: int
    rewrites: bool = False


@dataclass
class Entry:
    """One snapshot in the store."""

    tokens: int
    last_used: float
    hits: int = 0

    @property
    def nbytes(self) -> int:
        return self.tokens * BYTES_A_TOKEN


@dataclass
class Server:
    """One process: its book begins at zero."""

    started: float
    digest: str
    book: Book = field(default_factory=Book)
    store: OrderedDict[tuple[int, int], Entry] = field(default_factory=OrderedDict)
    evicted: OrderedDict[tuple[int, int], tuple[int, float]] = field(default_factory=OrderedDict)
    cpu_seconds: float = 0

    def __post_init__(self) -> None:
        book = self.book
        book.put(c.BUILD, 1, "1.2.3", "3.11.9", "0.32.4", "0.32.2")
        book.put(c.CONFIG, 1, self.digest)
        for series, value in (
            (c.CAPACITY_BYTES, CAPACITY_BYTES),
            (c.AVAILABLE_BYTES, AVAILABLE_BYTES),
            (c.MAX_ENTRIES, MAX_ENTRIES),
            (c.TTL_SECONDS, TTL_SECONDS),
            (c.MAX_RUNNING, MAX_RUNNING),
            (c.MAX_WAITING, MAX_WAITING),
        ):
            book.put(series, value)
        book.put(c.DEVICE_MEMORY, MEMORY_LIMIT_BYTES, "limit")

    def load_model(self) -> None:
        """The model is there; its kinds of state can be cut back, and batched."""
        self.book.put(c.MODEL, 1, "demo-8b-4bit", "llama", "KVCache")
        for capability in Capability:
            self.book.put(c.CAPABILITY, 1, capability.value)

    @property
    def held_bytes(self) -> int:
        return sum(entry.nbytes for entry in self.store.values())

    def remove(self, name: tuple[int, int], reason: str, now: float) -> None:
        """An entry leaves."""
        entry = self.store.pop(name)
        self.book.add(c.REMOVALS, 1, reason)
        self.book.add(c.REMOVED_BYTES, entry.nbytes, reason)
        self.book.observe(c.IDLE_BEFORE_REMOVAL, now - entry.last_used, reason)
        cause = next(cause for known, cause in DEPARTURES.items() if known.value == reason)
        self.book.observe(c.ENTRY_HITS, entry.hits, cause.value)
        if reason == "lru_bytes":
            self.evicted[name] = (entry.nbytes, now)
            self.evicted.move_to_end(name)

    def ghost(self, name: tuple[int, int]) -> None:
        """Count with which capacity an evicted entry would still be there."""
        later = list(self.evicted.items())
        names = [each for each, _ in later]
        if name not in names:
            return
        behind = sum(nbytes for _, (nbytes, _) in later[names.index(name) :])
        for label, more in GHOST_FACTORS:
            if behind <= more * CAPACITY_BYTES:
                self.book.add(c.GHOST_HITS, 1, label)
        del self.evicted[name]

    def put(self, talk: Talk, now: float) -> None:
        """Store a turn's state: the one before is superseded, others make room."""
        entry = Entry(talk.tokens, now)
        if entry.nbytes > CAPACITY_BYTES:
            self.book.add(c.REJECTIONS, 1, "oversized")
            return
        if talk.name in self.store:
            self.remove(talk.name, "superseded", now)
        self.store[talk.name] = entry
        self.book.add(c.INSERTS, 1, "boundary")
        self.book.add(c.INSERTED_BYTES, entry.nbytes, "boundary")
        self.book.observe(c.SIZE, entry.nbytes)
        self.book.observe(c.PREFIX, entry.tokens)
        self.book.observe(c.CAPTURE, 1e-9 * entry.nbytes / 4)
        while self.held_bytes > CAPACITY_BYTES:
            victim = next(iter(self.store))
            self.remove(victim, "lru_bytes", now)
            if victim[0] == talk.name[0]:
                self.book.add(c.SELF_EVICTIONS)

    def expire(self, now: float) -> None:
        """What was not used for too long goes."""
        for name in [n for n, e in self.store.items() if now - e.last_used >= TTL_SECONDS]:
            self.remove(name, "ttl", now)
        while self.evicted and now - next(iter(self.evicted.values()))[1] >= TTL_SECONDS:
            self.evicted.popitem(last=False)

    def look_up(self, talk: Talk, now: float, *, first: bool) -> int:
        """Count a lookup; the tokens that need not be computed."""
        self.book.observe(c.LOOKUP_TIME, 4e-5)
        entry = self.store.get(talk.name)
        if entry is None:
            self.ghost(talk.name)
            self.book.add(c.LOOKUPS, 1, "empty" if first and not self.store else "no_candidate")
            return 0
        if talk.rewrites:
            self.book.add(c.LOOKUPS, 1, "diverged")
            self.book.observe(c.DIVERGENCE, 700)
            return 0
        self.book.add(c.LOOKUPS, 1, "hit")
        self.book.observe(c.REUSE_GAP, now - entry.last_used)
        self.book.observe(c.RESTORE, 1e-9 * entry.nbytes / 5)
        entry.hits, entry.last_used = entry.hits + 1, now
        self.store.move_to_end(talk.name)
        return entry.tokens

    def answer(self, talk: Talk, now: float, draw: random.Random, load: float, *, first: bool) -> None:
        """One turn, from lookup to the last token."""
        asked = draw.randrange(30, 600)
        prompt = talk.tokens + asked
        reused = self.look_up(talk, now, first=first)
        self.book.add(c.LOOKUP_TOKENS, prompt)
        self.book.add(c.REUSED_TOKENS, reused)
        self.book.add(c.PROMPT_TOKENS, reused, "cached")
        self.book.add(c.PROMPT_TOKENS, prompt - reused, "computed")
        self.book.add(c.PREFILL_TOKENS, prompt - reused)
        queued, prefill = draw.expovariate(2 / load), (prompt - reused) / draw.uniform(350, 450)
        self.book.observe(c.QUEUE, queued)
        self.book.observe(c.PREFILL, prefill)
        self.book.observe(c.TIME_TO_FIRST_TOKEN, queued + prefill, "hit" if reused else "miss")
        reply = draw.randrange(40, 500)
        gap = draw.uniform(0.02, 0.03) * (1 + load / 4)
        for _ in range(0, reply, 10):
            self.book.observe(c.INTER_TOKEN_LATENCY, gap * draw.uniform(0.8, 1.6))
        self.book.add(c.GENERATED_TOKENS, reply)
        self.book.observe(c.DECODE, reply * gap)
        self.book.observe(c.DURATION, queued + prefill + reply * gap)
        outcome = draw.choices(("completed", "cancelled", "failed", "refused"), (970, 20, 3, 7 * load))[0]
        self.book.add(c.REQUESTS, 1, "/v1/chat/completions", outcome)
        self.book.add(c.WARMUPS, 1, draw.choice(("run", "run", "run", "preempted", "covered")))
        self.book.add(c.WARMUP_TOKENS, reply)
        talk.tokens = prompt + reply
        self.put(talk, now)

    def scraped(self, now: float, load: float, draw: random.Random) -> Iterator[Sample]:
        """What is exposed at a moment."""
        book, held = self.book, self.held_bytes
        self.cpu_seconds += STEP_SECONDS * CPU_SHARE * load
        book.put(c.ENTRIES, len(self.store), "boundary")
        book.put(c.BYTES, held, "boundary")
        book.put(c.ARRAYS, 64 * len(self.store))
        book.put(c.RUNNING, min(MAX_RUNNING, round(2 * load)))
        book.put(c.WAITING, max(0, round(3 * load) - MAX_RUNNING))
        book.put(c.LAST_STEP, now - 0.03)
        oldest = min((entry.last_used for entry in self.store.values()), default=now)
        book.put(c.OLDEST_AGE, now - oldest)
        active = len(self.store) + len(self.evicted)
        book.put(c.WANTED_SESSIONS, active)
        wanted = 1.2 * (held + sum(nbytes for nbytes, _ in self.evicted.values()))
        book.put(c.RECOMMENDED_BYTES, min(wanted, AVAILABLE_BYTES))
        used = WEIGHTS_BYTES + held + load * 2**29
        for kind, value in (("active", used), ("cache", 2**30), ("peak", used), ("footprint", used + 2**30)):
            book.put(c.DEVICE_MEMORY, value, kind)
        yield from book.samples()
        yield "process_start_time_seconds", (), self.started
        yield "process_cpu_seconds_total", (), self.cpu_seconds
        yield "process_open_fds", (), 30 + round(4 * load)
        yield "process_max_fds", (), 10240
        yield "process_resident_memory_bytes", (), used
        yield "up", (), 1
        yield "scrape_duration_seconds", (), draw.uniform(0.004, 0.01) * load


def busy_day(begin: float, seed: int, talks_a_minute: float = 0.2) -> Iterator[tuple[float, list[Sample]]]:
    """Scrape after scrape: (unix seconds, samples). `talks_a_minute` begin while it is quiet.

    In the second hour a client rewrites its history; in the third an operator clears the store, and then the
    server is started with other settings; from the fourth on there are more talks than fit.
    """
    draw = random.Random(seed)
    server = Server(begin - 5, digest="3f1c")
    talks: list[Talk] = []
    names = iter(range(10**9))
    for step in range(HOURS * 3600 // STEP_SECONDS):
        now = begin + step * STEP_SECONDS
        hour = step * STEP_SECONDS / 3600
        load = 3.0 if hour >= 3.5 else 1.0
        if step == 2 * 60 + 20:
            for name in list(server.store):
                server.remove(name, "cleared", now)
        if step == 2 * 60 + 50:
            server = Server(now - 20, digest="77ab")
            yield now, list(server.scraped(now, load, draw))
            continue
        if step in {1, 2 * 60 + 51}:
            server.load_model()
        if draw.random() < talks_a_minute * load:
            session, rewrites = next(names), 1 <= hour < 1.8 and draw.random() < 0.7
            # A program that follows two threads in one session.
            for branch in range(draw.choice((1, 1, 2))):
                opening, turns = draw.randrange(500, 4000), draw.randrange(3, 14)
                talks.append(Talk((session, branch), now, opening, turns, rewrites))
        for talk in talks:
            if talk.next_second <= now and talk.turns_left:
                server.answer(talk, now, draw, load, first=talk.tokens < 4000)
                talk.turns_left -= 1
                talk.next_second = now + draw.lognormvariate(5.6, 0.8)
        server.expire(now)
        yield now, list(server.scraped(now, load, draw))


def just_started(begin: float) -> Iterator[tuple[float, list[Sample]]]:
    """Ten minutes of a server that nobody has talked to, from before its model is there."""
    draw = random.Random(0)
    server = Server(begin - 5, digest="3f1c")
    for step in range(10):
        now = begin + step * STEP_SECONDS
        if step == 1:
            server.load_model()
        yield now, list(server.scraped(now, 0.0, draw))
