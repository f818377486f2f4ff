"""One-line mistakes that a store could well contain, each as a text substitution in a copy of its source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Changes = tuple[tuple[str, str, str], ...]
"""(module, text that stands there exactly once, what stands there instead), one or more."""


@dataclass(frozen=True)
class Mutant:
    """The law that is broken, and what it takes to break it."""

    law: str
    changes: Changes
    tenants: bool = False
    """Whether it takes quotas, or what is done to one tenant, to show."""
    limits: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Limits under which it shows more often, where it is seldom seen otherwise."""


ROOMY = {"capacity_bytes": (1_000,), "max_entries": (1_000,), "max_arrays": (None,), "supersede": (True,)}
KEEPING = {**ROOMY, "keep_ancestors": (1, 2), "min_prefix_tokens": (1,)}
DYING = {**KEEPING, "ttl_seconds": (4.0,)}
TIGHT = {
    **ROOMY,
    "max_entries": (2, 3),
    "ttl_seconds": (None,),
    "min_prefix_tokens": (1,),
    "keep_ancestors": (0,),
}


MUTANTS = (
    Mutant(
        "a hit makes its entry the most recently used",
        (
            (
                "holdings",
                "        entry.hits += 1\n",
                """\
        entry.hits += 1
        self._lines[standing].move_to_end(entry.facts.id, last=False)
""",
            ),
        ),
    ),
    Mutant(
        "a hit makes its branch of the tree the most recently used",
        (("holdings", "        self.index.touch(entry)\n", ""),),
    ),
    Mutant(
        "a hit starts the time to live again",
        (("holdings", "        entry.last_used = now\n", ""),),
    ),
    Mutant(
        "an entry unused for exactly the time to live is dead",
        (("limits", "idle_seconds >= self.ttl_seconds", "idle_seconds > self.ttl_seconds"),),
    ),
    Mutant(
        "only strict prefixes are superseded",
        (("tree", "            if at < len(tokens):\n", "            if at <= len(tokens):\n"),),
    ),
    Mutant(
        "an oversized snapshot destroys nothing",
        (
            (
                "arrivals",
                "        if reason is not None:\n",
                "        if reason not in (None, 'oversized'):\n",
            ),
            (
                "arrivals",
                "        self._held.add(entry, tokens)\n",
                """\
        if reason is not None:
            self.refuse(reason, facts, journal, quota=quota)
            return reason
        self._held.add(entry, tokens)
""",
            ),
        ),
    ),
    Mutant(
        "a replaced entry gives its bytes back",
        (
            (
                "arrivals",
                "                self._leaving.remove(equal, Removal.REPLACED, journal)\n",
                """\
                self._leaving.remove(equal, Removal.REPLACED, journal)
                self._held.nbytes += equal.facts.nbytes
""",
            ),
        ),
    ),
    Mutant(
        "an equal vector of the same origin is replaced",
        (("arrivals", "            if equal.facts.origin is origin:\n", "            if False:\n"),),
    ),
    Mutant(
        "an entry of another origin is superseded only by what can be truncated to it",
        (
            (
                "succession",
                "each.contained or each.entry.facts.origin is newcomer.facts.origin",
                "True",
            ),
        ),
    ),
    Mutant(
        "what can be truncated to an entry of another origin supersedes it",
        (("succession", "each.contained or ", ""),),
    ),
    Mutant(
        "without a session nothing is superseded",
        (("succession", "    if newcomer.facts.session is None:\n        return []\n", ""),),
    ),
    Mutant(
        "a newcomer's own boundary is evicted last",
        (("succession", "    if first is not boundary:\n", "    if True:\n"),),
    ),
    Mutant(
        "a newcomer is never evicted by its own insert",
        (("succession", " if entry is not newcomer)", ")"),),
    ),
    Mutant(
        "a self-eviction is one in the same bucket",
        (("succession", " and one.bucket == other.bucket", ""),),
    ),
    Mutant(
        "what has no session evicts no state of its own",
        (("succession", "session is not None and session ==", "session =="),),
    ),
    Mutant(
        "room is made from expired entries first",
        (
            (
                "arrivals",
                "(SnapshotInserted(entry.facts))\n        self._leaving.remove_expired(journal)\n",
                "(SnapshotInserted(entry.facts))\n",
            ),
        ),
    ),
    Mutant(
        "one token of the request is left to run",
        (("lookup", "token_count(tokens) - 1", "token_count(tokens)"),),
    ),
    Mutant(
        "system entries serve every session of the bucket",
        (("index", "shared=entry.facts.origin is Origin.SYSTEM", "shared=False"),),
    ),
    Mutant(
        "where the state used last cannot be cut back, what it continues is asked",
        (("tree", "else (latest, shortest)", "else (latest,)"),),
    ),
    Mutant(
        "of what cannot be cut back, the shortest that it continues is asked",
        (("tree", "path[0], max(path", "path[-1], max(path"),),
    ),
    Mutant(
        "of equally useful candidates the one used last comes first",
        (("lookup", "self.use_tokens == self.entry.facts.tokens, self.entry.used)", "True, 0)"),),
    ),
    Mutant(
        "a truncated state is at least as long as the shortest that is stored",
        (("lookup", "if each.use_tokens >= limits.min_prefix_tokens", "if each.use_tokens"),),
    ),
    Mutant(
        "a superseded ancestor stays while its session may keep it",
        (("succession", "boundaries[max(0, len(boundaries) - most) :]", "[]"),),
    ),
    Mutant(
        "of several superseded boundaries the longest stay",
        (("succession", "boundaries[max(0, len(boundaries) - most) :]", "boundaries[:most]"),),
        limits=KEEPING,
    ),
    Mutant(
        "only boundaries stay as ancestors",
        (("succession", "old.facts.origin is Origin.BOUNDARY and not contained", "not contained"),),
        limits=KEEPING,
    ),
    Mutant(
        "what the newcomer can be cut back to does not stay beside it",
        (("succession", " and not contained and", " and"),),
    ),
    Mutant(
        "an ancestor's time runs from when it was superseded, not from each later turn",
        (("succession", " and old.standing is Standing.LIVE\n    ]", "\n    ]"),),
        limits=DYING,
    ),
    Mutant(
        "a session keeps no more ancestors than it may",
        (("departures", "kept[: max(0, len(kept) - most)]", "kept[:0]"),),
    ),
    Mutant(
        "the oldest ancestor goes first",
        (("departures", "kept[: max(0, len(kept) - most)]", "kept[most:]"),),
        limits=KEEPING,
    ),
    Mutant(
        "ancestors go before all else",
        (("entry", "    KEPT = 0\n    LIVE = 1\n", "    LIVE = 0\n    KEPT = 1\n"),),
    ),
    Mutant(
        "an ancestor that makes room leaves as superseded",
        (("departures", "        if victim.standing is Standing.KEPT:\n", "        if False:\n"),),
    ),
    Mutant(
        "an ancestor that is hit is live again",
        (("succession", "    if not whole:\n", "    if not whole or entry.standing is Standing.KEPT:\n"),),
    ),
    Mutant(
        "a state that was cut for a request is not raised by it",
        (("succession", "    if not whole:\n", "    if False:\n"),),
        limits=KEEPING,
    ),
    Mutant(
        "an anchor that is hit goes last",
        (("succession", "Standing.ANCHOR if entry.facts.origin is Origin.SYSTEM else ", ""),),
    ),
    Mutant(
        "an anchor that was never hit goes like any other entry",
        (
            (
                "holdings",
                "        self._line_up(entry)\n        self.index.add(entry, tokens)\n",
                """\
        entry.standing = Standing.ANCHOR if entry.facts.origin is Origin.SYSTEM else Standing.LIVE
        self._line_up(entry)
        self.index.add(entry, tokens)
""",
            ),
        ),
    ),
    Mutant(
        "a boundary is not spared at the cost of an anchor",
        (("succession", "second if second.standing is first.standing else first", "second"),),
        limits=TIGHT,
    ),
    Mutant(
        "anchors and ancestors expire too",
        (
            (
                "departures",
                "        for standing in Standing:\n",
                "        for standing in [Standing.LIVE]:\n",
            ),
        ),
        limits=DYING,
    ),
    Mutant(
        "an anchor is one of the very tokens",
        (
            (
                "store",
                "bool(self._held.index.shared(bucket, tokens).equal)",
                "bool(self._held.index.shared(bucket, tokens).common_tokens)",
            ),
        ),
    ),
    Mutant(
        "no more is shed than was asked for",
        (("store", "before - self._held.nbytes < nbytes", "before - self._held.nbytes <= nbytes"),),
    ),
    Mutant(
        "a call that did nothing has no number",
        (("store", "                    if journal.events:\n", "                    if True:\n"),),
    ),
    Mutant(
        "a node that connects nothing is taken out",
        (("tree", "            _join(node.parent)\n", "            pass\n"),),
    ),
    Mutant(
        "a guess supersedes nothing when it comes in",
        (
            (
                "arrivals",
                "[] if tentative else self._leaving.superseded_by(entry, walk)",
                "self._leaving.superseded_by(entry, walk)",
            ),
        ),
        limits=KEEPING,
    ),
    Mutant(
        "a guess that is hit takes the place of what it contains",
        (
            (
                "arrivals",
                "            self._settle(entry, tokens, journal)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "only a guess that is hit as a whole was right",
        (("arrivals", "if whole and entry.tentative:", "if entry.tentative:"),),
    ),
    Mutant(
        "a guess is settled once",
        (("arrivals", "        entry.tentative = False\n", ""),),
    ),
    Mutant(
        "a tenant is held to its quota",
        (
            (
                "departures",
                "            while held.of(tenant).nbytes > quota:\n",
                "            while False:\n",
            ),
        ),
        tenants=True,
    ),
    Mutant(
        "a tenant over its quota makes room of its own",
        (("departures", "next_victim(held.of(tenant), newcomer", "next_victim(held, newcomer"),),
        tenants=True,
    ),
    Mutant(
        "what is larger than its tenant's quota is oversized",
        (("verdict", "        reason = Rejection.OVERSIZED\n", "        reason = Rejection.LOW_MEMORY\n"),),
        tenants=True,
    ),
    Mutant(
        "a guess costs its own tenant no place either",
        (("verdict", "held.of(facts.tenant).nbytes + facts.nbytes <= quota", "True"),),
        tenants=True,
    ),
    Mutant(
        "what other tenants hold is told to nobody",
        (
            (
                "store",
                "            elif not self._held.of(bucket.tenant):\n",
                "            elif not self._held:\n",
            ),
        ),
        tenants=True,
    ),
    Mutant(
        "a reset of one tenant leaves the others",
        (("store", "self._held if tenant is None else self._held.of(tenant)", "self._held"),),
        tenants=True,
    ),
    Mutant(
        "a session that is forgotten is that of one tenant",
        (("index", "self._buckets.get((tenant, session), {})", "self._buckets.get(('acme', session), {})"),),
        tenants=True,
    ),
    Mutant(
        "prefixes are compared in whole tokens",
        (("tree", "    return same - same % BYTES_PER_TOKEN\n", "    return same\n"),),
    ),
)
