from agenttool.journal import steps
from agenttool.ports.facts import Fact
from agenttool.records import InvocationStatus
from agenttool.stores.memory import MemoryLog


def fact(call, step=steps.PROGRESSED):
    return Fact(step, 0, 1, call, "t", None)


def test_positions_never_move_even_when_old_facts_go():
    log = MemoryLog(max_facts=10)
    for number in range(25):
        log.append(fact(f"inv_{number}"))
        log.ended(0)
    stored = log.read(0, 100)
    assert log.last == 25
    assert stored[-1][0] == 25
    assert [position for position, _ in stored] == list(range(stored[0][0], 26))
    assert all(each.invocation_id == f"inv_{position - 1}" for position, each in stored)


def test_a_call_that_still_waits_is_not_forgotten_with_its_old_facts():
    log = MemoryLog(max_facts=10)
    waiting, done = fact("waits"), fact("done", steps.ENDED[InvocationStatus.SUCCEEDED])
    for each in (waiting, done, *(fact("x") for _ in range(20)), last := fact("waits")):
        log.append(each)
        log.ended(0)
    assert log.facts_of("waits") == (waiting, last)
    assert not log.facts_of("done")


def test_large_calls_are_deleted_by_their_size():
    log = MemoryLog(max_chars=100_000)
    for number in range(50):
        log.append(fact(f"inv_{number}", steps.ENDED[InvocationStatus.SUCCEEDED]))
        log.ended(10_000)
    stored = [each.invocation_id for _, each in log.read(0, 100)]
    assert stored == [f"inv_{number}" for number in range(40, 50)]
    assert log.last == 50


def test_reading_is_limited():
    log = MemoryLog()
    for _ in range(5):
        log.append(fact("a"))
    assert [position for position, _ in log.read(1, 2)] == [2, 3]
    assert log.read(5, 10) == []
