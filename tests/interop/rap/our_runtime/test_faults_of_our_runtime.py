"""Our governed runtime over a Node provider that lies, repeats, delays and dies, and across deaths of our own."""

import asyncio
import json

import pytest
from starting import begin

from agenttool.records import ErrorClass

pytestmark = pytest.mark.slow  # every test starts a program

CALLS = 12


def text_of(result):
    return "".join(item.text for item in result.content if item.type == "text")


async def echo_all(runtime, count):
    """Make calls in a few threads at once; each must end in its own text."""
    surface = await runtime.surface()
    threads = [runtime.in_thread(f"s/{n}") for n in range(3)]
    calls = [threads[n % 3].call("echo", {"text": f"t{n}"}, surface=surface) for n in range(count)]
    assert [text_of(result) for result in await asyncio.gather(*calls)] == [f"t{n}" for n in range(count)]


@pytest.mark.requirement("RAP-032", "RAP-092", "RAP-095", "RAP-400", "RAP-401", "RAP-404")
@pytest.mark.parametrize(
    "fault", ["duplicate", "contradict", "delay", "reorder", "strangers", "refuse-first", "lose-ack", "late-ack"]
)
async def test_every_call_ends_once_in_its_own_result(governed, fault):
    async with governed("--faults", fault) as (provider, runtime):
        await echo_all(runtime, CALLS)
        provider.exactly(CALLS, event="run")
        await asyncio.to_thread(provider.wait_for, event="callback", type="tool_result", count=CALLS)
        extra = {line["what"]: line["status"] for line in provider.reported(event="fault")}
        assert not any(status >= 500 for status in extra.values()), extra


@pytest.mark.requirement("RAP-090", "RAP-343", "RAP-406", "RAP-411")
async def test_garbage_is_refused_and_settles_nothing(governed):
    async with governed("--faults", "garbage") as (provider, runtime):
        await echo_all(runtime, 2)
        await asyncio.to_thread(provider.wait_for, event="callback", count=2)
        answers = {line["what"]: line["status"] for line in provider.reported(event="fault")}
        assert len(answers) > 20
        assert {what: status for what, status in answers.items() if not 400 <= status < 500} == {}
        assert await runtime.prompts.list() == ()


@pytest.mark.requirement("RAP-091", "RAP-093", "RAP-094", "RAP-264", "RAP-406")
async def test_strangers_change_nothing(governed):
    async with governed("--faults", "strangers") as (provider, runtime):
        await echo_all(runtime, 1)
        await asyncio.to_thread(provider.wait_for, event="callback")
        assert {line["status"] for line in provider.reported(event="fault")} <= {404, 410}
        assert await runtime.sources.get("rap").views.of() == ()
        assert await runtime.sources.get("rap").subscriptions.events() == ()


@pytest.mark.requirement("RAP-186", "RAP-193")
async def test_events_outside_of_their_subscription_are_dropped(governed):
    async with governed("--faults", "stray-events") as (provider, runtime):
        arguments = {"bed": 1, "events": 3, "associative": True}
        call = await begin(runtime, "watch", arguments, surface=await runtime.surface())
        await asyncio.to_thread(provider.wait_for, event="fault", what="late event")
        assert {line["status"] for line in provider.reported(event="fault")} <= {200, 404, 410}
        events = await runtime.sources.get("rap").subscriptions.events()
        assert [json.loads(event.text)["n"] for event in events] == [1, 2, 3]
        assert (await runtime.calls.get(call.invocation_id).result()).error is None


@pytest.mark.requirement("RAP-031", "RAP-033", "RAP-409")
@pytest.mark.parametrize("status", [202, 307, 400])
async def test_only_200_takes_a_call_on_and_nothing_else_is_tried_again(governed, status):
    async with governed("--faults", f"answer-{status}") as (provider, runtime):
        result = await runtime.call("list_beds", {}, surface=await runtime.surface())
        assert result.error.error_class is ErrorClass.EXECUTION_FAILED
        provider.exactly(1, event="answered", status=status)
        assert provider.reported(event="followed") == []


@pytest.mark.requirement("RAP-283", "RAP-284", "RAP-302")
async def test_a_notice_that_fails_is_neither_repeated_nor_waited_for(governed):
    async with governed("--faults", "deaf") as (provider, runtime):
        call = await begin(runtime, "grow", {"ms": 60_000}, surface=await runtime.surface())
        assert await runtime.cancel(call.invocation_id)
        assert (await runtime.calls.get(call.invocation_id).result()).error.error_class is ErrorClass.CANCELED
        await runtime.sources.get("rap").close_thread("s/0")
        await asyncio.to_thread(provider.wait_for, event="ignored", thread="s/0")
        await echo_all(runtime, 6)
        provider.exactly(2, event="ignored")


