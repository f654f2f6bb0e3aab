"""Hooks that die, hang, lie or meddle."""

import asyncio

import pytest

from agenttool import ConfigError, Runtime, tool
from agenttool.hooks.definition import Hook
from agenttool.hooks.reply import HookReply
from agenttool.records import HookEvent

PRE, POST, REQUEST = HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE, HookEvent.PERMISSION_REQUEST
EVENTS = [PRE, POST, REQUEST, HookEvent.PERMISSION_DECISION]


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers. Not for text."""
    return a + b


class Runner:
    """Asks a function, which may raise or give a coroutine."""

    def __init__(self, answer):
        self._answer = answer

    async def run(self, question):
        said = self._answer(question)
        return await said if asyncio.iscoroutine(said) else said


def hook(answer, event=PRE, **options):
    return Hook(name="odd", event=event, runner=Runner(answer), **options)


def raising(error):
    def answer(question):
        raise error

    return answer


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def endless():
    value = {}
    value["a"] = value
    return value


def failed(event):
    return "post_hook_failed" if event is POST else "hook_failed"


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (raising(ValueError("whoops")), "ValueError: whoops"),
        (raising(Mute()), "Mute: it cannot even say"),
        (lambda _: "allow", "got str"),
        (lambda _: True, "got bool"),
        (lambda _: False, "got bool"),
        (lambda _: [1], "got list"),
        (lambda _: HookReply, "got StructMeta"),
        (lambda _: {"alow": True}, "has no 'alow'"),
        (lambda _: {1: 2}, "a member named by int"),
        (lambda _: {"stop": True}, "stop must be text"),
        (lambda _: {"stop": "\ud800"}, "stop is not a JSON value"),
        (lambda _: {"message": "\ud800"}, "message is not a JSON value"),
        (lambda _: HookReply(progress="\ud800"), "progress is not a JSON value"),
        (lambda _: {"permission_result": "maybe"}, "permission_result must be one of"),
        (lambda _: {"permission_result": ["allow"]}, "permission_result must be one of"),
        (lambda _: {"updated_input": [1]}, "updated_input must be an object"),
        (lambda _: {"updated_input": endless()}, "updated_input is not a JSON value"),
        (lambda _: {"updated_input": {"a": float("nan")}}, "(at '/updated_input/a')"),
        (lambda _: {"updated_input": {"a": object()}}, "updated_input is not a JSON value"),
        (lambda _: {"additional_context": "text"}, "a list of objects"),
        (lambda _: {"additional_context": [{}, "text"]}, "additional_context must be a list of objects"),
        (lambda _: {"additional_context": [{"a": object()}]}, "additional_context is not a JSON value"),
        (lambda _: {"additional_context": [endless()]}, "additional_context is not a JSON value"),
    ],
)
async def test_a_hook_that_dies_or_talks_rubbish_fails_the_call_by_name(once, answer, problem, event):
    result = await once(add, {"a": 1}, hooks=[hook(answer, event)])
    assert (result.status, result.error.error_class) == ("failed", failed(event))
    assert result.error.message.startswith("hook 'odd' failed: ")
    assert problem in result.error.message


@pytest.mark.parametrize("event", EVENTS)
async def test_a_hook_that_hangs_fails_the_call_in_its_time(once, event):
    result = await once(add, {"a": 1}, hooks=[hook(lambda _: asyncio.Event().wait(), event, timeout_s=0.02)])
    assert result.error.error_class == failed(event)
    assert "no answer within 0.02 s" in result.error.message


@pytest.mark.parametrize(
    "runner", [object(), type("Sync", (), {"run": lambda *_: {"stop": "x"}})()], ids=["none", "sync"]
)
async def test_a_runner_that_is_none_fails_the_call(once, runner):
    result = await once(add, {"a": 1}, hooks=[Hook(name="odd", event=PRE, runner=runner)])
    assert result.error.error_class == "hook_failed"


async def test_a_hook_that_meddles_with_what_it_was_shown_changes_nothing(once):
    inputs = []

    def meddle(question):
        inputs.append(question.input)
        question.input["a"] = 999
        question.input["evil"] = True

    def keep_and_change(question):
        inputs.append(question.input)
        return {"updated_input": question.input}

    class Later:
        async def run(self, question):
            for each in inputs:
                each["a"] = -1

    hooks = [hook(meddle), hook(keep_and_change), Hook(name="later", event=REQUEST, runner=Later())]
    result = await once(add, {"a": 1}, hooks=hooks)
    assert result.structured_content == 2


async def test_an_input_that_a_hook_made_is_held_to_the_schema(once):
    result = await once(add, {"a": 1}, hooks=[hook(lambda _: {"updated_input": {"a": "x"}})])
    assert result.error.error_class == "schema_validation_failed"
    assert "at '/a': expected integer" in result.error.message


async def test_an_output_that_a_hook_made_is_mapped_like_any_other(once):
    result = await once(add, {"a": 1}, hooks=[hook(lambda _: {"updated_output": {"x": object()}}, POST)])
    assert result.error.error_class == "result_mapping_failed"
    assert "at /x" in result.error.message


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"event": "pre_tool_us"}, "unknown event, got 'pre_tool_us'"),
        ({"event": None}, "unknown event"),
        ({"tools": "local.add"}, "a list of patterns"),
        ({"tools": (5,)}, "a list of patterns"),
        ({"tools": 5}, "a list of patterns"),
        ({"timeout_s": 0}, "a timeout above 0"),
        ({"timeout_s": None}, "a timeout above 0"),
        ({"timeout_s": "5"}, "a timeout above 0"),
        ({"timeout_s": float("nan")}, "a timeout above 0"),
    ],
)
def test_a_hook_that_would_never_be_asked_is_refused(options, problem):
    with pytest.raises(ConfigError, match=problem):
        Hook(**{"name": "odd", "event": PRE, "runner": Runner(lambda _: None), **options})


@pytest.mark.parametrize("event", [PRE, REQUEST])
async def test_a_hook_that_exits_is_named_as_the_fault(once, event):
    result = await once(add, {"a": 1}, hooks=[hook(raising(SystemExit(3)), event)])
    assert result.error.error_class == "hook_failed"
    assert "hook 'odd'" in result.error.message


async def test_a_hook_that_cancels_itself_cancels_only_itself(once):
    result = await once(add, {"a": 1}, hooks=[hook(raising(asyncio.CancelledError()))])
    assert result.error.error_class == "hook_failed"


async def test_a_hook_that_ignores_its_time_is_left_behind(allow):
    async def stubborn():
        async with asyncio.timeout(120):
            while True:
                try:
                    await asyncio.sleep(120)
                except asyncio.CancelledError:
                    if asyncio.current_task().cancelling() > 1:
                        raise

    hooks = [hook(lambda _: stubborn(), timeout_s=0.02)]
    async with Runtime.open(tools=[add], rules=allow, hooks=hooks, approve="wait") as runtime, asyncio.timeout(60):
        result = await runtime.call("add", {"a": 1}, surface=await runtime.surface())
    assert result.error.error_class == "hook_failed"


async def test_a_hook_at_result_persistence_is_asked(once):
    result = await once(add, {"a": 1}, hooks=[hook(lambda _: {"stop": "no"}, HookEvent.RESULT_PERSISTENCE)])
    assert result.error.error_class == "hook_blocked"
