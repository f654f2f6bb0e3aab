from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.scheduler.timeouts import STALE_ALLOWED, Deadlines, TimeLimit


class Loop:
    """The clock and the timers of an event loop, moved by hand."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        return self.now

    def call_at(self, when, callback):
        self.timers.append(Timer(when, callback))
        return self.timers[-1]

    def run_until(self, moment):
        while True:
            due = [timer for timer in self.timers if timer.when <= moment and not timer.canceled]
            self.timers = [timer for timer in self.timers if not timer.canceled and timer not in due]
            if not due:
                self.now = moment
                return
            for timer in sorted(due, key=lambda timer: timer.when):
                self.now = max(self.now, timer.when)
                if not timer.canceled:
                    timer.callback()

    @property
    def armed(self):
        return [timer.when for timer in self.timers if not timer.canceled]


class Timer:
    def __init__(self, when, callback):
        self.when, self.callback, self.canceled = when, callback, False

    def cancel(self):
        self.canceled = True


def test_deadlines_come_due_in_order_on_a_single_timer():
    loop, rang = Loop(), []
    deadlines = Deadlines(loop)
    for at in (3.0, 1.0, 2.0):
        deadlines.arm(at, lambda at=at: rang.append((at, loop.now)))
        assert len(loop.armed) == 1
    loop.run_until(2.5)
    assert rang == [(1.0, 1.0), (2.0, 2.0)]
    loop.run_until(9.0)
    assert rang[-1] == (3.0, 3.0)
    assert loop.armed == []


def test_a_canceled_deadline_does_not_ring_and_may_be_canceled_again():
    loop, rang = Loop(), []
    deadlines = Deadlines(loop)
    deadline = deadlines.arm(1.0, lambda: rang.append("canceled"))
    deadlines.arm(1.0, lambda: rang.append("kept"))
    deadlines.cancel(deadline)
    deadlines.cancel(deadline)
    loop.run_until(2.0)
    assert rang == ["kept"]


def test_a_deadline_put_off_rings_late_and_one_put_forward_rings_early():
    loop, rang = Loop(), []
    deadlines = Deadlines(loop)
    later, earlier, never = (deadlines.arm(5.0, lambda n=n: rang.append((n, loop.now))) for n in ("l", "e", "n"))
    deadlines.move(later, 8.0)
    deadlines.move(earlier, 2.0)
    deadlines.move(never, inf)
    loop.run_until(100.0)
    assert rang == [("e", 2.0), ("l", 8.0)]
    deadlines.move(never, 101.0)
    loop.run_until(102.0)
    assert rang[-1] == ("n", 101.0)


def test_a_deadline_that_fails_does_not_take_the_others_along():
    loop, rang = Loop(), []
    deadlines = Deadlines(loop)

    def fail():
        raise LookupError

    deadlines.arm(1.0, fail)
    deadlines.arm(1.0, lambda: rang.append("rang"))
    try:
        loop.run_until(1.0)
    except LookupError:
        loop.run_until(1.0)
    assert rang == ["rang"]


def test_canceled_deadlines_do_not_pile_up():
    loop = Loop()
    deadlines = Deadlines(loop)
    stored = [deadlines.arm(1000.0, list) for _ in range(10)]
    for _ in range(50 * STALE_ALLOWED):
        deadlines.cancel(deadlines.arm(1000.0, list))
    assert len(deadlines._heap) <= len(stored) + STALE_ALLOWED + 1


moments = st.integers(1, 50).map(float)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), moments),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("move"), st.integers(0, 9), moments | st.just(inf)),
        st.tuples(st.just("pass"), st.integers(1, 20).map(float)),
    ),
    max_size=40,
)


@given(steps)
def test_whatever_is_armed_moved_and_canceled_rings_once_and_in_time(steps):
    loop, rang, due = Loop(), [], {}
    deadlines = Deadlines(loop)
    handles = {}
    for number, (what, *rest) in enumerate(steps):
        alive = [name for name in handles if name not in {rung for rung, _ in rang}]
        if what == "arm":
            due[number] = loop.now + rest[0]
            handles[number] = deadlines.arm(due[number], lambda n=number: rang.append((n, loop.now)))
        elif what == "pass":
            loop.run_until(loop.now + rest[0])
        elif alive:
            name = alive[rest[0] % len(alive)]
            due[name] = inf if what == "cancel" else loop.now + rest[1]
            if what == "cancel":
                deadlines.cancel(handles.pop(name))
            else:
                deadlines.move(handles[name], due[name])
    loop.run_until(10_000.0)
    assert dict(rang) == {name: at for name, at in due.items() if at < inf}
    assert len(rang) == len(dict(rang))


@pytest.fixture
def loop():
    return Loop()


def limit(loop, expired, **clocks):
    return TimeLimit(Deadlines(loop), lambda: expired.append(loop.now), **clocks)


def test_a_silent_call_runs_out_of_patience_before_it_runs_out_of_time(loop):
    expired = []
    limit(loop, expired, cap=100, idle=10)
    loop.run_until(200)
    assert expired == [10]


def test_progress_extends_the_silence_and_never_the_cap(loop):
    expired = []
    its = limit(loop, expired, cap=35, idle=10)
    for moment in range(5, 35, 5):
        loop.run_until(moment)
        its.progress()
    loop.run_until(200)
    assert expired == [35]


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
    assert expired == [1011]


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
    assert expired == [110]


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
    assert expired == [paused + used + left]