@pytest.mark.requirement("RAP-416")
async def test_a_repeated_prompt_replaces_the_one_before(governed):
    async with governed("--faults", "duplicate") as (provider, runtime):
        call = await begin(runtime, "open_valve", {"minutes": 9}, surface=await runtime.surface())
        await asyncio.to_thread(provider.wait_for, event="fault", what="duplicate", status=200)
        (prompt,) = await runtime.prompts.list()
        assert (await runtime.prompts.choose(prompt.prompt_id, 0)).is_delivered
        assert text_of(await runtime.calls.get(call.invocation_id).result()) == "picked 0: Open for 9 minutes"


@pytest.mark.requirement("RAP-034")
async def test_a_provider_that_vanished_gives_an_error_result(governed):
    async with governed(attempts=2) as (provider, runtime):
        provider.kill()
        result = await runtime.call("list_beds", {}, surface=await runtime.surface())
        assert result.error.error_class is ErrorClass.DEPENDENCY_UNAVAILABLE


@pytest.mark.requirement("RAP-092", "RAP-095", "RAP-401")
async def test_everything_at_once_changes_no_result(governed):
    faults = "duplicate,contradict,delay,reorder,garbage,strangers,stray-events,lose-ack"
    async with governed("--faults", faults) as (provider, runtime):
        await echo_all(runtime, 24)
        provider.exactly(24, event="run")


async def test_hundreds_of_calls_never_mix_their_results(governed):
    async with governed() as (_, runtime):
        await echo_all(runtime, 300)


async def test_a_killed_provider_finishes_for_a_runtime_that_waits(governed, node_provider, tmp_path):
    state = ["--state", tmp_path / "p"]
    provider = node_provider(*state)
    async with governed(provider=provider) as (_, runtime):
        call = await begin(runtime, "grow", {"ms": 400}, surface=await runtime.surface())
        provider.kill()
        await asyncio.to_thread(node_provider, *state, "--port", provider.port)
        assert text_of(await runtime.calls.get(call.invocation_id).result()) == "grown after 400 ms"


@pytest.mark.requirement("RAP-400")
def test_a_killed_runtime_receives_the_results_of_its_calls(our_runtime, node_provider):
    provider = node_provider()
    runtime = our_runtime(provider)
    runtime.do("start", tool="grow", arguments={"ms": 300})
    slow = runtime.wait_for(event="started", tool="grow")["id"]
    runtime.do("start", tool="open_valve", arguments={"minutes": 2})
    asking = runtime.wait_for(event="started", tool="open_valve")["id"]
    provider.wait_for(event="callback", type="user_choice", status=200)
    runtime.kill()
    again = our_runtime(provider, port=runtime.port)
    again.do("choose", selected=0)
    assert again.wait_for(event="chosen")["received"]
    again.do("wait", id=asking)
    assert again.wait_for(event="result", id=asking)["text"] == "picked 0: Open for 2 minutes"
    again.do("wait", id=slow)
    assert again.wait_for(event="result", id=slow)["text"] == "grown after 300 ms"
    provider.exactly(2, event="run")


def test_a_runtime_that_is_killed_again_and_again_loses_no_event_and_no_result(our_runtime, node_provider):
    provider = node_provider()
    runtime = our_runtime(provider)
    calls = []
    for n in range(6):
        runtime.do("start", tool="grow", arguments={"ms": 50 * n})
        runtime.do("start", tool="watch", arguments={"bed": n + 1, "events": 8, "every_ms": 20})
        calls.append(runtime.wait_for(event="started", tool="grow")["id"])
        runtime.wait_for(event="started", tool="watch")
        runtime.kill()
        runtime = our_runtime(provider, port=runtime.port)
    for n, call in enumerate(calls):
        runtime.do("wait", id=call)
        assert runtime.wait_for(event="result", id=call)["text"] == f"grown after {50 * n} ms"
    provider.wait_for(event="subscription_ended", count=6)
    runtime.do("events")
    seen = {(event["bed"], event["n"]) for event in map(json.loads, runtime.wait_for(event="events")["texts"])}
    assert seen == {(bed, n) for bed in range(1, 7) for n in range(1, 9)}
