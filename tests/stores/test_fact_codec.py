"""Stored facts read back exactly as the live facts."""

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from strategies import json_values

from agenttool import Context, Runtime, tool
from agenttool.codec import write
from agenttool.errors import StoreError
from agenttool.hooks.definition import Hook
from agenttool.journal import steps
from agenttool.journal.projection import events_of, invocation_of, records_of
from agenttool.journal.steps import STEPS
from agenttool.policy.rules import Rule
from agenttool.ports.calls import ToolCall
from agenttool.ports.facts import Fact
from agenttool.records import Behavior, HookEvent, RuleSource
from agenttool.stores.fact_codec import decode_fact, encode_fact, join_lines, split_lines
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.testing.fakes import scripted_tool

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
DENY = Rule(ref="no", behavior=Behavior.DENY, source=RuleSource.CLI_ARG, tools=("local.forbidden",), because="quota")


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


@tool(sensitive=["password"])
async def login(user: str, password: str) -> str:
    """Log in."""
    if user == "eve":
        raise PermissionError(f"no {password} for {user}")
    return f"welcome {user}"


@tool(max_inline_chars=50)
async def dump(lines: int, context: Context) -> str:
    """Return a lot."""
    context.progress("half", percent=50.0, step="read")
    context.partial({"lines": lines})
    return "\n".join("x" * 40 for _ in range(lines))


@tool
async def forbidden() -> str:
    """Do what is not allowed."""
    return "never"


@tool(approval_required=True)
async def transfer(to: str, amount: int) -> str:
    """Transfer money."""
    return f"{amount} to {to}"


async def fetch(job):
    job.add_native_ids("http", {"request_id": "r-1"})
    return {"echo": job.call_input}


class Meddler:
    async def run(self, question):
        if question.tool_name.endswith("add") and question.hook_event is HookEvent.PRE_TOOL_USE:
            return {"updated_input": {**question.input, "b": 41}, "message": "seen"}
        return {"additional_context": [{"note": "hello"}]}


async def answer_all(runtime, words):
    async for _, event in runtime.journal.events():
        if event.event_type == "tool.permission.requested" and event.data["prompted"]:
            for question in await runtime.approvals.list():
                answer, updated = next(words)
                await runtime.approvals.decide(question.approval_id, answer, input=updated)


async def a_run_of_every_kind():
    """Make calls that end in every way we can think of, and give all facts of the run."""
    hooks = [Hook(name=f"on-{event.value}", event=event, runner=Meddler()) for event in HookEvent]
    tools = [add, login, dump, forbidden, transfer, scripted_tool("fetch", fetch)]
    async with Runtime.open(tools=tools, rules=[*ALLOW, DENY], hooks=hooks, approve="wait") as rt:
        surface = await rt.surface()
        words = iter([("allow", None), ("deny", None), ("allow", {"to": "bob", "amount": 2})])
        approver = asyncio.ensure_future(answer_all(rt, words))
        for name, arguments in (
            ("add", {"a": 1}),
            ("add", {"a": "x"}),
            ("add", "not json"),
            ("login", {"user": "ada", "password": "correct horse"}),
            ("login", {"user": "eve", "password": "correct horse"}),
            ("dump", {"lines": 300}),
            ("forbidden", {}),
            ("nothing at all \ud800", {}),
            ("fetch", {"ü": [1.5, None, 2**60]}),
            *[("transfer", {"to": "eve", "amount": 1})] * 3,
        ):
            await rt.call(name, arguments, surface=surface, actor_ref="user:ada", native_call_id="call_1")
        failing = ToolCall(name="login", arguments={"user": "eve", "password": "p"})
        await rt.batch([failing, ToolCall(name="add", arguments={"a": 2})], surface=surface)
        canceled = asyncio.ensure_future(rt.call("transfer", {"to": "x", "amount": 1}, surface=surface))
        await asyncio.sleep(0)
        canceled.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await canceled
        approver.cancel()
        log = rt._core.journal.log
        return [fact for _, fact in log.read(0, 10_000)]


def reported(facts):
    """Everything that can be read from facts, as bytes."""
    calls = {}
    for fact in facts:
        calls.setdefault(fact.invocation_id, []).append(fact)
    calls.pop(None, None)
    return (
        [write(event) for place, fact in enumerate(facts, 1) for event in events_of(fact, position=place)],
        [write(invocation_of(call)) for call in calls.values()],
        [write(record) for record in records_of(facts)],
    )


