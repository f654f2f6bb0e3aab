"""What a run leaves behind is complete, consistent, and within the published schemas."""

import asyncio
import io

import pytest

from agenttool import Runtime, tool
from agenttool.codec import to_json, write
from agenttool.conformance.validate.validation import Validation
from agenttool.hooks.definition import Hook
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, HookEvent, RuleSource


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@tool(sensitive=["password"])
async def login(user: str, password: str) -> str:
    """Log in. Not for services."""
    if user == "eve":
        raise PermissionError(f"no {password} for {user}")
    return f"welcome {user}"


@tool(max_inline_chars=100)
async def dump(lines: int) -> str:
    """Return a lot. Not for a little."""
    return "\n".join("x" * 40 for _ in range(lines))


class Noter:
    async def run(self, question):
        return {"message": "seen", "additional_context": [{"note": "hello"}]}


RULES = [
    Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.PROJECT_SETTINGS, tools=("local.*",)),
    Rule(
        ref="no-eve", behavior=Behavior.DENY, source=RuleSource.POLICY_SETTINGS, tools=("local.dump",), because="quota"
    ),
]


async def a_busy_run(rules):
    hooks = [Hook(name=f"note-{event.value}", event=event, runner=Noter()) for event in HookEvent]
    async with Runtime.open(tools=[add, login, dump], rules=rules, hooks=hooks) as rt:
        surface = await rt.surface()
        for name, arguments in (
            ("add", {"a": 1}),
            ("add", {"a": "x"}),
            ("login", {"user": "ada", "password": "correct horse"}),
            ("login", {"user": "eve", "password": "correct horse"}),
            ("dump", {"lines": 300}),
            ("nothing", {}),
        ):
            await rt.call(name, arguments, surface=surface, actor_ref="user:test", native_call_id="call_1")
        return [record async for record in rt.journal.export()]


@pytest.mark.parametrize("rules", [RULES, RULES[:1]], ids=["one denied", "all allowed"])
async def test_an_export_passes_the_validator_without_a_word(rules):
    exported = await a_busy_run(rules)
    lines = b"\n".join(map(write, exported))
    with Validation() as validation:
        findings = [*validation.read("export", io.BytesIO(lines)), *validation.conclude()]
    assert findings == []
    assert b"correct horse" not in lines


@pytest.mark.requirement("AT-VER-01", "AT-VER-06", "AT-MODEL-01")
async def test_every_record_of_a_run_passes_its_published_schema(published_schemas):
    exported = [to_json(record) for record in await a_busy_run(RULES[:1])]
    kinds = {record["record_type"] for record in exported}
    assert kinds >= {"tool_declaration", "tool_invocation", "tool_hook", "tool_permission_decision", "tool_result"}
    for record in exported:
        assert published_schemas[record["record_type"]].misfits(record) == []


@pytest.mark.requirement("AT-RES-11", "AT-EVT-12", "AT-INV-13")
async def test_every_call_has_one_result_and_one_terminal_event():
    exported = [to_json(record) for record in await a_busy_run(RULES)]
    calls = {record["invocation_id"] for record in exported if record["record_type"] == "tool_invocation"}
    results = [record["invocation_id"] for record in exported if record["record_type"] == "tool_result"]
    ends = ("succeeded", "failed", "canceled", "timed_out")
    terminal = [
        record["invocation_id"]
        for record in exported
        if record["record_type"] == "tool_event" and record["event_type"].rsplit(".", 1)[-1] in ends
    ]
    assert len(calls) == 6
    assert sorted(results) == sorted(terminal) == sorted(calls)


@pytest.mark.requirement("AT-DECL-03")
async def test_a_tool_has_the_same_id_however_often_and_wherever_it_is_declared():
    ids = []
    for _ in range(2):
        declared = [tool(add.function), tool(login.function)]
        async with Runtime.open(tools=declared) as rt:
            ids.append(
                [r.tool_id async for r in rt.journal.export() if to_json(r)["record_type"] == "tool_declaration"]
            )
    assert ids == [["tool_local.add", "tool_local.login"]] * 2


async def test_a_reader_may_leave_and_come_back():
    async with Runtime.open(tools=[add]) as rt:
        surface = await rt.surface()
        await rt.call("add", {"a": 1}, surface=surface)
        seen = []
        async for position, event in rt.journal.events():
            seen.append((position, event.event_id))
            if event.event_type == "tool.invocation.succeeded":
                break
        rest = []

        async def follow():
            async for position, event in rt.journal.events(after=seen[-1][0]):
                rest.append((position, event.event_id))
                if event.event_type == "tool.invocation.succeeded" and len(rest) > 8:
                    return

        following = asyncio.ensure_future(follow())
        await asyncio.sleep(0)
        await rt.call("add", {"a": 2}, surface=surface)
        await following
    ids = [event_id for _, event_id in seen + rest]
    assert len(set(ids)) == len(ids)
