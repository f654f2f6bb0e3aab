"""Subscriptions: confirmed first, then event after event, and nothing after the last."""

import asyncio

import pytest

from agenttool.rap import Declined, Event, Limits, RapCall, Subscribed, execution

CANCEL = {"thread_id": "thread-1", "tool_call_id": "tc-1"}


def event(text, **members):
    return {"type": "subscription_event", "group_id": "thread-1", "tool_call_id": "tc-1", "text": text, **members}


@pytest.fixture
def beds(make):
    """Make a provider that watches beds: by a generator fed from a queue, and by what is published."""

    def beds():
        provider, feed, starts = make(), asyncio.Queue(), []

        @provider.subscription
        async def watch(bed: int, call: RapCall):
            """Watch a bed."""
            if bed > 40:
                raise Declined(f"bed {bed} does not exist")
            starts.append(call.bookmark)
            yield f"Watching bed {bed}."
            while True:
                item = await feed.get()
                if item is None:
                    return
                if isinstance(item, Exception):
                    raise item
                yield item

        @provider.tool
        async def follow(bed: int) -> Subscribed:
            """Follow a bed."""
            return Subscribed(topic=f"bed-{bed}", text=f"Following bed {bed}.")

        return provider, feed, starts

    return beds


@pytest.mark.requirement("RAP-004", "RAP-181", "RAP-182", "RAP-183", "RAP-184", "RAP-405")
async def test_a_subscription_is_confirmed_and_then_each_event_is_sent_in_order(beds, serving):
    provider, feed, _ = beds()
    for item in ({"moisture": 0.12}, "dry", "dry", Event(value="wet", associative=True, final=True), "never"):
        feed.put_nowait(item)
    async with serving(provider) as client:
        client.inbox.statuses = [500, 500]  # the confirmation has to wait, and so do the events
        await client.invoke("watch", {"bed": 3})
        await client.inbox.wait(5)
        await client.invoke("follow", {"bed": 3}, id="tc-2")
        await client.result(2)
    assert client.inbox.messages[:5] == [
        {
            "type": "tool_result",
            "group_id": "thread-1",
            "id": "tc-1",
            "text": "Watching bed 3. Subscription id: tc-1",
            "subscription": True,
        },
        event('{"moisture":0.12}'),
        event("dry"),
        event("dry"),
        event("wet", associative=True, final=True),
    ]
    assert len(client.inbox.messages) == 6


async def test_a_subscription_that_cannot_be_is_an_error_and_none(beds, serving):
    provider, _, _ = beds()
    async with serving(provider) as client:
        await client.invoke("watch", {"bed": 77})
        result = await client.result()
    assert result["text"] == "Error: bed 77 does not exist"
    assert "subscription" not in result


async def test_a_published_event_reaches_exactly_the_subscribers_of_its_topic(beds, serving):
    provider, _, _ = beds()
    async with serving(provider) as client:
        for number, bed in ((1, 3), (2, 3), (3, 4)):
            await client.invoke("follow", {"bed": bed}, id=f"tc-{number}")
        await client.result(3)
        assert await provider.publish("bed-3", {"moisture": 0.1}) == 2
        assert await provider.publish("bed-3", "gone", final=True) == 2
        assert await provider.publish("bed-3", "after the last") == 0
        assert await provider.publish("bed-9", "nobody") == 0
        events = await client.inbox.wait(4, "subscription_event")
    reported = {(each["tool_call_id"], each["text"], each.get("final", False)) for each in events}
    assert reported == {(f"tc-{n}", '{"moisture":0.1}', False) for n in (1, 2)} | {
        (f"tc-{n}", "gone", True) for n in (1, 2)
    }


@pytest.mark.requirement("RAP-194", "RAP-198", "RAP-286", "RAP-287")
@pytest.mark.parametrize("operation", ["watch", "follow"])
async def test_nothing_is_sent_after_a_cancellation(beds, serving, operation):
    provider, feed, _ = beds()
    async with serving(provider) as client:
        await client.invoke(operation, {"bed": 3})
        await client.result()
        assert [await client.post("/cancel_tool_call", CANCEL) for _ in range(2)] == [200, 200]
        feed.put_nowait("dry")
        assert await provider.publish("bed-3", "dry") == 0
        await client.invoke("follow", {"bed": 9}, id="tc-2")
        await client.result(2)
    assert [each["type"] for each in client.inbox.messages] == ["tool_result", "tool_result"]


