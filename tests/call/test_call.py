"""Waiters for the end of calls."""

from agenttool.call.call import CallRegistry


def test_the_end_of_a_call_wakes_the_waiters_for_it_and_those_for_any_call_only():
    registry = CallRegistry()
    with registry.waiter("inv_1") as first, registry.waiter("inv_1") as also, registry.waiter() as any_call:
        with registry.waiter("inv_2") as other:
            registry.remove("inv_1")
            woken = [each.is_set() for each in (first, also, any_call, other)]
        other.clear()
        registry.remove("inv_2")
    assert (woken, other.is_set()) == ([True, True, True, False], False)
