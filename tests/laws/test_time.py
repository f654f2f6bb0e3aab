"""What takes time: attempts, rates, silence. On a loop that skips time, so that hours cost nothing."""

import asyncio
import dataclasses
import itertools

import pytest

from agenttool import tool
from agenttool.errors import ToolFailure
from agenttool.policy.rules import Rule
from agenttool.ports.limits import RateLimit
from agenttool.records import Behavior, ErrorClass, RuleSource, ToolError, replace
from agenttool.testing.fakes import scripted_tool

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
ADD = {"read_only": True, "concurrency_safe": True, "open_world": False}


def now():
    return asyncio.get_running_loop().time()


async def call(rt, name, arguments=None):
    return await rt.call(name, arguments or {}, surface=await rt.surface())


def flaky(failures, error, **options):
    """A tool that fails so often before it succeeds, and remembers when it was tried."""
    tried = []

    @tool(**{**ADD, **options})
    async def fetch() -> str:
        """Fetch something. Not for anything else."""
        tried.append(now())
        if len(tried) <= failures:
            raise error
        return "there"

    return fetch, tried


@pytest.mark.requirement("AT-EXEC-12")
def test_a_tool_that_may_be_repeated_is_tried_again_with_growing_pauses(run, opened, sound_export):
    fetch, tried = flaky(2, ConnectionError("gone"), idempotent=True)

    async def scenario():
        async with opened([fetch]) as rt:
            result = await call(rt, "fetch")
            return result, await sound_export(rt)

    result, records = run(scenario())
    assert (result.status, result.content[0].text) == ("succeeded", "there")
    assert [after - before for before, after in itertools.pairwise(tried)] == [0.5, 1.0]
    recorded = [each["data"] for each in records if each["record_type"] == "tool_event" and "attempt" in each["data"]]
    assert [(each["attempt"], each["error_class"]) for each in recorded] == [
        (1, "dependency_unavailable"),
        (2, "dependency_unavailable"),
    ]


def test_after_the_last_attempt_the_failure_stands(run, opened):
    fetch, tried = flaky(9, ConnectionError("gone"), idempotent=True)

    async def scenario():
        async with opened([fetch]) as rt:
            return await call(rt, "fetch")

    assert run(scenario()).error.error_class == "dependency_unavailable"
    assert len(tried) == 3


@pytest.mark.parametrize(
    ("error", "options"),
    [(ConnectionError("gone"), {}), (ValueError("wrong"), {"idempotent": True})],
    ids=["not declared", "not passing"],
)
def test_what_was_not_declared_safe_or_will_not_pass_is_tried_once(run, opened, error, options):
    fetch, tried = flaky(1, error, **options)

    async def scenario():
        async with opened([fetch]) as rt:
            return await call(rt, "fetch")

    assert run(scenario()).is_error
    assert len(tried) == 1


def test_an_attempt_waits_at_least_as_long_as_the_other_side_asked(run, opened):
    busy = ToolFailure(ToolError(error_class=ErrorClass.RATE_LIMITED, message="busy", retry_after=7.0))
    fetch, tried = flaky(1, busy, idempotent=True)

    async def scenario():
        async with opened([fetch]) as rt:
            return await call(rt, "fetch")

    assert run(scenario()).status == "succeeded"
    assert tried[1] - tried[0] == 7.0


def test_no_attempt_is_made_past_the_deadline(run, opened):
    busy = ToolFailure(ToolError(error_class=ErrorClass.RATE_LIMITED, message="busy", retry_after=7.0))
    fetch, tried = flaky(1, busy, idempotent=True, timeout_s=5)

    async def scenario():
        async with opened([fetch]) as rt:
            return await call(rt, "fetch")

    assert run(scenario()).error.error_class == "rate_limited"
    assert len(tried) == 1


def test_a_call_that_waits_for_its_next_attempt_can_be_canceled(run, opened):
    fetch, tried = flaky(1, ConnectionError("gone"), idempotent=True)

    async def scenario():
        async with opened([fetch]) as rt:
            calling = asyncio.ensure_future(call(rt, "fetch"))
            async for _, event in rt.journal.events():
                if event.event_type == "tool.invocation.progress":
                    assert await rt.cancel(event.invocation_id)
                    break
            return await calling

    assert run(scenario()).status == "canceled"
    assert len(tried) == 1


def test_calls_above_the_rate_wait_for_their_turn_in_order(run, opened, sound_export):
    began = []

    @tool(**ADD, rate_limit=RateLimit(per_second=2, burst=2))
    async def search(n: int) -> int:
        """Search. Not for finding."""
        began.append((n, now()))
        return n

    async def scenario():
        async with opened([search]) as rt:
            surface = await rt.surface()
            await asyncio.gather(*(rt.call("search", {"n": n}, surface=surface) for n in range(5)))
            return await sound_export(rt)

    records = run(scenario())
    assert began == [(0, 0.0), (1, 0.0), (2, 0.5), (3, 1.0), (4, 1.5)]
    assert all(each["status"] == "succeeded" for each in records if each["record_type"] == "tool_invocation")