@pytest.mark.requirement("RAP-304", "RAP-303", "RAP-305")
async def test_a_closed_thread_has_no_subscriptions(beds, serving):
    provider, _, _ = beds()
    async with serving(provider) as client:
        await client.invoke("follow", {"bed": 3})
        await client.invoke("follow", {"bed": 3}, id="tc-2", group_id="thread-2")
        await client.result(2)
        statuses = [
            await client.post("/close_thread", {"thread_id": each}) for each in ("thread-1", "thread-1", "../../x")
        ]
        assert statuses == [200] * 3
        assert await provider.publish("bed-3", "dry") == 1


async def test_a_generator_that_ends_or_fails_says_so_in_a_last_event(beds, serving):
    for ending, last_text in (
        (None, "The subscription has ended."),
        (ZeroDivisionError("secret"), "Error: the subscription failed"),
    ):
        provider, feed, _ = beds()
        feed.put_nowait(ending)
        async with serving(provider) as client:
            await client.invoke("watch", {"bed": 3}, group_id=last_text)
            [last] = await client.inbox.wait(1, "subscription_event")
        assert last["text"].startswith(last_text)
        assert last["final"] is True
        assert "secret" not in last["text"]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_runtime_that_does_not_know_it_any_more_ends_it(beds, serving, status):
    provider, _, _ = beds()
    async with serving(provider) as client:
        await client.invoke("follow", {"bed": 3})
        await client.result()
        client.inbox.statuses = [status]
        assert await provider.publish("bed-3", "dry") == 1
        while await provider.publish("bed-3", "again"):
            await asyncio.sleep(0.01)


@pytest.mark.requirement("RAP-009", "RAP-180", "RAP-204")
async def test_subscriptions_survive_a_restart_and_continue_from_their_bookmark(beds, serving):
    provider, feed, _ = beds()
    feed.put_nowait(Event(value="one", bookmark="page-1"))
    async with serving(provider) as client:
        await client.invoke("watch", {"bed": 3})
        await client.invoke("follow", {"bed": 4}, id="tc-2")
        await client.inbox.wait(3)
        inbox = client.inbox
    provider, feed, starts = beds()
    feed.put_nowait("two")
    async with serving(provider, inbox) as client:
        await inbox.wait(2, "subscription_event")
        assert await provider.publish("bed-4", "three") == 1
        events = await inbox.wait(3, "subscription_event")
    assert starts == ["page-1"]
    assert [(each["tool_call_id"], each["text"]) for each in events] == [
        ("tc-1", "one"),
        ("tc-1", "two"),
        ("tc-2", "three"),
    ]
    assert len([each for each in inbox.messages if each["type"] == "tool_result"]) == 2


@pytest.mark.requirement("RAP-201")
@pytest.mark.parametrize("path", ["/publish", "/events", "/publish/t", "/subscriptions"])
async def test_events_cannot_be_published_over_http(make, serving, path):
    provider = make()

    @provider.tool
    async def follow() -> Subscribed:
        """Follow."""
        return Subscribed(topic="t")

    async with serving(provider) as client:
        await client.invoke("follow")
        await client.result()
        assert await client.post(path, {"topic": "t", "text": "forged"}) == 404
        assert await provider.publish("t", "true") == 1
        [event] = await client.inbox.wait(1, "subscription_event")
    assert event["text"] == "true"


@pytest.mark.requirement("RAP-306")
async def test_a_subscription_does_not_last_for_ever(make, serving, monkeypatch):
    monkeypatch.setattr("agenttool.rap.service.CLEANUP_INTERVAL_S", 0.02)
    provider = make()

    @provider.tool
    async def follow() -> Subscribed:
        """Follow for a moment."""
        return Subscribed(topic="t", lasts_s=0.05)

    async with serving(provider) as client:
        await client.invoke("follow")
        [last] = await client.inbox.wait(1, "subscription_event")
        assert await provider.publish("t", "late") == 0
    assert last["final"] is True
    assert "expired" in last["text"]


