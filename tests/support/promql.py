"""Finds in a query what a scrape does not have: names, labels and label values. It evaluates nothing.

Variables of a dashboard have to be replaced before (`$job` by `.+`, `$__rate_interval` by `5m`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

Exposition = Mapping[str, Mapping[str, frozenset[str]]]
"""Name of a sample (`…_bucket` and `…_sum` are names of their own) → label → the values it has."""

TARGET_LABELS = frozenset({"job", "instance"})
"""What Prometheus adds to every series; any value goes."""

OF_PROMETHEUS: Exposition = {"up": {}}
"""What Prometheus says of a target itself."""


def exposition(text: str) -> Exposition:
    """What a scrape, in the text format, exposes."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found[sample.name]
            for name, value in sample.labels.items():
                labels[name].add(value)
    return {
        sample: {label: frozenset(values) for label, values in labels.items()}
        for sample, labels in found.items()
    }


def with_recorded(exposed: Exposition, recorded: Iterable[tuple[str, str]]) -> Exposition:
    """`exposed` with the series that recording rules add: (name, query), in the order they are evaluated."""
    known = {**OF_PROMETHEUS, **exposed}
    for name, query in recorded:
        check = _Check(known)
        known[name] = {
            label: check.values(label) for label in sorted(check.labels(promql.parse(query)) - TARGET_LABELS)
        }
    return known


def faults(query: str, exposed: Exposition) -> list[str]:
    """What `query` asks for and `exposed` does not have; empty where all is there.

    Raises:
        ValueError: it is no PromQL.
    """
    check = _Check({**OF_PROMETHEUS, **exposed})
    check.labels(promql.parse(query))
    return check.faults


def names(query: str) -> frozenset[str]:
    """The names of the series that a query reads."""
    found = set()

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector) and node.name:
            found.add(node.name)

    promql.walk(promql.parse(query), visit)
    return frozenset(found)


class _Check:
    """One walk over a query; each step returns the labels that its result can have."""

    def __init__(self, exposed: Exposition) -> None:
        self.faults: list[str] = []
        self._exposed = exposed
        self._read: list[str] = []

    def values(self, label: str) -> frozenset[str]:
        """The values of a label over all series that were read."""
        return frozenset().union(*(self._exposed[name].get(label, frozenset()) for name in self._read))

    def labels(self, node: Any) -> frozenset[str]:
        """The labels of a node's result; what is wrong below it goes to `faults`."""
        match node:
            case promql.VectorSelector():
                return self._selector(node)
            case promql.AggregateExpr():
                return self._aggregate(node)
            case promql.BinaryExpr():
                return self._binary(node)
            case promql.Call():
                return self._call(node)
            case (
                promql.MatrixSelector(vector_selector=inner)
                | promql.ParenExpr(expr=inner)
                | promql.UnaryExpr(expr=inner)
                | promql.SubqueryExpr(expr=inner)
            ):
                return self.labels(inner)
        # Numbers and texts have none.
        return frozenset()

    def _selector(self, node: promql.VectorSelector) -> frozenset[str]:
        if node.name is None or node.name not in self._exposed:
            self.faults.append(f"{node.name} is no series")
            return TARGET_LABELS
        self._read.append(node.name)
        has = self._exposed[node.name]
        for matcher in node.matchers.matchers:
            if matcher.name in TARGET_LABELS:
                continue
            if matcher.name not in has:
                self.faults.append(f"{node.name} has no label {matcher.name}")
                continue
            for wanted in _alternatives(matcher):
                if not any(re.fullmatch(wanted, value) for value in has[matcher.name]):
                    self.faults.append(f"{node.name} has no {matcher.name} like {wanted}")
        return frozenset(has) | TARGET_LABELS

    def _aggregate(self, node: promql.AggregateExpr) -> frozenset[str]:
        inner = self.labels(node.expr)
        if node.modifier is None:
            return frozenset()
        listed = frozenset(node.modifier.labels)
        self._are_labels(listed, inner, node)
        return listed if node.modifier.type == promql.AggModifierType.By else inner - listed

    def _binary(self, node: promql.BinaryExpr) -> frozenset[str]:
        left, right = self.labels(node.lhs), self.labels(node.rhs)
        modifier = node.modifier
        if modifier is not None and modifier.matching is not None:
            listed = frozenset(modifier.matching.labels)
            if modifier.matching.type == promql.LabelModifierType.Include:
                self._are_labels(listed, left & right, node)
            else:
                self._are_labels(listed, left | right, node)
        added = frozenset((modifier.group_labels or ()) if modifier is not None else ())
        self._are_labels(added, left | right, node)
        if str(node.op) == "or":
            return left | right
        return (left or right) | added

    def _call(self, node: promql.Call) -> frozenset[str]:
        inner = frozenset().union(*(self.labels(argument) for argument in node.args))
        name = node.func.name
        if name == "histogram_quantile":
            self._are_labels(frozenset({"le"}), inner, node)
            return inner - {"le"}
        if name in {"label_replace", "label_join"}:
            return inner | {node.args[1].val}
        return inner

    def _are_labels(self, listed: frozenset[str], there: frozenset[str], node: promql.Expr) -> None:
        self.faults += [f"no label {label} in: {node}" for label in sorted(listed - there)]


def _alternatives(matcher: promql.Matcher) -> Iterator[str]:
    """The patterns of which each has to match something: a dead alternative is a mistake as well."""
    if matcher.op in (promql.MatchOp.Equal, promql.MatchOp.NotEqual):
        yield re.escape(matcher.value)
    else:
        yield from matcher.value.split("|")
