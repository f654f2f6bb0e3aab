"""Subscriptions: open once confirmed, until the last event or until their own thread ends them."""

import asyncio

import pytest

from agenttool.adapters.rap import callbacks, subscriptions
from agenttool.errors import StoreError


async def subscribed(rt, server, started):
    call, invocation = await started(rt, server)
    assert await server.settle(invocation, "Watching.", subscription=True) == 200
    await rt.calls.get(call.invocation_id).result()
    return call, invocation


def event(server, invocation, text="dry", **members):
    return server.post(invocation, "subscription_event", text=text, **members)


@pytest.mark.requirement("RAP-185", "RAP-187", "RAP-188", "RAP-191", "RAP-192")
async def test_events_come_in_as_calls_of_a_reserved_name(running, tool_server, started):
    server = tool_server()
    async with running(server, options={"thread": "plot-9"}) as rt:
        call, invocation = await subscribed(rt, server, started)
        (opened,) = await rt.sources.get("rap").subscriptions.of("plot-9")
        assert (opened.tool_call_id, opened.name, opened.arguments) == (call.invocation_id, "read_probe", {"bed": 3})
        before = await rt.journal.result(call.invocation_id)
        assert await event(server, invocation, "inline", associative=True) == 200
        assert await event(server, invocation, "apart") == 200
        inline, apart = await rt.sources.get("rap").subscriptions.events()
        assert (inline.name, inline.text, inline.thread.thread_id) == ("receive_event__injected", "inline", "plot-9")
        assert inline.arguments == {
            "original_tool_name": "read_probe",
            "original_tool_call_id": call.invocation_id,
            "original_args": {"bed": 3},
        }
        assert (apart.is_inline, apart.thread.ancestors) == (False, ("plot-9",))
        assert apart.thread.thread_id not in ("plot-9", inline.thread.thread_id)
        assert await rt.journal.result(call.invocation_id) == before


async def test_equal_events_are_two_events_and_stay_until_dealt_with(running, tool_server, started, tmp_path):
    server = tool_server()
    async with running(server, options={"store": f"sqlite:{tmp_path}/state.db"}) as rt:
        _, invocation = await subscribed(rt, server, started)
        for _ in range(2):
            await event(server, invocation)
        first, second = await rt.sources.get("rap").subscriptions.events()
        await rt.sources.get("rap").subscriptions.done(first.event_id)
        assert await rt.sources.get("rap").subscriptions.events() == (second,)
        following = rt.sources.get("rap").subscriptions.follow(second.event_id)
        coming = asyncio.ensure_future(anext(following))
        await event(server, invocation, "news")
        assert (await coming).text == "news"
        await following.aclose()


@pytest.mark.requirement("RAP-124")
async def test_an_event_stays_until_a_host_has_handled_it(running, tool_server, started, tmp_path):
    server = tool_server()
    async with running(server, options={"store": f"sqlite:{tmp_path}/state.db"}) as rt:
        _, invocation = await subscribed(rt, server, started)
        await event(server, invocation)
        following = rt.sources.get("rap").subscriptions.follow()
        first = await anext(following)
        await following.aclose()  # its model failed; it never came to say that it is done
        async with type(rt).open(store=f"sqlite:{tmp_path}/state.db", sources=rt.sources.get("rap").servers) as later:
            assert await later.sources.get("rap").subscriptions.events() == (first,)


@pytest.mark.requirement("RAP-095", "RAP-098")
async def test_a_second_try_to_deliver_an_event_is_no_second_event(running, tool_server, started, tmp_path):
    server = tool_server()
    async with running(server, options={"store": f"sqlite:{tmp_path}/state.db"}) as rt:
        _, invocation = await subscribed(rt, server, started)

        async def deliver(key, text="dry", **members):
            return await event(server, invocation, text, headers={"Idempotency-Key": key}, **members)

        assert [await deliver(key) for key in ("1", "2", "1", "2", "3", "1")] == [200] * 6
        (first, *_) = await rt.sources.get("rap").subscriptions.events()
        await rt.sources.get("rap").subscriptions.done(first.event_id)
        assert await deliver("1") == 200
        assert [each.text for each in await rt.sources.get("rap").subscriptions.events()] == ["dry", "dry"]
        assert [await deliver("4", "bye", final=True) for _ in range(2)] == [200, 410]
        assert len(await rt.sources.get("rap").subscriptions.events()) == 3


