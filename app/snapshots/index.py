"""Which entries a request may be compared with: one prefix tree for each bucket and session."""

from typing import Any, Generic, NamedTuple

from app.snapshots.entry import Bucket, Entry, P, TokenBytes
from app.snapshots.tree import Node, PrefixTree, Walk
from app.vocabulary import Origin


class _Place(NamedTuple):
    """The entries of one tree. `shared`: system entries, which all sessions of the bucket may use."""

    bucket: Bucket
    session: str | None
    shared: bool


class Index(Generic[P]):
    """Finds entries by their tokens. Empty trees are dropped: dead sessions leave nothing behind."""

    def __init__(self) -> None:
        self._trees: dict[_Place, PrefixTree[P]] = {}
        self._nodes: dict[int, Node[P]] = {}
        # tenant and session → the buckets it has entries in, the one last inserted into last.
        self._buckets: dict[tuple[str, str], dict[Bucket, None]] = {}

    def own(self, bucket: Bucket, session: str | None, tokens: TokenBytes) -> Walk[P]:
        """Compare `tokens` with the entries of this very session."""
        return self._walk(_Place(bucket, session, shared=False), tokens)

    def shared(self, bucket: Bucket, tokens: TokenBytes) -> Walk[P]:
        """Compare `tokens` with the bucket's system entries."""
        return self._walk(_Place(bucket, None, shared=True), tokens)

    def around(self, entry: Entry[Any], tokens: TokenBytes) -> Walk[P]:
        """Compare `tokens` with the entries among which `entry` belongs."""
        return self._walk(_place(entry), tokens)

    def elsewhere(self, bucket: Bucket, session: str | None, tokens: TokenBytes) -> int:
        """How many tokens the session's entries in another bucket share with `tokens`.

        Only the bucket of the same tenant that the session inserted into last is asked: the one it was
        talking in before its model, template, tools or media changed. So it costs one walk.
        """
        if session is None:
            return 0
        for other in reversed(self._buckets.get((bucket.tenant, session), {})):
            if other != bucket:
                return self.own(other, session, tokens).common_tokens
        return 0

    def of_session(self, tenant: str, session: str) -> list[Entry[P]]:
        """Every entry of that session, in whichever bucket."""
        buckets = self._buckets.get((tenant, session), {})
        trees = (self._trees[_Place(bucket, session, shared=False)] for bucket in buckets)
        return [entry for tree in trees for entry in tree.entries()]

    def add(self, entry: Entry[P], tokens: TokenBytes) -> None:
        """File `entry` under its tokens, as the most recently used. The place must be free."""
        place = _place(entry)
        tree = self._trees.get(place)
        if tree is None:
            tree = self._trees[place] = PrefixTree()
        self._nodes[entry.facts.id] = tree.add(tokens, entry)
        if place.session is not None:
            buckets = self._buckets.setdefault((place.bucket.tenant, place.session), {})
            buckets.pop(place.bucket, None)
            buckets[place.bucket] = None

    def touch(self, entry: Entry[P]) -> None:
        """Make `entry` the most recently used."""
        self._trees[_place(entry)].touch(self._nodes[entry.facts.id])

    def tokens(self, entry: Entry[P]) -> TokenBytes:
        """The token vector of `entry`, which must be here."""
        return self._trees[_place(entry)].tokens(self._nodes[entry.facts.id])

    def remove(self, entry: Entry[P]) -> None:
        """Forget `entry`, which must be here."""
        place = _place(entry)
        tree = self._trees[place]
        tree.remove(self._nodes.pop(entry.facts.id), entry.facts.origin)
        if tree:
            return
        del self._trees[place]
        if place.session is not None:
            key = (place.bucket.tenant, place.session)
            del self._buckets[key][place.bucket]
            if not self._buckets[key]:
                del self._buckets[key]

    def _walk(self, place: _Place, tokens: TokenBytes) -> Walk[P]:
        tree = self._trees.get(place)
        return tree.walk(tokens) if tree is not None else Walk((), (), 0, ())


def _place(entry: Entry[Any]) -> _Place:
    return _Place(entry.bucket, entry.facts.session, shared=entry.facts.origin is Origin.SYSTEM)
