"""What scenarios share: one way to call, and one way to read what was recorded."""

import dataclasses
import inspect
import io
from dataclasses import dataclass

import pytest

from agenttool import Runtime
from agenttool.codec import to_json, write
from agenttool.conformance.validate.validation import Validation
from agenttool.hooks.definition import Hook
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.records import Behavior, HookEvent, RuleSource, ToolResult, replace
from agenttool.runtime import World
from agenttool.stores.memory import MemoryDocuments, MemoryLog, MemoryOpenCalls, MemoryPayloads
from agenttool.testing.fakes import CountingIds, FakeClock


def _rule(behavior, *tools, source=RuleSource.PROJECT_SETTINGS, ref=None, **conditions):
    ref = ref or f"{behavior}-{'-'.join(tools)}"
    return Rule(ref=ref, behavior=Behavior(behavior), source=source, tools=tools, **conditions)


@pytest.fixture(scope="session")
def rule():
    """Make a rule about tools: `rule("deny", "local.pay")`."""
    return _rule


@pytest.fixture(scope="session")
def allow():
    """Return rules that let everything run."""
    return [_rule("allow", "*", source=RuleSource.CLI_ARG, ref="all")]


@pytest.fixture(scope="session")
def hook():
    """Make a hook of a function from question to answer, or of the answer alone."""

    class Runner:
        def __init__(self, answer):
            self.answer = answer

        async def run(self, question):
            said = self.answer(question) if callable(self.answer) else self.answer
            return await said if inspect.isawaitable(said) else said

    def hook(answer=None, event=HookEvent.PRE_TOOL_USE, name=None, **options):
        event = HookEvent(event)
        return Hook(name=name or event.value, event=event, runner=Runner(answer), **options)

    return hook


@pytest.fixture(scope="session")
def changed():
    """Give a declared tool with some members of its records changed: `declaration={"lifecycle": ...}`."""

    def changed(declared, **records):
        parts = {name: replace(getattr(declared, name), **members) for name, members in records.items()}
        return dataclasses.replace(declared, **parts)

    return changed


@pytest.fixture
def bench():
    """Open a runtime on parts that the test holds in its hand: a clock that stands, ids that count, memory stores."""

    @dataclass(kw_only=True)
    class Bench:
        clock: FakeClock
        payloads: MemoryPayloads

        def open(self, tools, *, rules=(), hooks=(), **policy):
            world = World(
                clock=self.clock,
                ids=CountingIds(),
                log=MemoryLog(),
                payloads=self.payloads,
                open_calls=MemoryOpenCalls(),
                documents=MemoryDocuments(),
            )
            declared = [getattr(each, "declared", each) for each in tools]
            return Runtime(world, tools=declared, hooks=hooks, policy=Policy(book=RuleBook(rules), **policy))

    return Bench(clock=FakeClock(), payloads=MemoryPayloads())


@pytest.fixture(scope="session")
def call():
    """Call a tool on a surface of its own."""

    async def call(runtime, name, arguments, **options):
        surface = await runtime.surface()
        return await runtime.call(name, arguments, surface=surface, **options)

    return call


@pytest.fixture(scope="session")
def error():
    """Give the class of a result's error, if it has one."""
    return lambda result: result.error.error_class.value if result.error else None


@pytest.fixture(scope="session")
def records():
    """Give the exported records of a runtime as JSON, all or those of one kind."""

    async def records(runtime, kind=None):
        found = [to_json(record) async for record in runtime.journal.export()]
        return found if kind is None else [record for record in found if record["record_type"] == kind]

    return records


@pytest.fixture(scope="session")
def asked_questions():
    """Wait until an approver is asked, and return the open questions."""

    async def asked_questions(runtime):
        async for _, event in runtime.journal.events():
            if event.event_type == "tool.permission.requested" and event.data["prompted"]:
                return await runtime.approvals.list()
        return ()

    return asked_questions


@pytest.fixture(scope="session")
def begun():
    """Wait for the event that says a call came so far, and give the call's id."""

    async def begun(runtime, event_type="tool.invocation.started", *, tool_id=None):
        async for _, event in runtime.journal.events():
            if event.event_type == event_type and tool_id in (None, event.tool_id):
                return event.invocation_id
        return None

    return begun


@dataclass(kw_only=True)
class CallRecords:
    """The records that an export has about one call."""

    result: dict
    invocation: dict
    events: list[dict]
    decisions: list[dict]
    mutations: list[dict]
    hooks: list[dict]
    progress: list[dict]
    persistence: list[dict]

    @property
    def event_types(self):
        """The events by their short names, in order."""
        return [event["event_type"].removeprefix("tool.").removeprefix("invocation.") for event in self.events]

    @property
    def moves(self):
        """The statuses that the call went through."""
        return [move["status"] for move in self.invocation["status_transitions"]]


@pytest.fixture(scope="session")
def sound_export(records, published_schemas):
    """Export a runtime, and hold every record to the validator and the published schemas."""

    async def sound_export(runtime):
        lines = b"\n".join([write(record) async for record in runtime.journal.export()])
        with Validation() as validation:
            findings = [*validation.read("export", io.BytesIO(lines)), *validation.conclude()]
        exported = await records(runtime)
        assert findings == []
        for record in exported:
            assert published_schemas[record["record_type"]].misfits(record) == []
        return exported

    return sound_export


@pytest.fixture(scope="session")
def call_records(sound_export):
    """Read one call from a valid export alone, with one result and events that are counted without a gap."""

    async def call_records(runtime, call):
        invocation_id = call.invocation_id if isinstance(call, ToolResult) else call
        own = [each for each in await sound_export(runtime) if each.get("invocation_id") == invocation_id]
        by_type = {}
        for record in own:
            by_type.setdefault(record["record_type"], []).append(record)
        events = by_type["tool_event"]
        (result,), (invocation,) = by_type["tool_result"], by_type["tool_invocation"]
        assert [event["data"]["sequence"] for event in events] == list(range(1, len(events) + 1))
        assert invocation == to_json(await runtime.journal.invocation(invocation_id))
        if isinstance(call, ToolResult):
            assert result == to_json(call)
        return CallRecords(
            result=result,
            invocation=invocation,
            events=events,
            decisions=by_type.get("tool_permission_decision", []),
            mutations=by_type.get("tool_input_mutation", []),
            hooks=by_type.get("tool_hook", []),
            progress=by_type.get("tool_progress", []),
            persistence=by_type.get("tool_result_persistence", []),
        )

    return call_records
