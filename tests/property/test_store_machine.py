"""The store obeys its rules in any order of calls."""

from tests.property.store_machine import StoreMachine, TenantMachine

TestStore = StoreMachine.TestCase
TestStore.__doc__ = "The store and the oracle say and hold the same after every step of a random life."

TestTenants = TenantMachine.TestCase
TestTenants.__doc__ = "So they do where tenants have quotas and are reset one by one."
