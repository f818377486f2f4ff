"""The snapshot store beside one memcmp of the request, and beside mlx-lm's `LRUPromptCache`.

`python -m benchmarks.store_bench [--entries N] [--repeats N] [--peer-entries N] [--json FILE]`

A request has 100,000 tokens and an entry 32,768, but where a case says otherwise. Every repeat asks about
another entry, so that nothing is warm because it was asked just before. Store and memcmp are timed in
turn; mlx-lm, which needs seconds for some cases, is asked three times a case.

mlx-lm keeps a Python dict for every token, some 8 MB an entry, so its cache holds `--peer-entries` only.
That is the easier task; its numbers are as measured there, and nothing is scaled up.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from mlx_lm.models.cache import LRUPromptCache

from app.bench.machine import describe_machine, spread
from app.snapshots.entry import BYTES_PER_TOKEN, Bucket, TokenBytes, pack
from app.snapshots.limits import Limits
from app.snapshots.store import SnapshotStore
from app.vocabulary import Origin

BUCKET = Bucket(model="bench", cache_signature="kv")
ENTRY_TOKENS = 32_768
REQUEST_TOKENS = 100_000
SYSTEM_TOKENS = 2_048
UNSTORED_TOKEN = 65_536
PEER_REPEATS = 3


class Trimmable:
    """Stands for model state that can be truncated; of any size, with nothing in it to copy.

    The store asks `nbytes`, `arrays` and `can_truncate_to`; mlx-lm `nbytes`, `is_trimmable` and `trim`.
    """

    nbytes = 1
    arrays = 1

    def can_truncate_to(self, n_tokens: int) -> bool:
        return n_tokens > 0

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n_tokens: int) -> int:
        return n_tokens


Store = SnapshotStore[Trimmable]


@dataclass(frozen=True)
class Question:
    """One repeat of a case: who asks, with which tokens, and how many of them are to be reused."""

    session: str
    tokens: TokenBytes
    reused_tokens: int


@dataclass(frozen=True)
class Case:
    """What is timed: one call on the store, and the same on mlx-lm's cache, for each question."""

    name: str
    ask: Callable[[Store, Question], None]
    ask_peer: Callable[[LRUPromptCache, Question, list[int]], None]
    questions: Sequence[Question]


@dataclass(frozen=True)
class Row:
    """A case's measurements in seconds. Ratios to the memcmp are taken repeat by repeat."""

    case: str
    store_entries: int
    store: dict[str, float]
    memcmp: dict[str, float]
    store_to_memcmp: dict[str, float]
    peer_entries: int
    peer: dict[str, float]
    peer_to_store: float


def look_up(store: Store, question: Question) -> None:
    """A lookup with the hit that ends it."""
    found = store.find(bucket=BUCKET, session=question.session, tokens=question.tokens)
    store.hit(found, found.candidates[0])
    assert found.candidates[0].use_tokens == question.reused_tokens


def look_up_peer(peer: LRUPromptCache, question: Question, ids: list[int]) -> None:
    # The session is part of the key, as the nearest thing that this cache has to one.
    _, rest = peer.fetch_nearest_cache(question.session, ids)
    assert len(ids) - len(rest) == question.reused_tokens


def insert(store: Store, question: Question) -> None:
    refused = store.insert(
        bucket=BUCKET,
        session=question.session,
        origin=Origin.BOUNDARY,
        tokens=question.tokens,
        payload=Trimmable(),
    )
    assert refused is None


def insert_peer(peer: LRUPromptCache, question: Question, ids: list[int]) -> None:
    peer.insert_cache(question.session, ids, [Trimmable()])


def random_tokens(draw: Random, n_tokens: int) -> TokenBytes:
    """Random token ids below `UNSTORED_TOKEN`."""
    return pack(memoryview(draw.randbytes(2 * n_tokens)).cast("H"))


def ids_of(tokens: TokenBytes) -> list[int]:
    return memoryview(tokens).cast("I").tolist()


def first(tokens: TokenBytes, n_tokens: int) -> TokenBytes:
    return TokenBytes(tokens[: n_tokens * BYTES_PER_TOKEN])


