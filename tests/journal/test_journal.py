import pytest

from agenttool.journal import steps
from agenttool.journal.journal import Journal
from agenttool.records import InvocationStatus
from agenttool.stores.memory import MemoryLog
from agenttool.testing.fakes import FakeClock

S = InvocationStatus


class Call:
    def __init__(self, name="inv_1"):
        self.invocation_id = name
        self.tool_id = "tool_a"
        self.status = None
        self.events = 0


@pytest.fixture
def journal():
    return Journal(clock=FakeClock(), log=MemoryLog())


def test_facts_are_kept_in_the_order_they_were_noted(journal):
    one, two = Call("inv_1"), Call("inv_2")
    for call in (one, two):
        journal.note(call, steps.CHOSEN)
    journal.note(one, steps.MISFIT)
    noted = [(position, fact.invocation_id, fact.step) for position, fact in journal.log.read(0, 10)]
    assert noted == [(1, "inv_1", steps.CHOSEN), (2, "inv_2", steps.CHOSEN), (3, "inv_1", steps.MISFIT)]
    assert [fact.sequence for fact in journal.log.facts_of("inv_1")] == [0, 2]
    assert one.status == S.SELECTED


def test_a_status_that_may_not_follow_is_refused_and_leaves_no_fact(journal):
    call = Call()
    journal.note(call, steps.STARTED)
    with pytest.raises(AssertionError, match="may not take"):
        journal.note(call, steps.ASKED)
    assert call.status == S.RUNNING
    assert len(journal.log.facts_of(call.invocation_id)) == 1


def test_a_reader_is_woken_until_it_stops_listening(journal):
    woken = []
    stop = journal.listen(lambda: woken.append(1))
    journal.note_apart(steps.DECLARED, {"tool_id": "t"})
    stop()
    journal.note_apart(steps.DECLARED, {"tool_id": "u"})
    assert woken == [1]
