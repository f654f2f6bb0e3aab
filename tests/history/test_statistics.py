"""Statistics of calls: each call of the journal is read once, however often they are counted."""

import asyncio
import time

import pytest

from agenttool import Runtime, tool
from agenttool.history import statistics
from agenttool.history.listed_call import CallFilter, ListedCall
from agenttool.history.reader import MemoryReader
from agenttool.history.statistics import DOCUMENT_KEY, DOCUMENT_KIND, CallCounter
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.reader import SqliteReader

SPAN_NS = 60 * 10**9


@tool(read_only=True, open_world=False)
async def divide(by: int) -> float:
    """Divide one by a number."""
    return 1 / by


@tool(read_only=True, open_world=False)
async def wait(turns: int) -> int:
    """Wait for other tasks so many times."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return turns


class CountingReader:
    """A reader that notes how many calls were read from it."""

    def __init__(self, reader):
        self._reader = reader
        self.read = 0

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def ends(self, *arguments, **options):
        for each in self._reader.ends(*arguments, **options):
            self.read += 1
            yield each


@pytest.fixture
def open_runtime(tmp_path):
    return lambda: Runtime.open(store=f"sqlite:{tmp_path}/calls.db", tools=[divide, wait])


@pytest.fixture
def count(tmp_path):
    """Count the calls of the last hour; give the statistics and how many calls were read for them."""

    def count(counter, spans=60, later_s=1):
        until_ns = time.time_ns() + later_s * 10**9
        with SqliteReader.open(tmp_path / "calls.db", steps=STEPS) as reader:
            counting = CountingReader(reader)
            found = counter.count(counting, until_ns=until_ns, span_ns=SPAN_NS, spans=spans)
            return found, counting.read

    return count


async def test_each_call_is_read_once_and_counted_in_every_window(open_runtime, count):
    async with open_runtime() as rt:
        counter = CallCounter()
        assert count(counter)[0].total.calls == 0
        for by in (1, 0, 2):
            await rt.call("divide", {"by": by})
        found, read = count(counter)
        assert (found.total.calls, found.total.errors, found.spans[-1].calls, read) == (3, 1, 3, 3)
        await rt.call("divide", {"by": 4})
        found, read = count(counter)
        assert (found.total.calls, found.total.errors) == (4, 1)
        assert read <= 2, "the new call, and the newest of those that were counted"
        assert [count(counter, spans)[0].total.calls for spans in (1, 600)] == [4, 4]


async def test_the_latest_failures_are_found_behind_any_number_of_other_calls(open_runtime, count, monkeypatch):
    async with open_runtime() as rt:
        monkeypatch.setattr(statistics, "MAX_COUNTED", 20)
        counter = CallCounter()
        failed = [await rt.call("divide", {"by": 0}) for _ in range(8)]
        for _ in range(15):
            await rt.call("divide", {"by": 1})
        found, _ = count(counter)
        assert (found.total.calls, found.is_cut) == (20, True)
        wanted = [each.invocation_id for each in reversed(failed)]
        assert [each.facts[0][1].invocation_id for each in found.failures] == wanted[:5]
        late = await rt.call("divide", {"by": 0})
        found, _ = count(counter)
        assert [each.facts[0][1].invocation_id for each in found.failures] == [late.invocation_id, *wanted[:5]]


async def test_a_window_before_the_first_count_is_read_when_it_is_wanted(open_runtime, count):
    async with open_runtime() as rt:
        for by in (1, 0):
            await rt.call("divide", {"by": by})
        counter = CallCounter()
        assert count(counter, later_s=7200)[0].total.calls == 0
        assert count(counter, spans=240, later_s=7200)[0].total.calls == 2


async def test_a_new_process_reads_only_the_calls_since_the_counts_were_stored(open_runtime, count, monkeypatch):
    monkeypatch.setattr(statistics, "SAVE_AFTER", 8)
    async with open_runtime() as rt:
        failed = [await rt.call("divide", {"by": 0}) for _ in range(8)]
        counter = CallCounter()
        count(counter)
        await rt.inspection.documents.put(DOCUMENT_KIND, DOCUMENT_KEY, counter.unsaved())
        assert counter.unsaved() is None, "no call was read since"
    async with open_runtime() as rt:
        await rt.call("divide", {"by": 1})
        found, read = count(CallCounter())
        assert read <= 2, "the new call, and the newest of those that were stored"
        assert found.total == count(counter)[0].total
        assert (found.total.calls, found.total.errors) == (9, 8)
        wanted = [each.invocation_id for each in reversed(failed)][:6]
        assert [each.facts[0][1].invocation_id for each in found.failures] == wanted


@pytest.mark.parametrize("stored", [b"", b"[1]", b"{}"])
async def test_stored_counts_that_this_version_cannot_read_are_counted_again(open_runtime, count, stored):
    async with open_runtime() as rt:
        await rt.call("divide", {"by": 1})
        await rt.inspection.documents.put(DOCUMENT_KIND, DOCUMENT_KEY, stored)
        assert count(CallCounter())[0].total.calls == 1


@pytest.mark.parametrize("looked_for", [1, 1000])
async def test_ends_are_read_with_the_times_of_their_calls(open_runtime, tmp_path, monkeypatch, looked_for):
    monkeypatch.setattr("agenttool.stores.sqlite.reader.MAX_LOOKED_FOR", looked_for)
    async with open_runtime() as rt:
        await asyncio.gather(
            *(rt.call("wait", {"turns": turns}) for turns in (300, 0, 5, 100)),
            rt.call("divide", {"by": 0}),
            rt.call("divide", {"by": "x"}),
        )
        await rt.call("divide", {"by": 1})
        with SqliteReader.open(tmp_path / "calls.db", steps=STEPS) as reader:
            listed = [
                (place, ListedCall(facts)) for place, facts in reader.calls(CallFilter().facts, newest_first=True)
            ]
            wanted = [(place, each.status, each.began_ns // 1000, each.at_ns) for place, each in listed]
            found = [*reader.ends()]
            assert [(each.place, each.status, each.began_ns // 1000, each.ended_ns) for each in found] == wanted
            assert [*reader.ends(found[2].place)] == found[3:]


async def test_the_ends_of_a_runtime_in_memory_are_read_with_the_times_of_their_calls():
    async with Runtime.open(store="memory:", tools=[divide, wait]) as rt:
        results = [await rt.call("wait", {"turns": 3}), await rt.call("divide", {"by": 0})]
        found = [*MemoryReader(rt.inspection.log).ends()]
        assert [each.invocation_id for each in found] == [each.invocation_id for each in reversed(results)]
        assert all(each.began_ns <= each.ended_ns for each in found)
