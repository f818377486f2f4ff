"""docs/metrics.md and the code say the same."""

import random
import re
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import pytest

from app.events import PayloadRestored, PayloadSealed, WarmupEnded
from app.telemetry.catalogue import CATALOGUE
from app.telemetry.series import Kind
from app.telemetry.spans import REMOVAL_SPANS, SUMMARY_SPAN
from app.vocabulary import FinishReason, Origin, StoreCall, Warmup
from tests.telemetry.generations import generation
from tests.telemetry.spans_room import SpansRoom
from tests.telemetry.store_life import busy_limits, random_life

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

FIXED_SPANS = {
    "queue",
    "prefill",
    "decode",
    "snapshot.restore",
    "snapshot.capture",
    "snapshot.reject",
    "snapshot.warmup",
}


def tables() -> dict[str, list[list[str]]]:
    """The rows of all tables whose first column has that name."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for is_table, lines in groupby(
        DOCUMENT.read_text(encoding="utf-8").splitlines(), lambda line: line[:1] == "|"
    ):
        if is_table:
            header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            found[header[0]] += rows
    return found


def code(cell: str) -> list[str]:
    """What is set as code in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def label_values(cell: str) -> dict[str, tuple[str, ...]]:
    """Label name → the values that are listed for it; the last of several labels has the list."""
    names, _, values = cell.partition(": ")
    labels: dict[str, tuple[str, ...]] = dict.fromkeys(code(names), ())
    if values:
        labels[code(names)[-1]] = tuple(values.split(", "))
    return labels


def test_the_document_lists_exactly_the_series_there_are():
    """Every series is documented with its type, labels and label values, in order, and no other is."""
    documented = [(code(name)[0], kind, label_values(labels)) for name, kind, labels, _ in tables()["Series"]]
    declared = [
        (series.name, series.kind.value, {label.name: label.values for label in series.labels})
        for series in CATALOGUE
    ]
    assert documented == declared


def test_every_series_says_what_it_means():
    """A name alone helps nobody."""
    for name, _, _, meaning in tables()["Series"]:
        assert meaning.endswith("."), name


def test_the_buckets_are_those_of_the_code():
    """Each histogram is listed with its bounds, and only histograms are."""
    documented = {
        code(name)[0]: tuple(float(bound) for bound in bounds.split(", "))
        for name, bounds in tables()["Histogram"]
    }
    assert documented == {
        series.name: tuple(float(bound) for bound in series.buckets)
        for series in CATALOGUE
        if series.kind is Kind.HISTOGRAM
    }


def documented_spans() -> set[str]:
    return {code(name)[0] for name, _, _ in tables()["Span"]}


def test_every_span_of_the_code_is_documented_and_no_other():
    """The table of spans is complete in both directions."""
    calls = {f"snapshot.{call.value}" for call in StoreCall}
    assert documented_spans() == FIXED_SPANS | calls | set(REMOVAL_SPANS.values()) | {SUMMARY_SPAN}


@pytest.fixture(scope="module")
def spans():
    """The spans of a life in which every kind of span is made."""
    room = SpansRoom(busy_limits())
    random_life(room, random.Random(0), 2500)
    request = room.request()
    room.hear(
        generation(cause=request),
        generation(cause=request, reason=FinishReason.ERROR, first_token=None, error="broken"),
        PayloadSealed(Origin.BOUNDARY, request, 1.0, 2.0, tokens=5, nbytes=None),
        PayloadSealed(Origin.BOUNDARY, request, 1.0, 2.0, tokens=5, nbytes=9),
        PayloadRestored(request, 1.0, 2.0, tokens=5, nbytes=9, error=None),
        WarmupEnded(Warmup.RUN, request, 1.0, 2.0, tokens=9, computed_tokens=5),
    )
    return room.take()


def test_the_spans_that_are_made_are_the_documented_ones(spans):
    """A busy store makes every documented span, and none besides."""
    assert {span.name for span in spans} == documented_spans()


def test_every_attribute_is_documented_and_no_other(spans):
    """The table of attributes is complete in both directions."""
    made = {
        re.sub(r"(\.removals)\..+", r"\1.<reason>", key) for span in spans for key in span.attributes or {}
    }
    documented = {name for first, _, value in tables()["Attribute"] for name in code(first) + code(value)}
    assert made == {name for name in documented if name.startswith(("samovar.", "session.", "gen_ai."))}


def test_a_span_hangs_where_the_document_says(spans):
    """A span that is documented as a root has no parent, and each other one a parent that is listed."""
    by_id = {span.context.span_id: span for span in spans}
    parents = {code(name)[0]: parent for name, parent, _ in tables()["Span"]}
    for span in spans:
        said = parents[span.name]
        above = by_id.get(span.parent.span_id) if span.parent else None
        if said == "none":
            assert span.parent is None
        elif said == "request":
            assert above is None, "its parent is the request's span, which is not among these"
        elif said != "any of those":
            assert above is not None
            assert above.name in code(said)
