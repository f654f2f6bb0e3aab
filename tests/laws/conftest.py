"""What laws stand on: a loop in which waiting takes no time, and a runtime whose clock is that loop's."""

import asyncio
import inspect
import io
import selectors

import pytest

from agenttool import Runtime
from agenttool.codec import to_json, write
from agenttool.conformance.validate.validation import Validation
from agenttool.hooks.definition import Hook
from agenttool.policy.decide import Policy
from agenttool.policy.rules import RuleBook
from agenttool.ports.world import Moment
from agenttool.runtime import World
from agenttool.stores.memory import MemoryDocuments, MemoryLog, MemoryOpenCalls, MemoryPayloads
from agenttool.testing.fakes import EPOCH_NS, CountingIds

FOR_EVER_S = 1e9


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits for time: once nobody has anything to do, the next timer is due."""

    def __init__(self):
        self.moment = 0.0
        self.in_threads = 0
        super().__init__(SkippingSelector(self))

    def run_in_executor(self, executor, func, *args):
        def end(_):
            self.in_threads -= 1

        future = super().run_in_executor(executor, func, *args)
        self.in_threads += 1
        future.add_done_callback(end)
        return future

    def time(self):
        return self.moment


class SkippingSelector(selectors.DefaultSelector):
    """Moves the loop's clock on instead of sleeping."""

    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def select(self, timeout=None):
        ready = super().select(0)
        while not ready and self.loop.in_threads and timeout != 0:
            ready = super().select(0.1)
        if not ready and timeout is None:
            ready = super().select(5)  # the loop waits for its threads when it is closed
        if not ready and timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        if not ready:
            self.loop.moment += max(timeout, 0.0)
        return ready


@pytest.fixture(scope="session")
def run():
    """Run a scenario to its end in a loop of its own; one that would never end fails."""

    async def bounded(scenario):
        async with asyncio.timeout(FOR_EVER_S):
            return await scenario

    def run(scenario):
        with asyncio.Runner(loop_factory=SkippingLoop) as runner:
            return runner.run(bounded(scenario))

    return run


class LoopClock:
    """Returns the time of the running loop."""

    def now_ns(self):
        return EPOCH_NS + round(asyncio.get_running_loop().time() * 1e9)

    def moment(self):
        return Moment(self.now_ns())


@pytest.fixture(scope="session")
def opened():
    """Open a runtime on memory alone; the same scenario gives the same records."""

    def opened(tools, *, rules=(), hooks=(), **policy):
        world = World(
            clock=LoopClock(),
            ids=CountingIds(),
            log=MemoryLog(),
            payloads=MemoryPayloads(),
            open_calls=MemoryOpenCalls(),
            documents=MemoryDocuments(),
        )
        declared = [getattr(each, "declared", each) for each in tools]
        return Runtime(world, tools=declared, hooks=hooks, policy=Policy(book=RuleBook(rules), **policy))

    return opened


@pytest.fixture(scope="session")
def hook():
    """Make a hook of a function from question to answer."""

    class Runner:
        def __init__(self, answer):
            self.answer = answer

        async def run(self, question):
            said = self.answer(question)
            return await said if inspect.isawaitable(said) else said

    def hook(event, answer, name="hook", **options):
        return Hook(name=name, event=event, runner=Runner(answer), **options)

    return hook


@pytest.fixture(scope="session")
def sound_export():
    """Export a runtime and hold it to the validator; gives the records as JSON."""

    async def sound_export(runtime):
        exported = [record async for record in runtime.journal.export()]
        with Validation() as validation:
            lines = b"\n".join(map(write, exported))
            findings = [*validation.read("export", io.BytesIO(lines)), *validation.conclude()]
        assert findings == []
        return [to_json(record) for record in exported]

    return sound_export