def test_a_call_that_would_wait_too_long_gets_the_time_to_come_back(run, opened):
    @tool(**ADD, rate_limit=RateLimit(per_second=0.1, max_wait_s=5))
    async def search() -> str:
        """Search. Not for finding."""
        return "found"

    async def scenario():
        async with opened([search]) as rt:
            return [await call(rt, "search") for _ in range(2)]

    first, second = run(scenario())
    assert first.status == "succeeded"
    assert (second.error.error_class, second.error.retry_after) == ("rate_limited", 10.0)
    assert second.error.retry.safe


def test_a_source_that_asks_for_quiet_is_left_alone_by_later_calls(run, opened):
    tried = []

    async def work(job):
        tried.append(now())
        if len(tried) == 1:
            raise ToolFailure(ToolError(error_class=ErrorClass.RATE_LIMITED, message="busy", retry_after=20.0))

    @tool(**ADD, rate_limit=RateLimit(per_second=100))
    async def search() -> None:
        """Search. Not for finding."""
        await work(None)

    async def scenario():
        async with opened([search]) as rt:
            return [await call(rt, "search") for _ in range(2)]

    assert [each.status for each in run(scenario())] == ["failed", "succeeded"]
    assert tried[1] - tried[0] == pytest.approx(20.0)


def test_silence_ends_a_tool_and_a_sign_of_life_does_not_outlast_its_time(run, opened):
    async def scenario(every):
        async def work(job):
            while True:
                await asyncio.sleep(every)
                job.report("still here")

        probe = scripted_tool("probe", work)
        profile = replace(probe.execution_profile, timeout_ms=10_000, timeout_behavior={"idle_timeout_ms": 1000})
        async with opened([dataclasses.replace(probe, execution_profile=profile)], rules=ALLOW) as rt:
            result = await call(rt, "probe")
            return result.error.error_class, now()

    assert run(scenario(2.0)) == ("timeout", 1.0)
    assert run(scenario(0.5)) == ("timeout", 10.0)


def test_a_tool_that_reports_without_end_does_not_fill_the_journal(run, opened):
    async def work(job):
        for _ in range(100_000):
            job.report("and on")
            await asyncio.sleep(0.0001)

    async def scenario():
        async with opened([scripted_tool("probe", work)], rules=ALLOW) as rt:
            result = await call(rt, "probe")
            recorded = [each async for each in rt.journal.export() if each.__class__.__name__ == "ToolProgress"]
            return result, recorded

    result, recorded = run(scenario())
    assert result.status == "succeeded"
    assert [each.sequence for each in recorded] == list(range(1, len(recorded) + 1))
    assert 100 < len(recorded) < 400


@pytest.mark.parametrize("before", [0.0, 4.0])
@pytest.mark.parametrize("behaviour", [{}, {"idle_timeout_ms": 7000}], ids=["cap", "idle"])
@pytest.mark.parametrize("deciders", [1, 2])
def test_the_time_of_a_call_stands_still_while_a_person_is_asked_about_one_it_made(
    run, opened, before, behaviour, deciders
):
    """A person who takes a minute does not cost the tool its ten seconds; what it takes itself does."""

    async def scenario(after):
        async def work(job):
            if before:
                await asyncio.sleep(before)
            await asyncio.gather(*[job.call("inner", {"n": n}) for n in range(deciders)])
            job.report("answered")
            await asyncio.sleep(after)

        outer = scripted_tool("outer", work)
        profile = replace(outer.execution_profile, timeout_ms=10_000, timeout_behavior=behaviour)
        outer = dataclasses.replace(outer, execution_profile=profile)
        rules = [*ALLOW, Rule(ref="ask", behavior=Behavior.ASK, source=RuleSource.CLI_ARG, tools=("test.inner",))]
        async with opened([outer, scripted_tool("inner")], rules=rules) as rt:
            calling = asyncio.ensure_future(call(rt, "outer"))
            for _ in range(deciders):
                await asyncio.sleep(60.0)
                await rt.approvals.decide((await rt.approvals.list())[0].approval_id, "allow")
            result = await calling
            return result.status, now()

    asked = 60.0 * deciders
    assert run(scenario(after=5.0)) == ("succeeded", asked + 5.0)
    assert run(scenario(after=50.0)) == ("timed_out", asked + min(7.0 if behaviour else 10.0, 10.0 - before))