async def stored(facts):
    """Write facts to a file, and read them back with another store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        store = SqliteStore.open(path, steps=STEPS)
        for fact in facts:
            store.log.append(fact)
        await store.close()
        store = SqliteStore.open(path, steps=STEPS)
        found = [fact for _, fact in store.log.read(0, len(facts) + 1)]
        assert list(store.log.verify()) == []
        await store.close()
    return found


async def test_a_run_of_every_kind_reads_back_record_for_record():
    facts = await a_run_of_every_kind()
    found = await stored(facts)
    assert reported(found) == reported(facts)
    names = {fact.step.name for fact in facts}
    assert len(names) >= 18, names
    kinds = {json.loads(line)["record_type"] for line in reported(facts)[2]}
    assert kinds >= {
        "tool_permission_decision",
        "tool_result",
        "tool_hook",
        "tool_input_mutation",
        "tool_progress",
        "tool_result_persistence",
    }


async def test_what_was_read_back_is_written_as_it_was():
    for fact in await a_run_of_every_kind():
        line = encode_fact(fact)
        assert encode_fact(decode_fact(line, STEPS)) == line


@given(st.lists(st.dictionaries(st.text(max_size=8), json_values(), max_size=3), min_size=1, max_size=3))
@settings(max_examples=30)
def test_any_input_and_output_reads_back_record_for_record(inputs):
    async def run():
        tools = [scripted_tool("echo", fetch)]
        async with Runtime.open(tools=tools, rules=ALLOW, approve="wait") as rt:
            surface = await rt.surface()
            for each in inputs:
                await rt.call("echo", each, surface=surface)
            return [fact for _, fact in rt._core.journal.log.read(0, 1000)]

    facts = asyncio.run(run())
    assert reported([decode_fact(encode_fact(fact), STEPS) for fact in facts]) == reported(facts)


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def peek(words: str) -> dict[str, str]:
    """Give back what is given, without any effect."""
    return {"seen": words}


@tool
async def push(value: JsonValue) -> JsonValue:
    """Give back what is given, with who knows what effect."""
    return value


@tool
async def speak(words: str) -> str:
    """Give back a text that is declared to be one."""
    return words


@given(json_values(), st.text(max_size=20))
@settings(max_examples=60)
def test_any_plain_result_reads_back_byte_for_byte(value, words):
    async def run():
        async with Runtime.open(tools=[peek, push, speak], rules=ALLOW, approve="wait") as rt:
            surface = await rt.surface()
            for name, given in (("push", {"value": value}), ("peek", {"words": words}), ("speak", {"words": words})):
                await rt.call(name, given, surface=surface)
            return [fact for _, fact in rt._core.journal.log.read(0, 1000)]

    facts = asyncio.run(run())
    lines = [encode_fact(fact) for fact in facts]
    assert reported([decode_fact(line, STEPS) for line in lines]) == reported(facts)
    assert [encode_fact(decode_fact(line, STEPS)) for line in lines] == lines


async def test_a_plain_result_is_stored_in_few_words_and_says_its_text_once():
    async with Runtime.open(tools=[peek, speak], rules=ALLOW, approve="wait") as rt:
        surface = await rt.surface()
        for name in ("peek", "speak"):
            await rt.call(name, {"words": "needle"}, surface=surface)
        facts = [fact for _, fact in rt._core.journal.log.read(0, 1000)]
    ends = [encode_fact(fact) for fact in facts if fact.step.ends]
    assert [line.count(b"needle") for line in ends] == [2, 2], "once asked, once answered"


async def test_an_input_whose_default_is_filled_in_is_stored_once_and_reads_back():
    async with Runtime.open(tools=[add], rules=ALLOW) as rt:
        await rt.call("add", {"a": 4711})
        facts = [fact for _, fact in rt._core.journal.log.read(0, 1000)]
    (end,) = [encode_fact(fact) for fact in facts if fact.step.ends]
    assert end.count(b"4711") == 2, "as it was given, and with its default"
    read = decode_fact(end, STEPS)
    assert reported([*facts[:-1], read]) == reported(facts)
    assert encode_fact(read) == end


_line = st.tuples(st.sampled_from([b"", b"x"]), st.sampled_from([b"", b"\tone", b"\ttwo"]))


@given(st.lists(_line.map(b"".join), min_size=1, max_size=20))
def test_joined_lines_are_split_into_the_same_lines(lines):
    assert split_lines(join_lines(lines)) == lines


def test_a_result_as_older_versions_stored_it_is_read():
    result = {"record_type": "tool_result", "schema_version": "0.2.0", "result_id": "res_1", "invocation_id": "inv_1"}
    result |= {"status": "succeeded", "content": [], "created_at": "2026-01-01T00:00:00Z"}
    line = json.dumps(["ended_succeeded", 1, 0, "inv_1", "tool_local.add", None, "end", [result]]).encode()
    (record,) = decode_fact(line, STEPS).data.records(decode_fact(line, STEPS))
    assert record.result_id == "res_1"


def test_a_fact_that_json_cannot_say_is_refused_by_name():
    for bad in ({"x": object()}, {"x": "\ud800"}, {"x": {1.5: 2, (1,): 3}}):
        with pytest.raises(StoreError, match="'progressed' of 'inv_1'"):
            encode_fact(Fact(steps.PROGRESSED, 1, 0, "inv_1", "t", bad))


def test_what_this_version_cannot_read_is_reported_and_not_guessed():
    with pytest.raises(StoreError, match="newer agenttool"):
        decode_fact(b'["teleported",1,0,null,null,null]', STEPS)
    for broken in (b"", b"{}", b'["planned",1', b'["planned","x",0,null,null,null]', b"\xff"):
        with pytest.raises(StoreError, match="verify the log"):
            decode_fact(broken, STEPS)