def request(draw: Random, stored: TokenBytes) -> TokenBytes:
    """A request of full length that begins with `stored` and goes on as no entry does."""
    rest = random_tokens(draw, REQUEST_TOKENS - len(stored) // BYTES_PER_TOKEN - 1)
    return TokenBytes(stored + pack([UNSTORED_TOKEN]) + rest)


def fill(entries: Sequence[Question], peer_entries: int) -> tuple[Store, LRUPromptCache]:
    """A store with all of `entries`, exactly full, and a peer with the first few of them."""
    store = Store(
        Limits(capacity_bytes=2**40, max_entries=len(entries), ttl_seconds=3_600, min_prefix_tokens=32)
    )
    peer = LRUPromptCache(max_size=peer_entries)
    for number, entry in enumerate(entries):
        insert(store, entry)
        if number < peer_entries:
            insert_peer(peer, entry, ids_of(entry.tokens))
    assert store.occupancy().entries == len(entries)
    assert len(peer) == peer_entries
    return store, peer


def many_sessions(draw: Random, entries: int, repeats: int, peer_entries: int) -> Iterator[Row]:
    """One conversation a session: the ordinary life of a server."""
    stored = [
        Question(f"session {n}", random_tokens(draw, ENTRY_TOKENS), ENTRY_TOKENS) for n in range(entries)
    ]
    store, peer = fill(stored, peer_entries)
    asked = stored[:repeats]
    half = ENTRY_TOKENS // 2
    grown = [Question(q.session, request(draw, q.tokens), ENTRY_TOKENS) for q in asked]
    whole = REQUEST_TOKENS - 1
    cases = (
        Case("own session, 32k reused", look_up, look_up_peer, grown),
        Case(
            "own session, diverges at 16k",
            look_up,
            look_up_peer,
            [Question(q.session, request(draw, first(q.tokens, half)), half) for q in asked],
        ),
        Case(
            "insert 100k, supersedes 32k",
            insert,
            insert_peer,
            [Question(q.session, first(q.tokens, whole), 0) for q in grown],
        ),
        Case(
            "own session, 100k reused",
            look_up,
            look_up_peer,
            [Question(q.session, q.tokens, whole) for q in grown],
        ),
    )
    yield from (measure(case, store, peer) for case in cases)


def one_session(draw: Random, entries: int, repeats: int, peer_entries: int) -> Iterator[Row]:
    """All entries in one session behind one system prompt: clients that name no session."""
    system = random_tokens(draw, SYSTEM_TOKENS)
    rest_tokens = ENTRY_TOKENS - SYSTEM_TOKENS
    stored = [
        Question("all", TokenBytes(system + random_tokens(draw, rest_tokens)), 0) for _ in range(entries)
    ]
    store, peer = fill(stored, peer_entries)
    # Oldest first: the entries that the peer holds, and that no eviction reaches before they are asked.
    asked = stored[:repeats]
    cases = (
        Case(
            "shared session, 32k reused",
            look_up,
            look_up_peer,
            [Question("all", request(draw, q.tokens), ENTRY_TOKENS) for q in asked],
        ),
        Case(
            "shared session, diverges at 2k",
            look_up,
            look_up_peer,
            [Question("all", request(draw, system), SYSTEM_TOKENS) for _ in asked],
        ),
        Case(
            "insert 32k beside all, evicts one",
            insert,
            insert_peer,
            [
                Question("all", TokenBytes(system + random_tokens(draw, rest_tokens)), 0)
                for _ in range(repeats)
            ],
        ),
    )
    yield from (measure(case, store, peer) for case in cases)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(case: Case, store: Store, peer: LRUPromptCache) -> Row:
    """Time a case. The collector is off, as for `timeit`: its pauses belong to the peer's many dicts."""
    ours: list[float] = []
    memcmp: list[float] = []
    # All copies before the first measurement, so that the memcmp finds its tokens no warmer than the store.
    copies = [bytes(bytearray(question.tokens)) for question in case.questions]
    gc.collect()
    gc.disable()
    for question, same in zip(case.questions, copies, strict=True):
        memcmp.append(seconds(lambda: same == question.tokens))  # noqa: B023 - called at once
        ours.append(seconds(lambda: case.ask(store, question)))  # noqa: B023
    theirs: list[float] = []
    for question in case.questions[:PEER_REPEATS]:
        ids = ids_of(question.tokens)
        theirs.append(seconds(lambda: case.ask_peer(peer, question, ids)))  # noqa: B023
    gc.enable()
    return Row(
        case=case.name,
        store_entries=store.occupancy().entries,
        store=spread(ours),
        memcmp=spread(memcmp),
        store_to_memcmp=spread([one / other for one, other in zip(ours, memcmp, strict=True)]),
        peer_entries=len(peer),
        peer=spread(theirs),
        peer_to_store=statistics.median(theirs) / statistics.median(ours),
    )


def print_table(rows: Sequence[Row]) -> None:
    header = ("case", "store", "memcmp", "store/memcmp", "mlx-lm", "of entries", "mlx-lm/store")
    print("{:<36}{:>12}{:>12}{:>14}{:>14}{:>12}{:>14}".format(*header))
    for row in rows:
        print(
            f"{row.case:<36}"
            f"{row.store['median'] * 1e6:>9.1f} µs"
            f"{row.memcmp['median'] * 1e6:>9.1f} µs"
            f"{row.store_to_memcmp['median']:>14.2f}"
            f"{row.peer['median'] * 1e3:>11.2f} ms"
            f"{row.peer_entries:>6}/{row.store_entries}"
            f"{row.peer_to_store:>14,.0f}"
        )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="store_bench", description=__doc__)
    parser.add_argument("--entries", type=int, default=4_096, help="entries in the store")
    parser.add_argument("--repeats", type=int, default=30, help="questions a case")
    parser.add_argument("--peer-entries", type=int, default=4, help="entries in mlx-lm's cache")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/store_bench.json"))
    options = parser.parse_args(arguments)
    if not PEER_REPEATS <= options.peer_entries <= options.repeats <= options.entries:
        parser.error(f"it takes {PEER_REPEATS} <= --peer-entries <= --repeats <= --entries")
    rows: list[Row] = []
    for shape in (many_sessions, one_session):
        rows += shape(Random(1), options.entries, options.repeats, options.peer_entries)
    print_table(rows)
    result = {
        "benchmark": "store_bench",
        "machine": describe_machine(),
        "entries": options.entries,
        "entry_tokens": ENTRY_TOKENS,
        "request_tokens": REQUEST_TOKENS,
        "repeats": options.repeats,
        "peer_repeats": PEER_REPEATS,
        "rows": [asdict(row) for row in rows],
    }
    options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
