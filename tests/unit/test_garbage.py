"""When Python looks for garbage, and among what."""

import gc
import weakref

import pytest

from app import garbage


class Ring:
    """What only a search for cycles frees."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def as_before():
    """Whatever a test does, Python collects afterwards as it did."""
    yield
    gc.enable()
    gc.unfreeze()


def test_nothing_is_searched_while_what_stays_is_made():
    """Not before the end of the block, and again from there on, even after an error."""
    during = []

    def fail():
        with garbage.kept():
            during.append(gc.isenabled())
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()

    assert during == [False]
    assert gc.isenabled()


def test_what_is_kept_is_not_searched_and_what_comes_later_is():
    """A cycle of the block stays where it is; one made after it is freed by the next search."""
    with garbage.kept():
        early = weakref.ref(Ring())
    late = weakref.ref(Ring())

    gc.collect()

    assert early() is not None
    assert late() is None


def test_garbage_among_what_was_kept_is_freed_once():
    """What imports leave behind goes when all is there; what is used stays, and is searched no more."""
    with garbage.kept():
        used, unused = Ring(), weakref.ref(Ring())

    garbage.keep_all()

    assert unused() is None
    assert not any(each is used for each in gc.get_objects())
