"""One-line mistakes that a store could well contain, each as a text substitution in a copy of its source."""

from dataclasses import dataclass

Changes = tuple[tuple[str, str, str], ...]
"""(module, text that stands there exactly once, what stands there instead), one or more."""


@dataclass(frozen=True)
class Mutant:
    """The law that is broken, and what it takes to break it."""

    law: str
    changes: Changes


MUTANTS = (
    Mutant(
        "a hit makes its entry the most recently used",
        (("holdings", "        self._entries.move_to_end(entry.facts.id)\n", ""),),
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
                "store",
                "            if reason is not None:\n",
                "            if reason not in (None, 'oversized'):\n",
            ),
            (
                "store",
                "            self._held.add(entry, tokens)\n",
                """\
            if reason is not None:
                rejected = self._rejected(reason, origin, session, facts.tokens, facts.nbytes)
                journal.events.append(rejected)
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
                "store",
                "                    self._remove(equal, Removal.REPLACED, journal)\n",
                """\
                    self._remove(equal, Removal.REPLACED, journal)
                    self._held.nbytes += equal.facts.nbytes
""",
            ),
        ),
    ),
    Mutant(
        "an equal vector of the same origin is replaced",
        (("store", "                if equal.facts.origin is origin:\n", "                if False:\n"),),
    ),
    Mutant(
        "an entry of another origin is superseded only by what can be truncated to it",
        (
            (
                "succession",
                "old.facts.origin is newcomer.facts.origin or ",
                "True or ",
            ),
        ),
    ),
    Mutant(
        "what can be truncated to an entry of another origin supersedes it",
        (("succession", " or newcomer.payload.can_truncate_to(old.facts.tokens)", ""),),
    ),
    Mutant(
        "without a session nothing is superseded",
        (("succession", "    if newcomer.facts.session is None:\n        return []\n", ""),),
    ),
    Mutant(
        "a newcomer's own boundary is evicted last",
        (("succession", "next(others, first) if first is boundary else first", "first"),),
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
                "store",
                "(SnapshotInserted(entry.facts))\n            self._remove_expired(journal)\n",
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
        "of equally useful candidates the one used last comes first",
        (("lookup", "self.use_tokens == self.entry.facts.tokens, self.entry.used)", "True, 0)"),),
    ),
    Mutant(
        "a truncated state is at least as long as the shortest that is stored",
        (("lookup", "if each.use_tokens >= limits.min_prefix_tokens", "if each.use_tokens"),),
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
        "prefixes are compared in whole tokens",
        (("tree", "    return same - same % BYTES_PER_TOKEN\n", "    return same\n"),),
    ),
)
