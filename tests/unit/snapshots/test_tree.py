"""The prefix tree: comparisons in whole tokens, no node without a purpose, order of use kept."""

from collections.abc import Iterable

import pytest

from app.events import EntryFacts
from app.snapshots.entry import Entry, pack
from app.snapshots.tree import Node, PrefixTree
from app.vocabulary import Origin
from tests.support.snapshots import BUCKET, Block


class Planted:
    """A tree, and the nodes of what was put in it, by id."""

    def __init__(self) -> None:
        self.tree: PrefixTree[Block] = PrefixTree()
        self.nodes: dict[int, Node[Block]] = {}
        self.entries: dict[int, Entry[Block]] = {}
        self.uses = 0

    def put(self, tokens: Iterable[int], origin: Origin = Origin.BOUNDARY) -> int:
        vector = list(tokens)
        entry_id = len(self.entries) + 1
        facts = EntryFacts(entry_id, origin, "s", len(vector), 1, 1)
        self.uses += 1
        entry = Entry(facts, BUCKET, Block(), 0.0, None, 0.0, used=self.uses)
        self.entries[entry_id] = entry
        self.nodes[entry_id] = self.tree.add(pack(vector), entry)
        return entry_id

    def touch(self, entry_id: int) -> None:
        self.uses += 1
        self.entries[entry_id].used = self.uses
        self.tree.touch(self.nodes[entry_id])

    def remove(self, entry_id: int) -> None:
        self.tree.remove(self.nodes[entry_id], self.entries[entry_id].facts.origin)

    def walk(self, tokens: Iterable[int]) -> tuple[list[int], list[int], int, int | None]:
        """(strict prefixes, equal, common tokens, most recently used beyond), entries by id."""
        prefixes, equal, common, beyond = self.walk_all(tokens)
        return prefixes, equal, common, beyond[0] if beyond else None

    def walk_all(self, tokens: Iterable[int]) -> tuple[list[int], list[int], int, list[int]]:
        """The same, with all that is named beyond."""
        walk = self.tree.walk(pack(tokens))
        return (
            [entry.facts.id for entry in walk.prefixes],
            [entry.facts.id for entry in walk.equal],
            walk.common_tokens,
            [entry.facts.id for entry in walk.beyond],
        )

    def edges(self) -> list[int]:
        """Tokens on every edge, depth first."""

        def below(node: Node[Block]) -> list[int]:
            return [
                length for child in node.children.values() for length in (len(child.edge) // 4, *below(child))
            ]

        return below(self.tree._root)


def test_a_walk_tells_prefixes_equals_and_what_lies_beyond() -> None:
    """Strict prefixes come shortest first; an equal vector is no prefix, and lies beyond."""
    planted = Planted()
    short, long, equal = planted.put([1]), planted.put([1, 2]), planted.put([1, 2, 3])

    assert planted.walk([1, 2, 3]) == ([short, long], [equal], 3, equal)
    assert planted.walk([1, 2]) == ([short], [long], 2, equal)
    assert planted.walk([1, 2, 3, 4]) == ([short, long, equal], [], 3, None)


def test_an_empty_tree_shares_nothing() -> None:
    """Without entries, and without a common first token, there is neither prefix nor beyond."""
    planted = Planted()
    assert planted.walk([1]) == ([], [], 0, None)

    planted.put([2, 1])
    assert planted.walk([1]) == ([], [], 0, None)


@pytest.mark.parametrize("common", [1, 2, 3, 1_000, 4_094, 4_095])
def test_the_common_prefix_of_a_long_edge_is_exact(common: int) -> None:
    """Wherever the request leaves an edge, the number of common tokens is right."""
    planted = Planted()
    stored = planted.put(range(1, 4_097))

    request = [*range(1, common + 1), 9_999, *range(common + 2, 5_000)]
    assert planted.walk(request) == ([], [], common, stored)
    assert planted.walk(request[:common]) == ([], [], common, stored)


def test_tokens_that_share_bytes_are_not_equal() -> None:
    """A token that begins with the same bytes as another is a different token."""
    planted = Planted()
    stored = planted.put([5, 0x01020304, 6])

    assert planted.walk([5, 0x01020305, 6]) == ([], [], 1, stored)
    assert planted.walk([5, 0x04020304, 6]) == ([], [], 1, stored)


def test_a_split_edge_grows_together_again() -> None:
    """A fork cuts an edge in two; when a branch is gone, the rest is one edge as before."""
    planted = Planted()
    planted.put([1, 2, 3, 4])
    assert planted.edges() == [4]

    fork = planted.put([1, 2, 9])
    assert planted.edges() == [2, 2, 1]

    planted.remove(fork)
    assert planted.edges() == [4]


def test_a_prefix_leaves_its_continuation_whole() -> None:
    """Taking out an entry in the middle of an edge joins the two halves; the rest is found as before."""
    planted = Planted()
    middle, end = planted.put([1, 2]), planted.put([1, 2, 3])
    planted.remove(middle)

    assert planted.edges() == [3]
    assert planted.walk([1, 2, 3, 4]) == ([end], [], 3, None)
    planted.remove(end)
    assert not planted.tree


def test_a_vector_holds_an_entry_of_each_origin() -> None:
    """Entries of one vector and several origins share a node, which goes with the last of them."""
    planted = Planted()
    boundary = planted.put([1, 2], Origin.BOUNDARY)
    completion = planted.put([1, 2], Origin.COMPLETION)

    assert planted.walk([1, 2, 3]) == ([boundary, completion], [], 2, None)
    planted.remove(boundary)
    assert planted.walk([1, 2, 3]) == ([completion], [], 2, None)
    planted.remove(completion)
    assert not planted.tree


def test_beyond_is_the_entry_used_last() -> None:
    """Of all entries that diverge at one point the most recently used is named, at whatever depth."""
    planted = Planted()
    first = planted.put([1, 2, 3, 3, 3])
    second = planted.put([1, 2, 4, 4])
    deep = planted.put([1, 2, 4, 4, 5, 6])
    assert planted.walk([1, 2, 9])[3] == deep

    planted.touch(second)
    assert planted.walk([1, 2, 9])[3] == second
    planted.touch(first)
    assert planted.walk([1, 2, 9])[3] == first
    assert planted.walk([1, 2, 4, 9])[3] == second


def test_beyond_names_what_the_entry_used_last_began_with() -> None:
    """After the entry used last comes the shortest that it continues, but no other branch."""
    planted = Planted()
    shortest = planted.put([1, 2, 4])
    middle = planted.put([1, 2, 4, 4])
    longest = planted.put([1, 2, 4, 4, 5])
    assert planted.walk_all([1, 2, 9])[3] == [longest, shortest]
    assert planted.walk_all([1, 2, 4, 4])[3] == [longest, middle]

    planted.touch(shortest)
    assert planted.walk_all([1, 2, 9])[3] == [shortest]
    branch = planted.put([1, 2, 3])
    assert planted.walk_all([1, 2, 9])[3] == [branch]


def test_beyond_leaves_out_what_diverges_earlier() -> None:
    """Only entries that share the longest prefix lie beyond; one that parted before does not."""
    planted = Planted()
    planted.put([1, 2, 3, 4])
    planted.put([1, 8])

    assert planted.walk([1, 2, 3, 9]) == ([], [], 3, 1)