@pytest.mark.requirement("RAP-202")
async def test_events_are_paced(make, serving):
    provider, made = make(limits=Limits(events_per_second=1e-6)), []

    @provider.subscription
    async def flood():
        """Yield for ever."""
        yield "Flooding."
        while True:
            made.append(1)
            yield "drop"

    @provider.tool
    async def look() -> str:
        """Return at once."""
        return "seen"

    async with serving(provider) as client:
        await client.invoke("flood")
        await client.inbox.wait(1, "subscription_event")
        for number in range(20):  # an event takes less time than a call and its result
            await client.invoke("look", id=f"look-{number}")
            await client.inbox.wait(number + 2, "tool_result")
    assert made == [1]


async def test_a_generator_waits_while_its_runtime_accepts_nothing(make, serving, monkeypatch):
    monkeypatch.setattr(execution, "BACKPRESSURE_S", 0.2)
    monkeypatch.setattr(execution, "POLL_S", 0.01)
    provider, made = make(limits=Limits(events_per_second=200)), []

    @provider.subscription
    async def ticks():
        """Tick."""
        yield "watching"
        while True:
            made.append(1)
            yield "tick"

    async with serving(provider) as client:
        client.inbox.statuses = [200] + [503] * 10_000
        await client.invoke("ticks")
        held = 0
        async with asyncio.timeout(60):
            while not made or len(made) > held:  # until it makes none for a hundred times as long as one takes
                held = len(made)
                await asyncio.sleep(0.5)
        client.inbox.statuses = []
        await client.inbox.wait(held + 3, "subscription_event")


async def test_a_subscription_with_too_many_undelivered_events_ends_with_a_final_event(make, serving, serve_app, inbox):
    provider = make(limits=Limits(events_per_second=1000, max_events=3))

    @provider.tool
    async def follow() -> Subscribed:
        """Follow."""
        return Subscribed(topic="t")

    port = int(inbox.url.rpartition(":")[2])
    async with serving(provider) as client:
        async with serve_app(inbox, port):
            await client.invoke("follow", id="away", callback_url=f"{inbox.url}/in")
            await inbox.wait(1, "tool_result")
            async with asyncio.timeout(60):
                while provider._endpoints.service._outbox._active:  # what is on its way is not counted
                    await asyncio.sleep(0.01)
        await client.invoke("follow", id="present")
        await client.result()
        counts = []
        for each in range(5):
            counts.append(await provider.publish("t", str(each)))
            await client.inbox.wait(each + 1, "subscription_event")
        assert counts == [2, 2, 2, 1, 1]
        async with serve_app(inbox, port):
            reported = await inbox.wait(4, "subscription_event")
    assert [each["text"] for each in reported[:3]] == ["0", "1", "2"]
    assert (reported[3]["final"], reported[3]["text"][:6]) == (True, "Error:")


@pytest.mark.requirement("RAP-205")
async def test_a_toolset_may_have_a_tool_that_ends_its_subscriptions(make, serving):
    provider = make()

    @provider.tool
    async def follow(bed: int) -> Subscribed:
        """Follow a bed."""
        return Subscribed(topic=f"bed-{bed}")

    @provider.tool
    async def leave(bed: int) -> str:
        """Follow a bed no more."""
        return f"{await provider.publish(f'bed-{bed}', 'No more.', final=True)} ended"

    async with serving(provider) as client:
        await client.invoke("follow", {"bed": 3}, id="tc-1")
        await client.result()
        await client.invoke("leave", {"bed": 3}, id="tc-2")
        assert (await client.result(2))["text"] == "1 ended"
        [last] = await client.inbox.wait(1, "subscription_event")
        assert (last["tool_call_id"], last["final"]) == ("tc-1", True)
        assert await provider.publish("bed-3", "dry") == 0


async def test_events_that_wait_take_no_room_from_calls(make, serving):
    provider = make(limits=Limits(max_open_per_caller=1))

    @provider.tool
    async def follow() -> Subscribed:
        """Follow."""
        return Subscribed(topic="t")

    async with serving(provider) as client:
        await client.invoke("follow")
        await client.result()
        async with asyncio.timeout(60):
            while provider._endpoints.service._outbox._active:
                await asyncio.sleep(0.01)
        client.inbox.statuses = [503] * 1000
        assert await provider.publish("t", "dry") == 1
        assert await client.invoke("follow", id="tc-2") == 200
        client.inbox.statuses = []
        await client.result(2)
