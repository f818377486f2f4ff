"""A radix tree of token vectors that remembers the order of use. It knows no sessions, limits or time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic

from app.snapshots.entry import BYTES_PER_TOKEN, Entry, P, TokenBytes
from app.vocabulary import Origin


@dataclass(slots=True, eq=False)
class Node(Generic[P]):
    """A token vector: the edges from the root to here, joined.

    Every node but the root holds an entry or has at least two children, so a tree of n entries has fewer
    than 2n nodes. A node that holds an entry stays the same object until that entry is removed.

    `children` are keyed by their edge's first token and stand in the order of their last use. That this
    order outlives removals is the store's doing: it removes the least recently used entries, or prefixes
    of the one just used, and neither can leave an older subtree behind a younger one.
    """

    edge: bytes
    parent: "Node[P] | None"
    children: "dict[bytes, Node[P]]" = field(default_factory=dict)
    entries: dict[Origin, Entry[P]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Walk(Generic[P]):
    """What a tree holds along a token vector.

    `prefixes`: entries that are strict prefixes of the vector, shortest first. `equal`: entries of the
    very vector. `common_tokens`: the longest prefix that any entry shares with the vector. `beyond`: of
    the entries that share it and are no strict prefixes, the most recently used, and then, where it is
    another, the shortest of those that it continues.
    """

    prefixes: tuple[Entry[P], ...]
    equal: tuple[Entry[P], ...]
    common_tokens: int
    beyond: tuple[Entry[P], ...]


class PrefixTree(Generic[P]):
    """Token vectors with at most one entry of each origin at each."""

    def __init__(self) -> None:
        self._root: Node[P] = Node(b"", None)

    def __bool__(self) -> bool:
        return bool(self._root.children)

    def walk(self, tokens: TokenBytes) -> Walk[P]:
        """Compare `tokens` with all entries at once: O(its tokens) of memcmp, and a step for each node."""
        node, at = self._root, 0
        prefixes: list[Entry[P]] = []
        while at < len(tokens):
            child = node.children.get(tokens[at : at + BYTES_PER_TOKEN])
            if child is None:
                beyond = _beyond(_last_child(node)) if at else ()
                return Walk(tuple(prefixes), (), at // BYTES_PER_TOKEN, beyond)
            if not tokens.startswith(child.edge, at):
                common = at + _common_bytes(child.edge, tokens, at)
                return Walk(tuple(prefixes), (), common // BYTES_PER_TOKEN, _beyond(child))
            node, at = child, at + len(child.edge)
            if at < len(tokens):
                prefixes.extend(node.entries.values())
        return Walk(tuple(prefixes), tuple(node.entries.values()), at // BYTES_PER_TOKEN, _beyond(node))

    def add(self, tokens: TokenBytes, entry: Entry[P]) -> Node[P]:
        """Put `entry` at `tokens`, as the most recently used; the node is what `touch` and `remove` take."""
        node, at = self._root, 0
        while at < len(tokens):
            key = tokens[at : at + BYTES_PER_TOKEN]
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = Node(tokens[at:], node)
            elif not tokens.startswith(child.edge, at):
                child = _split(child, _common_bytes(child.edge, tokens, at))
            node, at = child, at + len(child.edge)
        node.entries[entry.facts.origin] = entry
        self.touch(node)
        return node

    def touch(self, node: Node[P]) -> None:
        """Make what is at `node` the most recently used, in O(depth)."""
        while node.parent is not None:
            siblings = node.parent.children
            key = _key(node)
            siblings[key] = siblings.pop(key)
            node = node.parent

    def entries(self) -> Iterator[Entry[P]]:
        """Every entry, in no order that means anything."""
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            yield from node.entries.values()
            nodes.extend(node.children.values())

    def tokens(self, node: Node[P]) -> TokenBytes:
        """The token vector that `node` stands for."""
        edges = []
        while node.parent is not None:
            edges.append(node.edge)
            node = node.parent
        return TokenBytes(b"".join(reversed(edges)))

    def remove(self, node: Node[P], origin: Origin) -> None:
        """Take out the entry of `origin` at `node`, and the node with it if that was its last."""
        del node.entries[origin]
        if node.entries:
            return
        if node.children or node.parent is None:
            _join(node)
        else:
            del node.parent.children[_key(node)]
            _join(node.parent)


def _key(node: Node[P]) -> bytes:
    return node.edge[:BYTES_PER_TOKEN]


def _last_child(node: Node[P]) -> Node[P] | None:
    return next(reversed(node.children.values()), None)


def _beyond(node: Node[P] | None) -> tuple[Entry[P], ...]:
    """`Walk.beyond` of the entries at or below `node`, following the child last used at every step."""
    path: list[Entry[P]] = []
    while node is not None:
        if node.entries:
            path.append(max(node.entries.values(), key=_use))
        node = _last_child(node)
    if not path:
        return ()
    shortest, latest = path[0], max(path, key=_use)
    return (latest,) if latest is shortest else (latest, shortest)


def _use(entry: Entry[P]) -> int:
    return entry.used


def _common_bytes(edge: bytes, tokens: bytes, at: int) -> int:
    """How many bytes of whole tokens `edge` shares with `tokens` from `at` on.

    Bisection, because Python tells of two byte strings whether they are equal but not where they differ.
    """
    # Invariant: the first `same` bytes are equal, and more than `most` are not.
    same, most = 0, min(len(edge), len(tokens) - at)
    while same < most:
        middle = (same + most + 1) // 2
        if tokens.startswith(edge[same:middle], at + same):
            same = middle
        else:
            most = middle - 1
    return same - same % BYTES_PER_TOKEN


def _split(node: Node[P], at_bytes: int) -> Node[P]:
    """Cut the edge of `node` after `at_bytes`; the new node above it takes its place among its siblings."""
    assert node.parent is not None, "the root has no edge"
    above = Node(node.edge[:at_bytes], node.parent)
    node.parent.children[_key(node)] = above
    node.edge, node.parent = node.edge[at_bytes:], above
    above.children[_key(node)] = node
    return above


def _join(node: Node[P]) -> None:
    """Take `node` out if it only connects its parent to one child; the child keeps its place and identity."""
    if node.parent is None or node.entries or len(node.children) > 1:
        return
    child = next(iter(node.children.values()))
    node.parent.children[_key(node)] = child
    child.edge, child.parent = node.edge + child.edge, node.parent
