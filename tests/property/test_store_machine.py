"""The store obeys its rules in any order of calls."""

from tests.property.store_machine import StoreMachine

TestStore = StoreMachine.TestCase
TestStore.__doc__ = "The store and the oracle say and hold the same after every step of a random life."
