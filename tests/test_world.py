"""The real source of ids: UUIDv7, unique and in order, for any callers and however fast."""

import subprocess
import sys
import threading
import uuid

from agenttool.ports.world import Moment
from agenttool.world import SystemClock, UniqueIds, format_crash

MANY = 20_000


def test_ids_are_version_7_unique_and_in_order():
    ids = UniqueIds()
    made = [ids.unique() for _ in range(MANY)]
    assert len(set(made)) == MANY
    assert made == sorted(made)
    assert {uuid.UUID(each).version for each in made} == {7}
    assert {uuid.UUID(each).variant for each in made} == {uuid.RFC_4122}


def test_threads_that_share_a_source_never_get_the_same_id():
    ids, made, together = UniqueIds(), [], threading.Barrier(4)

    def make():
        together.wait()
        made.extend([ids.unique() for _ in range(MANY)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(made)) == 4 * MANY


def test_two_sources_never_give_the_same_id():
    one, other = UniqueIds(), UniqueIds()
    assert {one.unique() for _ in range(MANY)}.isdisjoint({other.unique() for _ in range(MANY)})


def test_the_steady_clock_of_two_processes_is_the_same_and_cannot_be_set(monkeypatch):
    code = "from agenttool.world import SystemClock; print(*SystemClock().moment(), sep='|')"
    before = SystemClock().moment()
    message = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    now_ns, steady_ns, since = message.split("|")
    monkeypatch.setattr(SystemClock, "now_ns", staticmethod(lambda: 0))
    after = SystemClock().moment()
    assert before.since == since == after.since
    if since:  # where the system names its start
        assert before.steady_ns < int(steady_ns) < after.steady_ns
        assert before.is_before(after)
    assert after.is_before(Moment(int(now_ns)))


def test_the_traceback_of_an_enormous_message_has_its_start_and_its_end_only():
    trace = format_crash(ValueError("start" + "x" * 5_000_000 + "end"))
    assert len(trace) < 1_000_100
    assert trace.startswith("ValueError: start")
    assert trace.endswith("xend")
