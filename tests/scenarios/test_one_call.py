"""One governed call, through the public door."""

import asyncio
from typing import Annotated

import pytest

from agenttool import Context, Internal, Progress, Runtime, Sensitive, tool
from agenttool.codec import to_json
from agenttool.hooks.definition import Hook
from agenttool.records import HookEvent, InputContract
from agenttool.testing.fakes import scripted_tool

OPEN = {"type": "object", "properties": {"user": {"type": "string"}}, "anyOf": [{"required": ["user"]}]}


@tool(namespace="math", read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@pytest.mark.requirement("AT-INV-09", "AT-EVT-12")
async def test_a_plain_call_takes_its_steps_in_order_and_ends_once(call, records):
    async with Runtime.open(tools=[add], approve="wait") as rt:
        result = await call(rt, "add", {"a": 2, "b": 3})
        events = [e for e in await records(rt, "tool_event") if e.get("invocation_id") == result.invocation_id]
        invocation = to_json(await rt.journal.invocation(result.invocation_id))
    assert result.structured_content == 5
    assert [event["event_type"].removeprefix("tool.") for event in events] == [
        "invocation.planned",
        "invocation.selected",
        "invocation.arguments_ready",
        "permission.requested",
        "permission.decided",
        "invocation.queued",
        "invocation.started",
        "result.created",
        "invocation.yielded",
        "invocation.succeeded",
    ]
    assert [event["data"]["sequence"] for event in events] == list(range(1, 11))
    assert invocation["status"] == "succeeded"
    assert invocation["status_transitions"][-1]["status"] == "succeeded"
    assert invocation["created_at"] <= invocation["started_at"] <= invocation["ended_at"]


@pytest.mark.requirement("AT-PIPE-05", "AT-IO-03")
@pytest.mark.parametrize(
    "arguments", [{"a": "two"}, {}, {"a": 1, "c": 2}, {"a": None}, {"a": True}, "{", "[1]", b"\xff"]
)
async def test_arguments_that_do_not_fit_never_reach_the_tool(arguments, call, error, allow):
    ran = []

    @tool
    async def spy(a: int) -> int:
        """Note that it ran."""
        ran.append(a)
        return a

    async with Runtime.open(tools=[spy], rules=allow, approve="wait") as rt:
        result = await call(rt, "spy", arguments)
        invocation = await rt.journal.invocation(result.invocation_id)
    assert ran == []
    assert (result.status.value, result.is_error, error(result)) == ("failed", True, "schema_validation_failed")
    assert invocation.status == "schema_parse_failed"


async def test_a_name_that_leads_nowhere_is_a_result_too(call, error):
    async with Runtime.open(tools=[add], approve="wait") as rt:
        unknown = await call(rt, "subtract", {})
        homeless = await rt.call("add", {"a": 1}, surface=7)
        invocation = await rt.journal.invocation(unknown.invocation_id)
    assert (error(unknown), unknown.error.error_code) == ("unknown_tool", "unknown_tool")
    assert (error(homeless), homeless.error.error_code) == ("unknown_tool", "unknown_surface")
    assert invocation.tool_id == "unresolved:subtract"


async def test_a_tool_that_raises_and_one_that_lost_its_backend_are_distinguished(call, error, allow):
    @tool
    async def explode() -> str:
        """Raise."""
        raise ValueError("out of ink")

    @tool
    async def unplugged() -> str:
        """Lose the backend."""
        raise ConnectionError("refused")

    async with Runtime.open(tools=[explode, unplugged], rules=allow, approve="wait") as rt:
        raised, lost = await call(rt, "explode", {}), await call(rt, "unplugged", {})
    assert error(raised) == "execution_failed"
    assert "out of ink" in raised.error.message
    assert "Traceback" not in raised.model_facing_content[0].text
    assert error(lost) == "dependency_unavailable"


async def test_a_tool_that_ignores_its_deadline_is_left_behind(call, error, allow):
    @tool(timeout_s=0.01)
    async def stubborn() -> str:
        """Never stop."""
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async with Runtime.open(tools=[stubborn], rules=allow, approve="wait") as rt:
        rt._core.timing.grace_period = type(rt._core.timing.grace_period)(
            call_later=asyncio.get_running_loop().call_later, after_stop=0.01, after_caller=1
        )
        result = await call(rt, "stubborn", {})
        assert (result.status.value, error(result), result.abort_reason) == ("timed_out", "timeout", "timeout")
        assert (await call(rt, "stubborn", {})).status.value == "timed_out", "the next call must not wait for it"
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.requirement("AT-HOOK-09", "AT-PIPE-12", "AT-ERR-07")
async def test_a_hook_that_stops_a_hook_that_fails_a_policy_and_a_refusal_end_the_call_in_their_own_way(
    call, error, rule
):
    class Stop:
        async def run(self, question):
            return {"stop": "office hours only"}

    class Fail:
        async def run(self, question):
            raise KeyError("whoops")

    ended = {}
    for name, runner in (("stop", Stop()), ("fail", Fail())):
        hook = Hook(name=name, event=HookEvent.PRE_TOOL_USE, runner=runner)
        async with Runtime.open(tools=[add], hooks=[hook], approve="wait") as rt:
            ended[name] = await call(rt, "add", {"a": 1})
    assert (ended["stop"].status.value, error(ended["stop"])) == ("denied", "hook_blocked")
    assert (ended["fail"].status.value, error(ended["fail"])) == ("failed", "hook_failed")
    for name, judged in (("policy", rule("deny", "*", source="policy_settings")), ("person", rule("ask", "*"))):
        async with Runtime.open(tools=[add], rules=[judged], approve=lambda _: False) as rt:
            ended[name] = await call(rt, "add", {"a": 1})
    assert (ended["policy"].status.value, error(ended["policy"])) == ("denied", "policy_blocked")
    assert (ended["person"].status.value, error(ended["person"])) == ("rejected", "approval_rejected")


@pytest.mark.requirement("AT-IO-06", "AT-IO-07")
async def test_a_secret_is_nowhere_in_the_records_and_an_internal_field_is_not_the_models_to_set(
    call, records, error, allow
):
    seen = []

    @tool
    async def login(
        user: str, password: Annotated[str, Sensitive], tenant: Annotated[str, Internal] = "acme"
    ) -> dict[str, str]:
        """Log in."""
        seen.append((password, tenant))
        return {"message": f"{user} with {password}", "token": f"t-{password}"}

    async with Runtime.open(tools=[login], rules=allow, approve="wait") as rt:
        result = await call(rt, "login", {"user": "ada", "password": "correct horse battery"})
        refused = await call(rt, "login", {"user": "ada", "password": "x" * 9, "tenant": "evil"})
        everything = repr(await records(rt))
    assert seen == [("correct horse battery", "acme")]
    assert "correct horse battery" not in everything + repr(result)
    assert error(refused) == "schema_validation_failed"


@pytest.mark.requirement("AT-IO-07")
async def test_a_caller_may_not_set_an_internal_field_that_a_composed_schema_lets_in(call, error, allow, changed):
    contract = InputContract(model_input_schema=OPEN, internal_only_fields=("tenant",))
    probe = changed(scripted_tool("probe", schema=OPEN), declaration={"input_contract": contract})
    async with Runtime.open(tools=[probe], rules=allow, approve="wait") as rt:
        refused = await call(rt, "probe", {"user": "ada", "tenant": "evil"})
        taken = await call(rt, "probe", {"user": "ada"})
    assert (error(refused), error(taken)) == ("schema_validation_failed", None)
    assert probe.executor.inputs == [{"user": "ada"}]


async def test_progress_comes_in_order_and_before_the_result(call, records, allow):
    @tool
    async def bake(context: Context, loaves: int = 2):
        """Bake bread."""
        for loaf in range(loaves):
            yield Progress(f"loaf {loaf + 1}", percent=100 * (loaf + 1) / loaves)
        context.progress("cooling")
        yield f"{loaves} loaves"

    async with Runtime.open(tools=[bake], rules=allow, approve="wait") as rt:
        result = await call(rt, "bake", {})
        progress = await records(rt, "tool_progress")
    assert result.model_facing_content[0].text == "2 loaves"
    assert [(update["sequence"], update.get("message")) for update in progress][:3] == [
        (1, "loaf 1"),
        (2, "loaf 2"),
        (3, "cooling"),
    ]


async def test_cancelling_stops_what_can_stop(call, records, error, allow):
    started = asyncio.Event()

    @tool
    async def patient() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with Runtime.open(tools=[patient], rules=allow, approve="wait") as rt:
        running = asyncio.ensure_future(call(rt, "patient", {}))
        await started.wait()
        (invocation_id,) = rt._core.registry.calls
        assert await rt.cancel(invocation_id)
        result = await running
        assert not await rt.cancel(invocation_id), "it has ended"
        events = [event["event_type"] for event in await records(rt, "tool_event")]
    assert (result.status.value, error(result), result.abort_reason) == ("canceled", "canceled", "user_interruption")
    assert "tool.invocation.cancel_requested" in events
    assert events[-1] == "tool.invocation.canceled"


async def test_whole_floats_are_integers_also_inside_lists_and_mappings():
    seen = []

    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def count(sizes: list[int], by_name: dict[str, list[int]]) -> str:
        """Count."""
        seen.append(repr((sizes, by_name)))
        sizes.clear()
        return "counted"

    async with Runtime.open(tools=[count], approve="wait") as rt:
        surface = await rt.surface()
        sent = {"sizes": [1.0, 2], "by_name": {"a": [3.0]}}
        result = await rt.call("count", sent, surface=surface)
        invocation = await rt.journal.invocation(result.invocation_id)
    assert seen == ["([1, 2], {'a': [3]})"]
    assert invocation.model_input == sent


async def test_the_code_of_a_tool_that_checks_or_normalizes_cannot_change_the_input_unrecorded():
    def meddle(value):
        value["items"].append("meddled")

    seen = []

    @tool(
        read_only=True, concurrency_safe=True, open_world=False, check=meddle, locks=lambda value: meddle(value) or []
    )
    async def take(items: list[str]) -> str:
        """Take."""
        seen.append(list(items))
        return "taken"

    async with Runtime.open(tools=[take], approve="wait") as rt:
        await rt.call("take", {"items": ["a"]}, surface=await rt.surface())
    assert seen == [["a"]]


async def test_a_default_that_an_edited_input_leaves_out_is_judged(tmp_path):
    ran = []

    @tool()
    async def transfer(to: str, amount: int = 9000) -> str:
        """Transfer money."""
        ran.append((to, amount))
        return "sent"

    settings = tmp_path / "agenttool.toml"
    settings.write_text('[[rules]]\nbehavior = "deny"\ntool = "transfer"\nargument = { "/amount" = { min = 1000 } }\n')
    async with Runtime.open(tools=[transfer], config=settings, approve="wait") as rt:
        calling = asyncio.ensure_future(rt.call("transfer", {"to": "ada", "amount": 5}, surface=await rt.surface()))
        async for _ in rt.journal.events():
            if questions := await rt.approvals.list():
                break
        refused = await rt.approvals.decide(questions[0].approval_id, "allow", input={"to": "ada"})
        assert (refused.reason, "denies this call" in refused.message) == ("bad_input", True)
        await rt.approvals.decide(questions[0].approval_id, "allow", input={"to": "eve", "amount": 7})
        result = await calling
        invocation = await rt.journal.invocation(result.invocation_id)
    assert (ran, invocation.call_input) == ([("eve", 7)], {"to": "eve", "amount": 7})
