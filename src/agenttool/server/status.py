"""What waits, as a JSON page: calls, servers, prompts, subscriptions and views, and never what is in them."""

from agenttool.adapters.rap.discovery import Standing
from agenttool.assemble import Runtime
from agenttool.records import Json, JsonObject

MOST = 1000
"""So many of each are listed."""


async def status_of(runtime: Runtime) -> JsonObject:
    """Gather what waits; arguments, texts and URLs stay where they are."""
    found, asked = await runtime.waiting(limit=MOST + 1), await runtime.prompts(limit=MOST + 1)
    approvals = await runtime.approvals(limit=MOST + 1)
    waiting: list[Json] = [
        {
            "invocation_id": each.invocation_id,
            "tool_id": each.tool_id,
            "thread_id": each.thread.thread_id,
            "is_sent": each.is_sent,
            "expires_at_ns": each.expires_at_ns,
        }
        for each in found[:MOST]
    ]
    prompts: list[Json] = [
        {"prompt_id": each.prompt_id, "invocation_id": each.invocation_id, "kind": each.kind.value}
        for each in asked[:MOST]
    ]
    more: list[Json] = [
        name
        for name, all_of_it in (("waiting", found), ("prompts", asked), ("approvals", approvals))
        if len(all_of_it) > MOST
    ]
    told: JsonObject = {"waiting": waiting, "prompts": prompts, "approvals": min(len(approvals), MOST), "more": more}
    return {"store_fault": runtime.store_fault, **told, **(await _of_rap(runtime))}


async def _of_rap(runtime: Runtime) -> JsonObject:
    rap = runtime.rap
    if rap is None:
        return {"unsettled": [], "sources": [], "subscriptions": [], "views": [], "faults": []}
    unsettled: list[Json] = [
        {
            "invocation_id": each.invocation_id,
            "tool_id": each.tool_id,
            "thread_id": each.thread.thread_id,
            "awaits": rap.awaits(each.tool_id),
        }
        for each in await runtime.unsettled(limit=MOST)
    ]
    subscriptions: list[Json] = [
        {
            "tool_call_id": each.tool_call_id,
            "thread_id": each.thread.thread_id,
            "source": each.source,
            "name": each.name,
        }
        for each in await rap.subscriptions.of(limit=MOST)
    ]
    views: list[Json] = [
        {"thread_id": thread_id, "view_type": view_type} for thread_id, view_type in await rap.views.names(limit=MOST)
    ]
    withheld = rap.withheld
    told: JsonObject = {
        "unsettled": unsettled,
        "sources": [_source(each, withheld[each.source]) for each in rap.standings],
    }
    return {**told, "subscriptions": subscriptions, "views": views, "faults": [*rap.faults]}


def _source(standing: Standing, withheld: tuple[str, ...]) -> JsonObject:
    return {
        "name": standing.source,
        "state": standing.state.value,
        "since_ns": standing.since_ns,
        "tries": standing.tries,
        "last_error": standing.fault,
        "next_try_at_ns": standing.next_try_at_ns,
        "withheld": [*withheld],
    }
