"""A call may be heard of so often, and comes back to its pace by itself."""

from agenttool.adapters.rap import paces
from agenttool.adapters.rap.paces import BURST, PER_SECOND, Pace, Paces


def test_a_burst_is_taken_and_then_so_many_a_second_and_one_call_is_not_anothers():
    now = 0.0
    known = Paces(lambda: now)
    assert {known.pace_of("a") for _ in range(int(BURST))} == {Pace.KEPT}
    assert [known.pace_of("a") for _ in range(3)] == [Pace.LEFT, Pace.LOST, Pace.LOST]
    assert known.pace_of("b") is Pace.KEPT
    now = 1.0
    told = [known.pace_of("a") for _ in range(int(PER_SECOND) + 2)]
    assert told == [Pace.KEPT] * int(PER_SECOND) + [Pace.LOST] * 2
    now = 1000.0
    assert {known.pace_of("a") for _ in range(int(BURST))} == {Pace.KEPT}
    assert known.pace_of("a") is Pace.LEFT


def test_only_so_many_calls_are_remembered(monkeypatch):
    monkeypatch.setattr(paces, "_REMEMBERED", 10)
    known = Paces(lambda: 0.0)
    for each in range(100):
        known.pace_of(str(each))
    assert len(known._calls) == 10
