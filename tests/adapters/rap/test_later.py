"""A person is asked while a call waits: shown once, answered once, and taken down with the call."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from agenttool import Runtime
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.forgery import Reach
from agenttool.adapters.rap.settings import RapSource
from agenttool.pipeline import prompts
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, ProgressStatus, RuleSource, ToolProgress

ALLOW = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
CHOICE = {"prompt": "Open the main valve?", "choices": ["Open it", "Leave closed"], "default": 1}


async def asked(server, invocation, **changed):
    members = {**CHOICE, "response_url": f"{server.url}/picked", **changed}
    return await server.post(invocation, "user_choice", **members)


@pytest.mark.requirement("RAP-242", "RAP-243", "RAP-244", "RAP-245", "RAP-250")
@pytest.mark.parametrize(("selected", "posted"), [(0, 0), (1, 1), (None, 1)])
async def test_a_choice_is_put_to_a_person_and_posted_once(running, tool_server, started, selected, posted):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        assert await asked(server, invocation) == 200
        (prompt,) = await rt.prompts()
        assert (prompt.message, prompt.choices, prompt.default) == (CHOICE["prompt"], ("Open it", "Leave closed"), 1)
        assert (await rt.invocation(call.invocation_id)).status.value == "needs_input"
        assert (await rt.choose(prompt.prompt_id, selected)).is_heard
        assert not (await rt.choose(prompt.prompt_id, 0)).is_taken
        assert server.posts("/picked") == [{"id": invocation["id"], "selected": posted}]
        assert len(await rt.waiting()) == 1
        await server.settle(invocation, "closed")
        assert (await rt.wait(call.invocation_id)).content[0].text == "closed"
        assert len(server.invocations) == 1


@pytest.mark.requirement("RAP-222", "RAP-223", "RAP-225", "RAP-231")
async def test_an_authorization_is_shown_and_forgotten_with_the_call(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        url = "https://id.example.test/authorize?state=5b1c"
        assert await server.post(invocation, "oauth", auth_url=url) == 200
        (prompt,) = await rt.prompts()
        assert (prompt.kind.value, prompt.url) == ("authorization", url)
        assert await rt.result(call.invocation_id) is None
        await server.settle(invocation, "sent")
        await rt.wait(call.invocation_id)
        assert await rt._core.shelf.page("prompt", limit=9) == []
        exported = [repr(record) async for record in rt.export()]
        assert not [told for told in exported if "5b1c" in told]
        assert len(server.invocations) == 1


@pytest.mark.requirement("RAP-414")
@pytest.mark.parametrize(
    "url", ["http://id.example.test/a", "ftp://id.example.test/a", "javascript:1", "http://127.0.0.1/a"]
)
async def test_nobody_is_sent_to_a_page_without_tls(running, tool_server, started, url):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await server.post(invocation, "oauth", auth_url=url) == 400
        assert await rt.prompts() == ()
        assert len(await rt.waiting()) == 1


@pytest.mark.requirement("RAP-224")
async def test_that_an_authorization_is_under_way_is_told_as_progress(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await server.post(invocation, "oauth", auth_url="https://id.example.test/authorize?state=5b1c")
        told = [record async for record in rt.export() if isinstance(record, ToolProgress)]
        assert told[-1].status is ProgressStatus.WAITING_FOR_INPUT
        assert told[-1].invocation_id == call.invocation_id
        assert "5b1c" not in str(told)


async def test_while_developing_a_page_of_this_machine_may_be_shown(running, tool_server, started):
    server = tool_server()
    async with running(server, shows_http_urls=True) as rt:
        _, invocation = await started(rt, server)
        assert await server.post(invocation, "oauth", auth_url="http://127.0.0.1:9/a") == 200
        assert await server.post(invocation, "oauth", auth_url="http://id.example.test/a") == 400


@pytest.mark.requirement("RAP-415")
async def test_nobody_is_asked_for_a_call_that_does_not_wait(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await server.settle(invocation)
        await rt.wait(call.invocation_id)
        assert await asked(server, invocation) == 200
        assert await server.post(invocation, "oauth", auth_url="https://id.example.test/a") == 200
        assert await rt.prompts() == ()


@pytest.mark.requirement("RAP-416")
async def test_a_second_prompt_takes_the_place_of_the_first(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await asked(server, invocation)
        (first,) = await rt.prompts()
        await asked(server, invocation, prompt="Really?")
        (second,) = await rt.prompts()
        assert second.message == "Really?"
        assert not (await rt.choose(first.prompt_id, 0)).is_taken
        assert (await rt.choose(second.prompt_id, 0)).is_taken
        assert len(server.posts("/picked")) == 1


@pytest.mark.requirement("RAP-100")
async def test_a_call_may_ask_only_so_often_and_what_is_too_much_is_refused_and_told(
    running, tool_server, started, tmp_path, caplog
):
    server, store = tool_server(), {"store": f"sqlite:{tmp_path}/state.db"}
    async with running(server, max_prompts=3, options=store) as rt:
        call, invocation = await started(rt, server)
        token = invocation["callback_url"].rpartition("/")[2]
        assert [await asked(server, invocation, prompt=f"{each}?") for each in range(4)] == [200, 200, 200, 429]
        (prompt,) = await rt.prompts()
        assert prompt.message == "2?"
    async with running(server, max_prompts=3, options=store) as rt:
        url = f"{rt.rap.callbacks.addresses.base}/{token}"
        server.courier = Courier(Reach.of(["127.0.0.0/8"]))
        before = len([record async for record in rt.export()])
        for _ in range(20):
            told = {"auth_url": "https://id.example.test/a", "url": url}
            assert await server.post(invocation, "oauth", **told) == 429
        assert len([record async for record in rt.export()]) == before
        assert (await rt.prompts())[0].message == "2?"
        assert "has put 3 prompts up, and may put up no more" in caplog.text
        assert await server.post(invocation, "tool_result", text="done", url=url) == 200
        assert not (await rt.wait(call.invocation_id)).is_error


@pytest.mark.parametrize("members", [{"prompt": "x" * 10_001}, {"choices": ["y"] * 101}, {"choices": ["y" * 10_001]}])
async def test_what_nobody_would_read_is_not_asked(running, tool_server, started, members):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await asked(server, invocation, **{**members, "default": 0}) == 400
        assert await rt.prompts() == ()


@pytest.mark.requirement("RAP-098", "RAP-250")
async def test_a_second_try_to_put_a_prompt_asks_nobody_again(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        (prompt,) = await rt.prompts()
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        assert await rt.prompts() == (prompt,)
        assert (await rt.choose(prompt.prompt_id, 0)).is_heard
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        assert await rt.prompts() == ()
        assert await asked(server, invocation, headers={"Idempotency-Key": "b"}, prompt="And now?") == 200
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        (second,) = await rt.prompts()
        assert second.message == "And now?"


@pytest.mark.requirement("RAP-244")
async def test_a_tool_that_was_away_hears_of_a_choice_when_it_is_back(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(prompts, "TELL_AGAIN_EVERY_S", 0.01)
    server = tool_server()
    server.statuses["/picked"] = [503] * 7
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await asked(server, invocation)
        (prompt,) = await rt.prompts()
        chosen = await rt.choose(prompt.prompt_id, 0)
        assert (chosen.is_taken, chosen.is_heard) == (True, False)
        assert not (await rt.choose(prompt.prompt_id, 1)).is_taken
        told = await server.until(lambda: server.posts("/picked")[7:])
        assert told == [{"id": invocation["id"], "selected": 0}]
        assert await rt.prompts() == ()


@pytest.mark.requirement("RAP-417")
@pytest.mark.parametrize("how", ["settled", "canceled"])
async def test_a_prompt_goes_with_its_call(running, tool_server, started, how):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await asked(server, invocation)
        (prompt,) = await rt.prompts()
        if how == "settled":
            await server.settle(invocation)
        else:
            await rt.cancel(call.invocation_id)
        await rt.wait(call.invocation_id)
        assert await rt.prompts() == ()
        assert not (await rt.choose(prompt.prompt_id, 0)).is_taken
        assert server.posts("/picked") == []


@pytest.mark.requirement("RAP-412")
async def test_a_choice_is_not_sent_where_it_may_not_go(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        for url in ("http://10.1.2.3/x", "file:///etc/passwd", "http://169.254.169.254/latest"):
            assert await asked(server, invocation, response_url=url) == 400
        assert await rt.prompts() == ()


async def test_a_choice_that_is_refused_is_told_so_and_not_sent_again(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(prompts, "TELL_AGAIN_EVERY_S", 0.01)
    server = tool_server()
    server.statuses["/picked"] = [410]
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await asked(server, invocation)
        (prompt,) = await rt.prompts()
        chosen = await rt.choose(prompt.prompt_id, 0)
        assert (chosen.is_taken, chosen.is_heard) == (True, False)
        await asyncio.sleep(0.05)
        assert len(server.posts("/picked")) == 1


@pytest.mark.requirement("RAP-280", "RAP-281", "RAP-282", "RAP-283", "RAP-284")
async def test_every_server_is_told_once_of_a_canceled_call_and_nobody_waits(running, tool_server, started):
    server, broken, other = tool_server(), tool_server(tools=["water"]), tool_server(tools=["prune"])
    broken.statuses["/cancel_tool_call"] = [500]
    async with running(server, broken, other) as rt:
        call, _ = await started(rt, server)
        assert await rt.cancel(call.invocation_id)
        told = {"thread_id": rt.thread.thread_id, "tool_call_id": call.invocation_id}
        for each in (server, broken, other):
            assert await each.until(lambda each=each: each.posts("/cancel_tool_call")) == [told]
    for each in (server, broken, other):
        assert each.posts("/cancel_tool_call") == [told]


@pytest.fixture
def restarted(serve_app, tool_server, started, tmp_path):
    """Start a call, close its runtime, and open another while the server does not say what it offers.

    As after a restart of the machine, when the runtime is back before the server.
    """

    @asynccontextmanager
    async def restarted():
        server, kept = tool_server(), f"sqlite:{tmp_path}/state.db"
        async with serve_app(server, lifespan="off") as server.url:
            sources = [RapSource(name="s0", url=server.url, allow=["127.0.0.0/8"])]
            async with Runtime.open(sources=sources, store=kept, rules=[ALLOW]) as before:
                _, invocation = await started(before, server)
            server.statuses["/.well-known/rap-toolset"] = [503]
            async with Runtime.open(sources=sources, store=kept) as rt:
                assert rt.rap.faults
                yield rt, server, invocation
            await server.hang_up()

    return restarted


@pytest.mark.requirement("RAP-412")
async def test_a_choice_is_put_up_though_its_server_does_not_say_what_it_offers(restarted):
    async with restarted() as (rt, server, invocation):
        assert await asked(server, invocation, response_url="http://10.1.2.3/x") == 400
        assert await asked(server, invocation) == 200
        (prompt,) = await rt.prompts()
        assert (await rt.choose(prompt.prompt_id, 0)).is_taken


async def test_a_subscription_is_kept_though_its_server_does_not_say_what_it_offers(restarted):
    async with restarted() as (rt, server, invocation):
        assert await server.settle(invocation, "watching", subscription=True) == 200
        assert len(await rt.rap.subscriptions.of(invocation["group_id"], 9)) == 1
        assert server.posts("/cancel_tool_call") == []
