"""The store obeys its rules in any order of calls."""

from tests.property.store_machine import StoreMachine, TenantMachine
from tests.support.effort import one_in

# test_mutants.py shows that a mistake is found in some dozens of lives.
TestStore = StoreMachine.TestCase
TestStore.__doc__ = "The store and the oracle say and hold the same after every step of a random life."
TestStore.settings = one_in(2)

TestTenants = TenantMachine.TestCase
TestTenants.__doc__ = "So they do where tenants have quotas and are reset one by one."
TestTenants.settings = one_in(2)
