import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.scheduler.deadlines import Deadlines
from agenttool.scheduler.limits import Expiry, TimeLimit, smallest_timeout


class Loop:
    """A clock that is moved by hand, with room for one timer."""

    def __init__(self):
        self.now = 0.0
        self.timer = None

    def time(self):
        return self.now

    def call_at(self, when, callback):
        self.timer = [when, callback]
        return self

    def cancel(self):
        self.timer = None

    def run_until(self, moment):
        while self.timer is not None and self.timer[0] <= moment:
            when, callback = self.timer
            self.timer, self.now = None, max(self.now, when)
            callback()
        self.now = moment


@pytest.fixture
def loop():
    return Loop()


def limit(loop, expired, **clocks):
    return TimeLimit(Deadlines(loop), lambda expiry: expired.append((expiry, loop.now)), **clocks)


def test_a_silent_call_runs_out_of_patience_before_it_runs_out_of_time(loop):
    expired = []
    limit(loop, expired, cap=100, idle=10)
    loop.run_until(200)
    assert expired == [(Expiry.IDLE, 10)]


def test_progress_extends_the_silence_and_never_the_cap(loop):
    expired = []
    its = limit(loop, expired, cap=35, idle=10)
    for moment in range(5, 35, 5):
        loop.run_until(moment)
        its.progress()
    loop.run_until(200)
    assert expired == [(Expiry.CAP, 35)]


def test_both_clocks_stand_still_while_a_person_is_asked(loop):
    expired = []
    its = limit(loop, expired, cap=20, idle=10)
    loop.run_until(8)
    its.pause()
    loop.run_until(1000)
    assert expired == []
    its.resume()
    loop.run_until(1001)
    its.progress()
    loop.run_until(2000)
    assert expired == [(Expiry.IDLE, 1011)]


def test_pauses_nest_and_progress_within_one_counts(loop):
    expired = []
    its = limit(loop, expired, cap=20, idle=10)
    loop.run_until(5)
    its.pause()
    its.pause()
    its.progress()
    its.resume()
    loop.run_until(100)
    its.resume()
    loop.run_until(200)
    assert expired == [(Expiry.IDLE, 110)]


def test_a_call_that_ended_does_not_expire(loop):
    expired = []
    limit(loop, expired, cap=1).end()
    loop.run_until(10)
    assert expired == []


def test_without_a_limit_nothing_expires(loop):
    expired = []
    its = limit(loop, expired)
    its.progress()
    its.pause()
    its.resume()
    loop.run_until(1e9)
    assert expired == []


@pytest.mark.parametrize(
    ("timeouts", "seconds"), [((), None), ((None, None), None), ((None, 1500), 1.5), ((3000, 1500, None), 1.5)]
)
def test_the_strictest_limit_that_anybody_set_counts(timeouts, seconds):
    assert smallest_timeout(*timeouts) == seconds


@given(
    cap=st.integers(1, 40),
    idle=st.integers(1, 40),
    steps=st.lists(st.tuples(st.sampled_from(["progress", "pause"]), st.integers(0, 15)), max_size=12),
)
def test_a_call_expires_after_exactly_its_own_time(cap, idle, steps):
    loop, expired = Loop(), []
    its = limit(loop, expired, cap=cap, idle=idle)
    used = silent = paused = 0
    for what, seconds in steps:
        if what == "pause":
            its.pause()
            loop.run_until(loop.now + seconds)
            its.resume()
            paused += seconds
        else:
            loop.run_until(loop.now + seconds)
            used, silent = used + seconds, silent + seconds
            if used >= cap or silent >= idle:
                break
            its.progress()
            silent = 0
    loop.run_until(loop.now + 1000)
    left = min(cap - used, idle - silent)
    assert [(expiry, moment) for expiry, moment in expired] == [
        (Expiry.CAP if cap - used <= idle - silent else Expiry.IDLE, paused + used + left)
    ]
