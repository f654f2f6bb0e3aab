"""Views: the latest of each kind for each thread, for clients only."""

import asyncio

import pytest


def update(server, invocation, kind="valve-map", **content):
    return server.post(invocation, "view_update", view_type=kind, content=content)


@pytest.mark.requirement("RAP-260", "RAP-261", "RAP-262", "RAP-263", "RAP-269")
async def test_clients_get_what_there_is_and_then_what_changes(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await update(server, invocation, open=[1])
        await update(server, invocation, open=[4, 7], deep={"kept": ["<b>", None]})
        await update(server, invocation, "diff", patch="---")
        views = rt.rap.views
        clients = [views.follow(rt.thread.thread_id) for _ in range(2)]
        for client in clients:
            first, second = await anext(client), await anext(client)
            assert (first.view_type, second.content) == ("diff", {"open": [4, 7], "deep": {"kept": ["<b>", None]}})
        coming = [asyncio.ensure_future(anext(client)) for client in clients]
        await asyncio.sleep(0)
        await update(server, invocation, "diff")
        for view in await asyncio.gather(*coming):
            assert (view.view_type, view.content) == ("diff", {})
        assert [view.view_type for view in await views.of(rt.thread.thread_id)] == ["valve-map"]
        assert await rt.result(call.invocation_id) is None
        for client in clients:
            await client.aclose()


@pytest.mark.requirement("RAP-264")
async def test_a_thread_that_is_not_known_has_no_views(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await update(server, {**invocation, "group_id": "never heard of"}, open=[1]) == 404
        await rt.rap.close_thread(rt.thread.thread_id)
        assert await update(server, invocation, open=[1]) == 404
        assert await rt.rap.views.of() == ()


@pytest.mark.requirement("RAP-264")
async def test_threads_share_nothing_even_if_their_names_are_alike(running, tool_server):
    server = tool_server()
    async with running(server) as rt:
        surface = await rt.surface()
        for name in ("a", "a/b", "a%2Fb"):
            await rt.in_thread(name).start("read_probe", {"bed": 1}, surface=surface)
        for invocation in list(server.invocations):
            assert await update(server, invocation, invocation["group_id"], by=invocation["group_id"]) == 200
        for name in ("a", "a/b", "a%2Fb"):
            (view,) = await rt.rap.views.of(name)
            assert (view.thread_id, view.view_type, view.content) == (name, name, {"by": name})
