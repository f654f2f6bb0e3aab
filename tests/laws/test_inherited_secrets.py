"""The secrets of a call are removed from its nested calls, from argument names, from formatted values and defaults."""

import asyncio
from typing import Annotated

import pytest
from pydantic import BaseModel

from agenttool import Context, Sensitive, ToolFailure, tool
from agenttool.codec import to_json
from agenttool.policy.approvals import Allow, Edit
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, ErrorClass, HookEvent, RuleSource, ToolError

PIN = "Qz7-nested-pin"


def rules(behavior):
    """Allow everything, but apply `behavior` to the tool `echo`."""
    return [
        Rule(ref="a", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",)),
        Rule(ref="e", behavior=Behavior(behavior), source=RuleSource.CLI_ARG, tools=("*.echo",), is_optional=True),
    ]


@tool(read_only=True)
async def outer(c: Context, pin: Annotated[str, Sensitive], name: str = "echo") -> str:
    """Call another tool with the pin in a text. Not for anything else."""
    result = await c.call(name, {"text": f"pass {pin} on", "more": {pin: 1}})
    return result.status


@pytest.fixture
def received():
    """What the nested tool received."""
    return []


@pytest.fixture
def echo(received):
    """A nested tool that repeats its input in every way."""

    @tool(read_only=True)
    async def echo(c: Context, text: str, more: dict[str, int]) -> str:
        """Repeat a text. Not for secrets."""
        received.append((text, more))
        c.progress(f"repeating {text}", step=text)
        if "fail" in text:
            raise ToolFailure(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message=text))
        return text

    return echo


async def answered(rt, calling, answer):
    """Answer what is asked; return what the approver saw."""
    seen = []
    while not calling.done():
        await asyncio.sleep(0)
        for question in await rt.approvals.list():
            seen += [question.shown, *(to_json(each) for each in question.suggested_updates)]
            await rt.approvals.decide(question.approval_id, answer(question.shown))
    return seen


@pytest.mark.requirement("AT-IO-06")
@pytest.mark.parametrize("behavior", ["allow", "ask", "deny"])
@pytest.mark.parametrize("pin", [PIN, f"{PIN} fail"])
def test_a_nested_call_shows_no_secret_of_its_parent_and_its_tool_receives_it(
    run, opened, hook, sound_export, echo, received, *, behavior, pin
):
    recorded = []
    hooks = [
        hook(event, lambda question: recorded.append([question.input, question.output]), name=event, tools=("*.echo",))
        for event in HookEvent
    ]

    async def scenario():
        async with opened([outer, echo], rules=rules(behavior), hooks=hooks) as rt:
            calling = asyncio.ensure_future(rt.call("outer", {"pin": pin}, surface=await rt.surface()))
            seen = await answered(rt, calling, lambda _: Allow())
            return [to_json(await calling), seen, await sound_export(rt)]

    result, seen, exported = run(scenario())
    assert PIN not in str([result, seen, exported, recorded])
    assert recorded
    assert received == ([] if behavior == "deny" else [(f"pass {pin} on", {pin: 1})])
    [nested] = [each for each in exported if each.get("parent_invocation_id")]
    assert nested["model_input"] == {"text": "pass [redacted] on", "more": {"[redacted]": 1}}


def test_an_approver_who_edits_another_field_leaves_the_masked_text_as_it_was(run, opened, hook, sound_export):
    received = []

    @tool(read_only=True)
    async def echo(text: str, times: int) -> str:
        """Repeat a text. Not for secrets."""
        received.append((text, times))
        return "done"

    @tool(read_only=True)
    async def outer(c: Context, pin: Annotated[str, Sensitive]) -> str:
        """Call another tool. Not for anything else."""
        return (await c.call("echo", {"text": f"pass {pin} on", "times": 1})).status

    async def scenario(edit):
        async with opened([outer, echo], rules=rules("ask")) as rt:
            calling = asyncio.ensure_future(rt.call("outer", {"pin": PIN}, surface=await rt.surface()))
            seen = await answered(rt, calling, edit)
            return [seen, await sound_export(rt)]

    recorded = run(scenario(lambda shown: Edit(input={**shown, "times": 2})))
    assert received == [(f"pass {PIN} on", 2)]
    assert PIN not in str(recorded)


