"""Steps that are written together give the same records as steps that are written one by one."""

import asyncio
import dataclasses
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import ToolFailure, tool
from agenttool.codec import sorted_json, to_json
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.ports.deferred import DEFERRED
from agenttool.ports.output import FailedItem, NativeOutput, Partial
from agenttool.records import Behavior, ErrorClass, RetryGuidance, RuleSource, ToolError
from agenttool.runtime import Runtime, World
from agenttool.stores.memory import MemoryDocuments, MemoryLog, MemoryOpenCalls, MemoryPayloads
from agenttool.testing.fakes import CountingIds, FakeClock, scripted_tool

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ALLOW = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
BOUND_S = 60


def giving(output):
    async def work(job):
        return output

    return work


def raising(error):
    async def work(job):
        raise error

    return work


async def wait(job):
    await asyncio.sleep(0)
    return job.call_input


async def report(job):
    job.report("half", percent=50.0)
    job.report(partial={"rows": [1]})
    job.add_native_ids("mcp", {"jsonrpc_request_id": 7})
    await asyncio.sleep(0)
    return "reported"


async def fail_late(job):
    await asyncio.sleep(0)
    raise ValueError("late")


async def change_its_input(job):
    job.call_input["n"] = "changed"
    return job.call_input


WORKS = {
    "number": giving(7),
    "text": giving("words"),
    "nothing": giving(None),
    "empty": giving([]),
    "object": giving({"a": [1, 2.5, None, "é"]}),
    "large": giving("x" * 200),
    "bytes": giving(b"\x89PNG\r\n\x1a\n" + bytes(40)),
    "unmappable": giving(object()),
    "summarized": giving(NativeOutput(value=1, summary="one")),
    "partly": giving(NativeOutput(partial=Partial(succeeded=(1,), failed=(FailedItem(item=2, message="no"),)))),
    "crash": raising(ValueError("as asked")),
    "unreachable": raising(ConnectionError("gone")),
    "throttled": raising(ToolFailure(ToolError(error_class=ErrorClass.RATE_LIMITED, message="later"))),
    "plain word": raising(ToolFailure(ToolError(error_class="rate_limited", message="later"))),
    "wait": wait,
    "report": report,
    "fail late": fail_late,
    "change its input": change_its_input,
}

facts = st.fixed_dictionaries(
    {},
    optional={
        "is_concurrency_safe": st.booleans(),
        "is_read_only": st.booleans(),
        "is_destructive": st.booleans(),
        "is_open_world": st.booleans(),
        "max_inline_chars": st.sampled_from([0, 50, 30_000]),
        "timeout_ms": st.just(60_000),
    },
)
inputs = st.one_of(
    st.builds(lambda n: f'{{"n": {n}}}', st.integers()),
    st.sampled_from(['{"n": 1,  "more": "\\u00e9"}', '{"n": "one"}', "{}", "[1]", "not json", '{"n": 1.0}']),
)


async def scenario(work, said, arguments, *, one_by_one):
    """Make one call of a scripted tool; give its steps and every record of it."""
    probe = scripted_tool("probe", WORKS[work], schema=SCHEMA, **said)
    steps, recorded = await reported_about(probe, arguments, one_by_one=one_by_one)
    return steps, [*recorded, probe.executor.inputs]


async def reported_about(probe, arguments, *, one_by_one, meet=None):
    """Make one call in a world where time stands and ids count; give its steps and every record of it."""
    log = MemoryLog()
    world = World(
        clock=FakeClock(),
        ids=CountingIds(),
        log=log,
        payloads=MemoryPayloads(),
        open_calls=MemoryOpenCalls(),
        documents=MemoryDocuments(),
    )
    async with (
        asyncio.timeout(BOUND_S),
        Runtime(world, tools=[probe], policy=Policy(book=RuleBook([ALLOW]))) as runtime,
    ):
        if one_by_one:
            tools = runtime._core.tools
            tools.update(
                {
                    entry: dataclasses.replace(tools[entry], has_common_start=False, read_typed=None)
                    for entry in runtime._agent.catalog
                }
            )
        if meet is not None:
            meet(runtime)
        surface = await runtime.surface()
        result = await runtime.call("probe", arguments, surface=surface, native_call_id="call_1", actor_ref="user:ada")
        exported = [to_json(record) async for record in runtime.journal.export()]
        invocation = await runtime.journal.invocation(result.invocation_id)
    steps = [fact.step.name for fact in log.facts_of(result.invocation_id)]
    # An event about no call is named by its place in the log, and that depends on how many facts a call took.
    exported = [each for each in exported if each["record_type"] != "tool_event" or "invocation_id" in each]
    events = [each for each in exported if each["record_type"] == "tool_event"]
    records = sorted(exported, key=sorted_json)  # an export gives a call after its first fact, and those differ
    return steps, [to_json(result), to_json(invocation), events, records]