@pytest.mark.requirement("RAP-193", "RAP-186")
async def test_the_last_event_ends_a_subscription(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await subscribed(rt, server, started)
        assert await event(server, invocation, "bye", final=True) == 200
        assert await rt.sources.get("rap").subscriptions.of() == ()
        assert await event(server, invocation, "too late") == 410
        assert [each.text for each in await rt.sources.get("rap").subscriptions.events()] == ["bye"]


@pytest.mark.requirement("RAP-186")
async def test_events_without_a_subscription_are_dropped(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        assert await event(server, invocation, "before it was confirmed") == 410
        await server.settle(invocation, "Error: no such bed")
        await rt.calls.get(call.invocation_id).result()
        assert await event(server, invocation) == 410
        assert await rt.sources.get("rap").subscriptions.events() == ()


async def test_a_repeated_confirmation_brings_nothing_back(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await subscribed(rt, server, started)
        assert await server.settle(invocation, "Watching.", subscription=True) == 200
        assert len(await rt.sources.get("rap").subscriptions.of()) == 1
        await event(server, invocation, "bye", final=True)
        assert await server.settle(invocation, "Watching.", subscription=True) == 200
        assert await rt.sources.get("rap").subscriptions.of() == ()
        assert (await rt.journal.result(call.invocation_id)).content[0].text == "Watching."


@pytest.mark.requirement("RAP-195", "RAP-196", "RAP-197")
async def test_a_thread_ends_its_own_subscriptions_and_no_other_s(running, tool_server, started):
    server, other = tool_server(), tool_server(tools=["water"])
    async with running(server, other, options={"thread": "root"}) as rt:
        call, invocation = await subscribed(rt, server, started)
        surface = await rt.surface()
        arguments = {"tool_call_id": call.invocation_id}
        child = await rt.in_thread("root/child").call("cancel_subscription", arguments, surface=surface)
        assert (child.is_error, child.error.error_code) == (True, "unknown_id")
        assert server.posts("/cancel_tool_call") == []
        result = await rt.call("cancel_subscription", arguments, surface=surface)
        assert not result.is_error
        for each in (server, other):
            notices = await each.until(lambda each=each: each.posts("/cancel_tool_call"))
            assert notices == [{"thread_id": "root", "tool_call_id": call.invocation_id}]
        assert await event(server, invocation) == 410
        again = await rt.call("cancel_subscription", arguments, surface=surface)
        assert again.is_error


@pytest.mark.requirement("RAP-200", "RAP-199")
async def test_events_for_a_closed_thread_are_dropped(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await subscribed(rt, server, started)
        await rt.sources.get("rap").close_thread(rt.calls.thread.thread_id)
        assert await event(server, invocation) == 410
        assert await rt.sources.get("rap").subscriptions.events() == ()


@pytest.mark.requirement("RAP-203")
async def test_a_thread_has_so_many_subscriptions_and_no_more(running, tool_server, started):
    server = tool_server()
    async with running(server, max_subscriptions=2) as rt:
        for _ in range(3):
            call, invocation = await subscribed(rt, server, started)
        assert len(await rt.sources.get("rap").subscriptions.of()) == 2
        notices = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert notices[0]["tool_call_id"] == call.invocation_id
        assert await event(server, invocation) == 410
        result = await rt.journal.result(call.invocation_id)
        assert result.is_error
        assert "the subscription was not opened" in result.error.message
        assert "Watching" not in result.content[0].text  # no process watches, whatever the tool says


async def test_a_subscription_that_is_confirmed_twice_is_not_one_too_many(running, tool_server, started, monkeypatch):
    server = tool_server()
    async with running(server, max_subscriptions=1) as rt:
        call, invocation = await started(rt, server)

        async def fail(*_):
            raise StoreError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(rt.deferred, "deliver", fail)
            assert await server.settle(invocation, "Watching.", subscription=True) == 503
        assert await server.settle(invocation, "Watching.", subscription=True) == 200
        assert not (await rt.calls.get(call.invocation_id).result()).is_error
        assert await event(server, invocation) == 200


@pytest.mark.requirement("RAP-200")
async def test_the_subscriptions_of_a_closed_thread_are_gone(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await subscribed(rt, server, started)
        await subscribed(rt.in_thread("beside"), server, started)
        await rt.sources.get("rap").close_thread(rt.calls.thread.thread_id)
        assert [each.thread.thread_id for each in await rt.sources.get("rap").subscriptions.of()] == ["beside"]
        await started(rt, server)  # the thread is open again, and what it was subscribed to is not
        assert await event(server, invocation) == 410


@pytest.mark.parametrize("associative", [True, False])
async def test_events_beyond_the_limit_are_rejected(running, tool_server, started, tmp_path, monkeypatch, associative):
    monkeypatch.setattr(subscriptions, "MAX_WAITING_EVENTS", 2)
    server, place = tool_server(), {"store": f"sqlite:{tmp_path}/state.db"}
    async with running(server, options=place) as rt:
        _, invocation = await subscribed(rt, server, started)
        statuses = [await event(server, invocation, str(each), associative=associative) for each in range(3)]
        assert statuses == [200, 200, 503]
        first, _ = await rt.sources.get("rap").subscriptions.events()
        await rt.sources.get("rap").subscriptions.done(first.event_id)
        assert await event(server, invocation, "2", associative=associative) == 200
        assert await event(server, invocation, "3", associative=associative, final=True) == 503
        assert [each.text for each in await rt.sources.get("rap").subscriptions.events()] == ["1", "2"]


async def test_an_event_that_is_too_long_is_refused_and_costs_nothing_else(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(callbacks, "MAX_EVENT_CHARS", 5)
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await subscribed(rt, server, started)
        assert await event(server, invocation, "123456", final=True) == 413
        assert await event(server, invocation, "12345") == 200
        assert [each.text for each in await rt.sources.get("rap").subscriptions.events()] == ["12345"]


async def test_follow_yields_all_events_with_any_page_size(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(subscriptions, "_PAGE_SIZE", 2)
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await subscribed(rt, server, started)
        for each in range(5):
            assert await event(server, invocation, str(each)) == 200
        following = rt.sources.get("rap").subscriptions.follow()
        assert [(await anext(following)).text for _ in range(5)] == ["0", "1", "2", "3", "4"]
        await following.aclose()
