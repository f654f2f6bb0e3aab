import threading

import pytest

from agenttool.records import InterruptBehavior
from agenttool.scheduler.cancel import StopSignal, stops_on_interrupt

CANCEL, BLOCK = InterruptBehavior.CANCEL, InterruptBehavior.BLOCK


@pytest.mark.parametrize(
    ("tool", "policy", "stops"),
    [(CANCEL, None, True), (CANCEL, CANCEL, True), (CANCEL, BLOCK, False), (BLOCK, CANCEL, False), (None, None, False)],
)
def test_an_interruption_stops_a_call_if_its_tool_says_so_and_nobody_objects(tool, policy, stops):
    assert stops_on_interrupt(tool, policy) is stops


def test_a_thread_that_waits_is_woken_and_one_that_comes_later_does_not_wait():
    signal, woken = StopSignal(), []
    waits = threading.Thread(target=lambda: woken.append(signal.wait(10)))
    waits.start()
    signal.give()
    waits.join(10)
    assert woken == [True]
    assert signal.wait(0)


def test_without_a_request_the_wait_ends_by_itself():
    assert not StopSignal().wait(0)