def test_an_edit_that_moves_a_masked_text_is_refused(run, opened, echo):
    async def scenario():
        async with opened([outer, echo], rules=rules("ask")) as rt:
            calling = asyncio.ensure_future(rt.call("outer", {"pin": PIN}, surface=await rt.surface()))
            async for _, event in rt.journal.events():
                if event.data.get("prompted"):
                    break
            [question] = await rt.approvals.list()
            edit = Edit(input={**question.shown, "text": "now [redacted] is moved"})
            refused = await rt.approvals.decide(question.approval_id, edit)
            calling.cancel()
            return refused

    assert "cannot be moved" in run(scenario()).message


def test_a_secret_in_the_name_of_an_unknown_nested_tool_is_in_no_record(run, opened, sound_export, echo):
    async def scenario():
        async with opened([outer, echo], rules=rules("allow")) as rt:
            arguments = {"pin": PIN, "name": f"no-{PIN}"}
            result = await rt.call("outer", arguments, surface=await rt.surface())
            return [to_json(result), await sound_export(rt)]

    assert PIN not in str(run(scenario()))


@pytest.mark.requirement("AT-IO-06")
@pytest.mark.parametrize(
    "arguments",
    [
        {"user": "ada", "pin": PIN, PIN: 1},
        {"user": "ada", PIN: 1},
        {"user": f"ada with {PIN}", "pin": PIN},
    ],
)
def test_a_secret_sent_as_a_name_or_inside_another_value_is_in_no_record(run, opened, sound_export, arguments):
    @tool(read_only=True)
    async def login(user: str, pin: Annotated[str, Sensitive] = "") -> str:
        """Log in. Not for guests."""
        return f"{user} is in"

    async def scenario():
        async with opened([login], rules=rules("allow")) as rt:
            return [to_json(await rt.call("login", arguments, surface=await rt.surface())), await sound_export(rt)]

    assert PIN not in str(run(scenario()))


@pytest.mark.requirement("AT-IO-06")
def test_a_sensitive_default_that_the_caller_leaves_out_is_filled_in_and_redacted(run, opened, sound_export):
    @tool(read_only=True)
    async def login(user: str, pin: Annotated[str, Sensitive] = PIN) -> str:
        """Log in. Not for guests."""
        return f"{user} used {pin}"

    async def scenario():
        async with opened([login], rules=rules("allow")) as rt:
            result = await rt.call("login", {"user": "ada"}, surface=await rt.surface())
            return [to_json(result), await sound_export(rt)]

    result, exported = run(scenario())
    assert PIN not in str([result, exported])
    [call] = [each for each in exported if each["record_type"] == "tool_invocation"]
    assert (result["content"][0]["text"], call["call_input"]) == (
        "ada used [redacted]",
        {"user": "ada", "pin": "[redacted]"},
    )


class Retry(BaseModel):
    times: int = 3
    note: str | None = None


class Job(BaseModel):
    target: str = "production"
    key: Annotated[str, Sensitive] = PIN
    retry: Retry | None = None


def test_defaults_inside_models_are_seen_by_rules_approvers_and_records(run, opened, sound_export):
    received = []

    @tool(read_only=True)
    async def deploy(job: Job, more: list[Job]) -> str:
        """Deploy. Not for tests."""
        received.append((job, more))
        return f"deployed with {job.key}"

    ask = Rule(ref="r", behavior=Behavior.ASK, source=RuleSource.CLI_ARG, tools=("*",))

    async def scenario():
        async with opened([deploy], rules=[ask]) as rt:
            arguments = {"job": {"retry": {}}, "more": [{"target": "staging", "key": "another-one"}]}
            calling = asyncio.ensure_future(rt.call("deploy", arguments, surface=await rt.surface()))
            seen = await answered(rt, calling, lambda _: Allow())
            return seen[0], await sound_export(rt)

    shown, exported = run(scenario())
    expected = {
        "job": {"retry": {"times": 3}, "target": "production", "key": "[redacted]"},
        "more": [{"target": "staging", "key": "[redacted]"}],
    }
    [call] = [each for each in exported if each["record_type"] == "tool_invocation"]
    assert (shown, call["permission_input"], call["call_input"]) == (expected, expected, expected)
    assert PIN not in str(exported)
    assert received == [(Job(retry=Retry()), [Job(target="staging", key="another-one")])]