@given(st.sampled_from(sorted(WORKS)), facts, inputs)
def test_a_call_has_the_same_records_whichever_way_its_steps_are_written(work, said, arguments):
    short, together = asyncio.run(scenario(work, said, arguments, one_by_one=False))
    long, apart = asyncio.run(scenario(work, said, arguments, one_by_one=True))
    assert not {"launched", "completed"} & set(long)
    assert together == apart
    assert bool({"launched", "completed"} & set(short)) == ("started" in long)


@pytest.mark.parametrize("work", sorted(WORKS))
def test_the_steps_of_every_one_of_these_tools_are_written_together(work):
    steps, _ = asyncio.run(scenario(work, {}, '{"n": 1}', one_by_one=False))
    assert steps[0] in {"launched", "completed"}


class Far:
    """A tool that answers later, in one of the ways there are."""

    within_s = None

    def __init__(self, way):
        self.way = way
        self.runtime = None
        self.withdrawn = []

    def meet(self, runtime):
        self.runtime = runtime

    async def send(self, job):
        if self.way == "at once":
            return "here"
        if self.way in {"refused", "unheard"}:
            retry = RetryGuidance(safe=self.way == "refused")
            raise ToolFailure(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message="no", retry=retry))
        job.add_native_ids("rap", {"toolset": "far", "operation": "probe"})
        body = b"bad" if self.way == "badly" else b"good"
        if self.way == "before the acknowledgement":
            await self.runtime.deferred.deliver(job.invocation_id, body)
        else:
            self.answering = asyncio.ensure_future(self._answer(job.invocation_id, body))
        return DEFERRED

    async def _answer(self, invocation_id, body):
        while (awaited := await self.runtime.deferred.get(invocation_id)) is None or not awaited.is_sent:  # noqa: ASYNC110 -- it has no event
            await asyncio.sleep(0)
        await self.runtime.deferred.deliver(invocation_id, body)

    def read(self, body):
        if body == b"bad":
            raise ToolFailure(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message="bad"))
        return body.decode()

    def withdraw(self, invocation_id, thread):
        self.withdrawn.append(invocation_id)


@pytest.mark.parametrize("way", ["later", "badly", "before the acknowledgement", "at once", "refused", "unheard"])
def test_a_deferred_call_has_the_same_records_whichever_way_its_steps_are_written(way):
    async def each(*, one_by_one):
        far = Far(way)
        probe = dataclasses.replace(scripted_tool("probe", far.send, schema=SCHEMA), later=far)
        steps, recorded = await reported_about(probe, {"n": 1}, one_by_one=one_by_one, meet=far.meet)
        return steps, [*recorded, far.withdrawn]

    short, together = asyncio.run(each(one_by_one=False))
    long, apart = asyncio.run(each(one_by_one=True))
    assert together == apart
    assert short == ["launched", *long[3:]]


class Adder:
    """Has a method that is a tool."""

    async def probe(self, n: int, word: str) -> str:
        """Join."""
        return f"{n!r} {word!r}"


def doubled(function):
    @functools.wraps(function)
    async def by_name(**named):
        return 2 * await function(**named)

    return by_name


async def join(n: int, word: str) -> str:
    """Join."""
    return f"{n!r} {word!r}"


async def join_by_name(*, word: str, n: int) -> str:
    """Join."""
    return f"{n!r} {word!r}"


async def join_later(word: str, n: int) -> str:
    """Join."""
    await asyncio.sleep(0)
    return f"{n!r} {word!r}"


async def join_some(n: int = 1, word: str = "x") -> str:
    """Join."""
    return f"{n!r} {word!r}"


async def refuse(n: int, word: str) -> str:
    """Refuse."""
    raise ValueError(f"{n!r} {word!r}")


FUNCTIONS = {
    "function": join,
    "by name": join_by_name,
    "later": join_later,
    "with defaults": join_some,
    "refusing": refuse,
    "method": Adder().probe,
    "wrapped": doubled(join),
}
_written = st.fixed_dictionaries(
    {"n": st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()},
    optional={"word": st.text(), "more": st.none()},
)


@given(st.sampled_from(sorted(FUNCTIONS)), _written)
def test_a_function_gets_the_same_arguments_whichever_way_they_were_read(name, arguments):
    async def both():
        probe = tool(name="probe", description="Join.", read_only=True, concurrency_safe=True)(FUNCTIONS[name]).declared
        return [await reported_about(probe, arguments, one_by_one=each) for each in (False, True)]

    (short, together), (long, apart) = asyncio.run(both())
    assert together == apart
    if isinstance(arguments["n"], int) and not isinstance(arguments["n"], bool) and arguments.keys() == {"n", "word"}:
        assert short[0] in {"launched", "completed"}
        assert "started" in long
