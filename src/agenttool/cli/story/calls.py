"""One governed call: asked about, edited, run once as approved, and explained afterwards."""

import asyncio
from typing import Annotated, cast

from agenttool.adapters.python.declare import tool
from agenttool.assemble import Runtime
from agenttool.cli.story.teller import Teller
from agenttool.codec import to_json
from agenttool.policy.approvals import Question
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, EventType, JsonObject, RuleSource, ToolResult, ToolSurface
from agenttool.schema.markers import Sensitive

_ran: list[tuple[str, int]] = []


@tool(namespace="math", read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@tool(namespace="bank", approval_required=True)
async def transfer(to: str, amount: int, pin: Annotated[str, Sensitive]) -> str:
    """Transfer money. Not for refunds."""
    _ran.append((to, amount))
    return f"sent {amount} to {to}, authorized with {pin}"


FROZEN = Rule(
    ref="frozen",
    behavior=Behavior.DENY,
    source=RuleSource.POLICY_SETTINGS,
    tools=("bank.transfer",),
    because="transfers are frozen today",
)


def tell(teller: Teller) -> None:
    """Run calls that succeed, fail, wait for a person and are denied."""
    _ran.clear()
    asyncio.run(_tell(teller))


async def _tell(teller: Teller) -> None:
    async with Runtime.open(tools=[add, transfer]) as rt:
        surface = await rt.surface()
        await _plain(teller, rt, surface)
        await _asked(teller, rt, surface)
    async with Runtime.open(tools=[transfer], rules=[FROZEN]) as rt:
        surface = await rt.surface()
        wish: JsonObject = {"to": "mallory", "amount": 1, "pin": "4711-0815"}
        denied = await rt.call("transfer", wish, surface=surface)
    teller.claim("a denied call is a result, and says by which rule", holds="frozen" in _text(denied))
    teller.claim("and it never ran", holds=len(_ran) == 1)


async def _plain(teller: Teller, rt: Runtime, surface: ToolSurface) -> None:
    teller.chapter("One governed call")
    sums = await rt.call("add", {"a": 19, "b": 23}, surface=surface)
    wrong = await rt.call("add", {"a": "nineteen"}, surface=surface)
    lost = await rt.call("subtract", {}, surface=surface)
    teller.table(
        "every call ends in a result",
        ("call", "status", "what the model reads"),
        [
            ("add(19, 23)", sums.status.value, _text(sums)),
            ("add('nineteen')", wrong.status.value, _text(wrong)),
            ("subtract()", lost.status.value, _text(lost)),
        ],
    )
    invocation = await rt.invocation(sums.invocation_id)
    steps = [step.status.value for step in (invocation.status_transitions or ())] if invocation else []
    teller.say("The first of them, step by step: " + " → ".join(steps))
    teller.claim("the harmless call ran without asking", holds=sums.structured_content == 19 + 23)


async def _asked(teller: Teller, rt: Runtime, surface: ToolSurface) -> None:
    teller.chapter("The approved call is the call")
    wish: JsonObject = {"to": "mallory", "amount": 9000, "pin": "4711-0815"}
    waiting = asyncio.ensure_future(rt.call("transfer", wish, surface=surface))
    question = await _question(rt)
    shown = cast("JsonObject", question.shown)
    teller.show(f"the call waits; an approver sees {question.tool_name}:", shown)
    teller.say(f"It asks because: {question.verdict.reason.message}")
    teller.say("The approver changes the payee, lowers the amount, and says yes.")
    await rt.decide(question.approval_id, "allow", updated_input={**shown, "to": "ada", "amount": 90}, by="pat")
    result = await waiting
    again = await rt.decide(question.approval_id, "allow", by="mallory")
    invocation = await rt.invocation(result.invocation_id)
    told = to_json(invocation) if invocation else {}
    inputs = ("model_input", "permission_input", "call_input")
    teller.table(
        "three of the four inputs, as the record keeps them",
        ("input", "value"),
        [(name, str(told.get(name))) for name in inputs],
    )
    teller.claim("what ran is what was approved", holds=_ran == [("ada", 90)])
    teller.claim("a second answer changes nothing", holds=not hasattr(again, "answer"))
    everything = [to_json(record) async for record in rt.export()]
    teller.claim("the PIN is in no record and in no result", holds="4711-0815" not in repr(everything) + repr(result))


async def _question(rt: Runtime) -> Question:
    async for _, event in rt.events():
        if event.event_type is EventType.PERMISSION_REQUESTED and (event.data or {}).get("prompted"):
            break
    return (await rt.approvals())[0]


def _text(result: ToolResult) -> str:
    return next((item.text for item in result.model_facing_content or () if item.text), "").splitlines()[0]
