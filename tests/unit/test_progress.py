"""How far a long job is, for a person at a terminal and for a log."""

import io

import pytest
from structlog.testing import capture_logs

from app.progress import ProgressBar


def fail_while_loading(progress):
    progress("loading", 0, 1)
    raise ValueError("on purpose")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_a_terminal_each_job_has_a_line_at_its_start_and_end():
    """A log is not drawn on."""
    stream = io.StringIO()

    with capture_logs() as lines, ProgressBar(stream) as progress:
        for done in range(4):
            progress("converting", done, 3)
        progress("loading", 0, 1)
        progress("loading", 1, 1)

    assert stream.getvalue() == ""
    assert [(line["event"], line["what"]) for line in lines] == [
        ("started", "converting"),
        ("done", "converting"),
        ("started", "loading"),
        ("done", "loading"),
    ]


def test_on_a_terminal_a_bar_names_the_job():
    """And leaves the line free when it is done."""
    stream = Terminal()

    with ProgressBar(stream) as progress:
        progress("converting", 0, 3)
        progress("converting", 1, 3)
        progress("converting", 3, 3)

    assert "converting" in stream.getvalue()


def test_a_job_that_fails_takes_its_bar_with_it():
    """The error's own line is the last thing on the screen."""
    stream = Terminal()
    progress = ProgressBar(stream)

    with pytest.raises(ValueError, match="on purpose"), progress:
        fail_while_loading(progress)

    assert progress._bar is None


def test_how_far_a_job_is_can_be_asked_while_it_lasts():
    """In whole percent, rounded down; a job of one part cannot say, and between two jobs there is none."""
    progress = ProgressBar(io.StringIO())
    asked = []
    for what, done, total in (
        ("finding", 0, 1),
        ("finding", 1, 1),
        ("reading", 0, 700),
        ("reading", 699, 700),
        ("reading", 700, 700),
    ):
        progress(what, done, total)
        asked.append(progress.step and (progress.step.what, progress.step.percent))

    assert asked == [("finding", None), None, ("reading", 0), ("reading", 99), None]
