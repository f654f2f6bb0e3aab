import asyncio

import pytest

from agenttool.hooks.definition import Hook, hooks_of
from agenttool.hooks.execution import run_hooks
from agenttool.hooks.reply import HookReply
from agenttool.ports.hooks import HookQuestion
from agenttool.records import HookEvent
from agenttool.testing.fakes import EPOCH_NS, scripted_tool

PRE = HookEvent.PRE_TOOL_USE


class World:
    def now_ns(self):
        return EPOCH_NS

    def shown(self, value):
        return {name: "[redacted]" if name == "pin" else member for name, member in value.items()}

    def restored(self, value, before):
        return {name: before[name] if member == "[redacted]" else member for name, member in value.items()}

    async def attempt(self, work, *, timeout_s):
        try:
            return await work, None
        except Exception as error:  # noqa: BLE001
            return None, error


class Runner:
    def __init__(self, answer):
        self.answer = answer
        self.questions = []

    async def run(self, question):
        self.questions.append(question)
        return self.answer(question) if callable(self.answer) else self.answer


def hook(name, answer, **options):
    return Hook(name=name, event=PRE, runner=Runner(answer), **options)


def ask(*hooks, value=None, event=PRE):
    question = HookQuestion(
        hook_event=event,
        invocation_id="inv_1",
        tool_id="tool_a",
        tool_name="a",
        input={"path": "x"} if value is None else value,
    )
    return asyncio.run(run_hooks(hooks, question, World()))


def test_hooks_are_asked_in_the_order_they_were_registered_and_see_each_others_changes():
    first = hook("first", {"updated_input": {"path": "y"}})
    second = hook("second", None)
    outcome = ask(first, second)
    assert [run.hook.name for run in outcome.runs] == ["first", "second"]
    assert second.runner.questions[0].input == {"path": "y"}
    assert outcome.updated_input == {"path": "y"}


def test_a_stop_ends_the_round():
    outcome = ask(hook("first", {"stop": "not on fridays"}), hook("second", None))
    assert outcome.stopped_by.reply.stop == "not on fridays"
    assert len(outcome.runs) == 1


@pytest.mark.requirement("AT-HOOK-11")
def test_a_hook_that_writes_into_what_it_was_handed_changes_nothing():
    original = {"path": "x", "deep": {"list": [1]}}

    def vandal(question):
        question.input["deep"]["list"].append(2)
        question.input["path"] = "/etc/passwd"

    assert ask(hook("vandal", vandal), value=original).updated_input is None
    assert original == {"path": "x", "deep": {"list": [1]}}


def test_a_hook_that_raises_is_a_fault_with_its_name():
    def explode(question):
        raise RuntimeError("boom")

    outcome = ask(hook("bomb", explode), hook("never", None))
    assert outcome.failed.fault == "hook 'bomb' failed: RuntimeError: boom"
    assert len(outcome.runs) == 1


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("yes", ""),
        (5, ""),
        ({"permission": "allow"}, "/permission"),
        ({"permission_result": "maybe"}, "/permission_result"),
        ({"stop": 1}, "/stop"),
        ({"updated_input": [1]}, "/updated_input"),
        ({"additional_context": "x"}, "/additional_context"),
        ({"additional_context": [{}, "x"]}, "/additional_context"),
        ({"a/b": 1}, "/a~1b"),
        ({1: 2}, "/1"),
    ],
)
def test_an_answer_that_cannot_be_read_is_a_fault_that_says_where_and_never_a_permission(answer, place):
    outcome = ask(hook("odd", answer))
    assert outcome.failed.fault.startswith("hook 'odd' failed: RecordError: ")
    assert outcome.failed.fault.endswith(f"(at {place!r})" if place else "return a HookReply")
    assert outcome.runs[0].reply == HookReply()


def test_a_hook_sees_secrets_only_if_it_is_trusted_and_may_leave_the_others_standing():
    curious = hook("curious", lambda question: {"updated_input": {**question.input, "to": "ada"}})
    trusted = hook("trusted", None, is_trusted=True)
    outcome = ask(curious, trusted, value={"to": "eve", "pin": "4711"})
    assert curious.runner.questions[0].input == {"to": "eve", "pin": "[redacted]"}
    assert trusted.runner.questions[0].input == {"to": "ada", "pin": "4711"}
    assert outcome.updated_input == {"to": "ada", "pin": "4711"}


def test_all_seven_outputs_are_reported_without_their_values():
    reply = HookReply(
        message="m",
        progress="p",
        updated_input={"secret": "hunter2"},
        permission_result="ask",
        additional_context=({"a": 1},),
        stop="s",
        updated_output="hunter3",
    )
    found = reply.outputs()
    assert [output.type for output in found] == [
        "message",
        "progress",
        "updated_input",
        "permission_result",
        "additional_context",
        "stop",
        "updated_output",
    ]
    assert "hunter" not in repr(found)


def test_a_hook_looks_only_at_the_tools_it_named():
    tool = scripted_tool("write_file", namespace="files").declaration
    hooks = [hook("all", None), hook("files", None, tools=("files.*",)), hook("web", None, tools=("web.*",))]
    assert [each.name for each in hooks_of(hooks, tool)[PRE]] == ["all", "files"]
    assert HookEvent.POST_TOOL_USE not in hooks_of(hooks, tool)


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ("post_tool_use", {"permission_result": "deny"}),
        ("permission_decision", {"permission_result": "deny"}),
        ("permission_request", {"updated_input": {}}),
        ("post_tool_use_failure", {"updated_output": None}),
        ("pre_tool_use", {"updated_output": "x"}),
        ("result_persistence", {"updated_output": "x"}),
    ],
)
def test_what_can_do_nothing_where_it_is_said_is_a_fault(event, answer):
    outcome = ask(hook("odd", answer), event=HookEvent(event))
    (name,) = answer
    assert f"{name} does nothing at {event}; say it at" in outcome.failed.fault
