"""Two thousand tools and one model: what it is shown, how it comes by the rest, and why something is not there."""

import asyncio
import json
from itertools import product
from typing import cast

from agenttool.adapters.python.declare import tool
from agenttool.assemble import Runtime, Tool
from agenttool.cli.story.teller import Teller
from agenttool.codec import json_bytes
from agenttool.ports.offer import OfferedTool
from agenttool.records import Json, JsonObject, ToolResult

_VERBS = ("create", "get", "list", "update", "delete", "search", "archive", "restore", "export", "assign")
_THINGS = ("invoice", "customer", "meeting", "contact", "message", "folder", "report", "ticket", "shipment", "refund")
_PLACES = tuple(f"office{number}" for number in range(20))

BYTES_A_TOKEN = 4


@tool(namespace="code", read_only=True, concurrency_safe=True, open_world=False)
async def create_pull_request(title: str, branch: str, draft: bool = False) -> str:  # noqa: FBT001, FBT002 -- a tool's argument
    """Open a pull request for a branch. Not for issues."""
    return f"opened {title!r} for {branch}"


@tool(namespace="bank", credentials=["vault:bank"])
async def pay_invoice(number: int) -> str:
    """Pay an invoice. Not for refunds."""
    return f"paid {number}"


@tool(namespace="files", read_only=True, concurrency_safe=True, open_world=False, always_load=True)
async def read_note(name: str) -> str:
    """Read a note. Not for books."""
    return f"nothing in {name}"


def catalog() -> list[Tool]:
    """Make two thousand tools of twenty offices, and three that matter."""

    async def work(subject: str, note: str = "", urgent: bool = False) -> str:  # noqa: FBT001, FBT002 -- a tool's argument
        return f"done: {subject} {note} {urgent}"

    chores = [
        tool(name=f"{verb}_{thing}", namespace=place, description=f"{verb.title()} a {thing}. Only in {place}.")(work)
        for place, verb, thing in product(_PLACES, _VERBS, _THINGS)
    ]
    return [read_note, create_pull_request, pay_invoice, *chores]


def tell(teller: Teller) -> None:
    """Show a model a small surface over a large catalog, and let it find, load and call a tool."""
    teller.chapter("Two thousand tools, one search away")
    asyncio.run(_tell(teller))


async def _tell(teller: Teller) -> None:
    tools = catalog()
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface()
        everything = rt.offered(surface)
        shown = [each for each in everything if not each.is_deferred]
        before, after = _tokens(everything), _tokens(shown)
        teller.table(
            f"{len(tools):,} tools, as a model sees them",
            ("surface", "tools", "tokens, about"),
            [
                ("everything shown", f"{len(everything):,}", f"{before:,}"),
                ("as it is", f"{len(shown):,}", f"{after:,}"),
            ],
        )
        teller.claim("a model is shown less than a hundredth of it", holds=after * 100 < before)
        early = await rt.call("create_pull_request", {"title": "Fix it", "branch": "fix"}, surface=surface)
        search = await rt.call("tool_search", {"query": "open a pull request"}, surface=surface)
        select = await rt.call("tool_search", {"query": "select:code.create_pull_request"}, surface=surface)
        surface = await rt.current(surface)
        done = await rt.call("create_pull_request", {"title": "Fix it", "branch": "fix"}, surface=surface)
        teller.table(
            "one turn of a model",
            ("call", "what it reads"),
            [
                ("create_pull_request(…)", _text(early)),
                ("tool_search('open a pull request')", _best(search)),
                ("tool_search('select:code.create_pull_request')", f"loaded {_loaded(select)}"),
                ("create_pull_request(…)", _text(done)),
            ],
        )
        teller.claim("what was not shown does not run", holds=bool(early.is_error))
        teller.claim("after search and load the same call runs", holds=not done.is_error)
        absent = next(iter(surface.blocked_tools or ()))
        teller.say("And why can the model not see [cyan]bank.pay_invoice[/]?")
        teller.say(f"  {absent.message} ({absent.reason}); to change that: {absent.would_change}")
        await rt.change(credentials=["vault:bank"])
        later = await rt.current(surface)
        is_there = "tool_bank.pay_invoice" in (later.tool_refs or ())
        teller.claim("once the credential is there, so is the tool", holds=is_there)


def _tokens(offered: list[OfferedTool] | tuple[OfferedTool, ...]) -> int:
    definitions: list[Json] = [
        {"name": each.qualified_name, "description": each.description, "parameters": each.input_schema}
        for each in offered
    ]
    return len(json_bytes(definitions)) // BYTES_A_TOKEN


def _text(result: ToolResult) -> str:
    return next((item.text for item in result.model_facing_content or () if item.text), "").splitlines()[0]


def _read(result: ToolResult) -> JsonObject:
    return cast("JsonObject", json.loads(_text(result)))


def _best(result: ToolResult) -> str:
    match = cast("list[JsonObject]", _read(result)["matches"])[0]
    return f"{match['name']}, {match['score']}: {match['reason']}"


def _loaded(result: ToolResult) -> str:
    return ", ".join(str(each["name"]) for each in cast("list[JsonObject]", _read(result)["loaded"]))
