"""Views: the latest of each kind for each thread, for clients only."""

import asyncio

import pytest
from starting import begin

from agenttool.adapters.rap import threads


def update(server, invocation, kind="valve-map", key=None, **content):
    headers = None if key is None else {"Idempotency-Key": key}
    return server.post(invocation, "view_update", headers=headers, view_type=kind, content=content)


@pytest.mark.requirement("RAP-260", "RAP-261", "RAP-262", "RAP-263", "RAP-269")
async def test_clients_get_what_there_is_and_then_what_changes(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await update(server, invocation, open=[1])
        await update(server, invocation, open=[4, 7], deep={"kept": ["<b>", None]})
        await update(server, invocation, "diff", patch="---")
        views = rt.sources.get("rap").views
        clients = [views.follow(rt.calls.thread.thread_id) for _ in range(2)]
        for client in clients:
            first, second = await anext(client), await anext(client)
            assert (first.view_type, second.content) == ("diff", {"open": [4, 7], "deep": {"kept": ["<b>", None]}})
        coming = [asyncio.ensure_future(anext(client)) for client in clients]
        await asyncio.sleep(0)
        await update(server, invocation, "diff")
        for view in await asyncio.gather(*coming):
            assert (view.view_type, view.content) == ("diff", {})
        assert [view.view_type for view in await views.of(rt.calls.thread.thread_id)] == ["valve-map"]
        assert await rt.journal.result(call.invocation_id) is None
        for client in clients:
            await client.aclose()


@pytest.mark.requirement("RAP-264")
async def test_a_thread_that_is_not_known_has_no_views(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await update(server, {**invocation, "group_id": "not known"}, open=[1]) == 404
        await rt.sources.get("rap").close_thread(rt.calls.thread.thread_id)
        assert await update(server, invocation, open=[1]) == 404
        assert await rt.sources.get("rap").views.of() == ()


@pytest.mark.requirement("RAP-264")
async def test_threads_share_nothing_even_if_their_names_are_alike(running, tool_server):
    server = tool_server()
    async with running(server) as rt:
        surface = await rt.surface()
        for name in ("a", "a/b", "a%2Fb"):
            await begin(rt.in_thread(name), "read_probe", {"bed": 1}, surface=surface)
        for invocation in list(server.invocations):
            assert await update(server, invocation, invocation["group_id"], by=invocation["group_id"]) == 200
        for name in ("a", "a/b", "a%2Fb"):
            (view,) = await rt.sources.get("rap").views.of(name)
            assert (view.thread_id, view.view_type, view.content) == (name, name, {"by": name})


async def test_an_update_that_was_long_on_its_way_does_not_undo_a_later_one(running, tool_server, started, tmp_path):
    server = tool_server()
    async with running(server, options={"store": f"sqlite:{tmp_path}/state.db"}) as rt:
        _, invocation = await started(rt, server)
        for key, level in (("a", 1), ("b", 2), ("a", 1)):
            assert await update(server, invocation, key=key, level=level) == 200
        (view,) = await rt.sources.get("rap").views.of()
        assert view.content == {"level": 2}
        for key, content in (("c", {}), ("b", {"level": 2}), ("a", {"level": 1})):
            assert await update(server, invocation, key=key, **content) == 200
        assert await rt.sources.get("rap").views.of() == ()


async def test_a_thread_has_so_many_views_and_no_larger_ones(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(threads, "MAX_VIEWS", 2)
    monkeypatch.setattr(threads, "MAX_VIEW_BYTES", 100)
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert [await update(server, invocation, kind, of=1) for kind in "abc"] == [200, 200, 413]
        assert await update(server, invocation, "a", of=2) == 200
        assert await update(server, invocation, "a", of="x" * 100) == 413
        assert await update(server, invocation, "a") == 200
        assert await update(server, invocation, "c", of=3) == 200
        assert await update(server, invocation, "x" * 201, of=3) == 413
        assert [(view.view_type, view.content) for view in await rt.sources.get("rap").views.of()] == [
            ("b", {"of": 1}),
            ("c", {"of": 3}),
        ]


async def test_the_views_of_a_closed_thread_are_gone_and_its_clients_know(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await update(server, invocation, open=[1])
        client = rt.sources.get("rap").views.follow(rt.calls.thread.thread_id)
        assert (await anext(client)).content == {"open": [1]}
        coming = asyncio.ensure_future(anext(client))
        await rt.sources.get("rap").close_thread(rt.calls.thread.thread_id)
        assert (await coming).content == {}
        assert await rt.sources.get("rap").views.of() == ()
        await client.aclose()


async def test_two_servers_may_name_their_updates_alike(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, first = await started(rt, server)
        _, second = await started(rt, server)
        for invocation, kind in ((first, "a"), (second, "b")):
            assert await update(server, invocation, kind, key="1", of=kind) == 200
        assert [view.view_type for view in await rt.sources.get("rap").views.of()] == ["a", "b"]
