"""`agenttool demo`: governed calls, an approval and a killed process, run against the real code."""

import asyncio
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console, RenderableType
from rich.rule import Rule as HorizontalRule
from rich.text import Text

from agenttool import __version__
from agenttool.adapters.python.declare import tool
from agenttool.cli.format import print_json
from agenttool.cli.output import indented, is_json, plain_table
from agenttool.codec import sorted_json
from agenttool.journal.steps import STEPS
from agenttool.policy.approvals import Question
from agenttool.ports.tool import DeclaredTool
from agenttool.records import InvocationId, JsonObject, ToolResult
from agenttool.runtime import Runtime
from agenttool.schema.markers import Sensitive
from agenttool.server.demo_catalog import DEMO_RULES, demo_tools
from agenttool.stores.sqlite.reader import SqliteReader

TIMEOUT_S = 120.0
"""The demo fails if one section takes longer."""

LEASE_S = 1.0
"""The shortest lease: recovery of the killed process's call starts after this time."""

PIN = "4711-0815"

WAITING_PROGRAM = """
import asyncio, pathlib, sys
from agenttool.cli.demo import call_and_wait
asyncio.run(call_and_wait(pathlib.Path(sys.argv[1])))
"""
"""The process that the demo kills while its call waits for approval."""


def payment_tool(ledger: Path) -> DeclaredTool:
    """Return a tool that appends one line to a file each time it runs."""

    @tool(namespace="bank", approval_required=True)
    async def pay(to: str, amount: int, pin: Annotated[str, Sensitive]) -> str:
        """Pay an invoice. Not for refunds."""
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{amount} to {to}\n")
        return f"paid {amount} to {to}, authorized with {pin}"

    return pay.declared


def demo() -> None:
    """Run governed calls, an approval and a crash, and check them."""
    report = DemoReport()
    report.text(f"agenttool {__version__}. Every line below comes from code that runs now, on this machine.")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_sections(report, Path(folder)))
    report.section("Summary")
    report.check(f"{report.passed} of {report.passed + report.failed} checks pass", passes=not report.failed)
    if report.failed:
        raise typer.Exit(1)


async def run_sections(report: "DemoReport", folder: Path) -> None:
    """Run all sections; files go to `folder`."""
    ledger = folder / "payments"
    tools = [*demo_tools(folder / "files"), payment_tool(ledger)]
    logging.getLogger("agenttool.calls").setLevel(logging.ERROR)  # one of the tools fails on purpose
    async with (
        asyncio.timeout(TIMEOUT_S),
        Runtime.open(tools=tools, rules=DEMO_RULES, approve="wait") as rt,
    ):
        await _governed_calls(report, rt)
        await _approval(report, rt, ledger)
    async with asyncio.timeout(TIMEOUT_S):
        await _crash(report, folder)


async def _governed_calls(report: "DemoReport", rt: Runtime) -> None:
    report.section("Every call ends in a result")
    surface = await rt.surface()
    calls: tuple[tuple[str, JsonObject], ...] = (
        ("read_file", {"name": "welcome.txt"}),
        ("read_file", {"file": "welcome.txt"}),
        ("flaky", {}),
        ("subtract", {}),
        ("send_invoice", {"customer": "ada", "amount": 12500}),
    )
    results = [await rt.call(name, arguments, surface=surface) for name, arguments in calls]
    rows = [
        (
            f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})",
            result.status.value,
            _text(result),
        )
        for (name, arguments), result in zip(calls, results, strict=True)
    ]
    report.table(("call", "status", "what the model reads"), rows)
    invocation = await rt.journal.invocation(results[0].invocation_id)
    steps = [step.status.value for step in (invocation.status_transitions or ())] if invocation else []
    report.text("The recorded steps of the first call: " + " → ".join(steps))
    report.check("a read-only call runs without approval", passes=not results[0].is_error)
    report.check("a tool that raises returns a failed result", passes=bool(results[2].is_error))
    report.check("a denied call names the rule that denied it", passes="large-invoices" in _text(results[4]))


async def _approval(report: "DemoReport", rt: Runtime, ledger: Path) -> None:
    report.section("The approved input is the input that runs")
    arguments: JsonObject = {"to": "mallory", "amount": 9000, "pin": PIN}
    call = asyncio.ensure_future(rt.call("pay", arguments, surface=await rt.surface()))
    question = await _open_question(rt)
    shown = cast("JsonObject", question.shown)
    report.text(f"The call waits. An approver sees {question.tool_name} with {sorted_json(shown).decode()}.")
    report.text("The approver changes the payee and the amount, and allows the call.")
    await rt.approvals.decide(question, "allow", input={**shown, "to": "ada", "amount": 90}, by="pat")
    result = await call
    again = await rt.approvals.decide(question, "allow", by="mallory")
    report.check("the tool ran once, with the approved input", passes=_was_paid_once(ledger))
    report.check("a second answer is rejected", passes=not hasattr(again, "answer"))
    records = [repr(record) async for record in rt.journal.export()]
    report.check("the PIN is in no record and in no result", passes=PIN not in "".join(records) + repr(result))


async def _crash(report: "DemoReport", folder: Path) -> None:
    report.section("A call outlives its process")
    store, ledger = f"sqlite:{folder / 'calls.db'}", folder / "ledger"
    child = subprocess.Popen([sys.executable, "-c", WAITING_PROGRAM, str(folder)])  # noqa: S603, ASYNC220 -- our own interpreter
    try:
        async with Runtime.open(store=store, approve="wait") as rt:
            question = await _open_question(rt)
    finally:
        child.kill()
        status = child.wait()
    report.text(f"Another process waits for approval of {question.tool_name}. It is killed with SIGKILL.")
    report.check("the process is dead", passes=status < 0)
    async with Runtime.open(store=store, tools=[payment_tool(ledger)], approve="wait") as rt:
        waiting = [each.approval_id for each in await rt.approvals.list()]
        report.check("its approval request is still open", passes=waiting == [question.approval_id])
        report.text("This process allows the call and recovers it from the journal.")
        await rt.approvals.decide(question, "allow", by="pat")
        result = await _result(rt, question.invocation_id)
    report.check("the same call has its result", passes=not result.is_error)
    report.check("the tool ran once", passes=_was_paid_once(ledger))
    with SqliteReader.open(folder / "calls.db", steps=STEPS) as reader:
        report.check("the journal's hash chain is intact", passes=not list(reader.verify()))


async def call_and_wait(folder: Path) -> None:
    """Make a call that needs approval, and wait; the demo kills the process that runs this."""
    tools = [payment_tool(folder / "ledger")]
    async with Runtime.open(store=f"sqlite:{folder / 'calls.db'}", tools=tools, approve="wait", lease_s=LEASE_S) as rt:
        await rt.call("pay", {"to": "ada", "amount": 90, "pin": PIN}, surface=await rt.surface())


async def _open_question(rt: Runtime) -> Question:
    while True:
        if found := await rt.approvals.list():
            return found[0]
        await asyncio.sleep(0.02)


async def _result(rt: Runtime, invocation_id: InvocationId) -> ToolResult:
    while (result := await rt.journal.result(invocation_id)) is None:
        await rt.calls.recover()
        await asyncio.sleep(0.05)
    return result


def _was_paid_once(ledger: Path) -> bool:
    return ledger.read_text(encoding="utf-8") == "90 to ada\n"


def _text(result: ToolResult) -> str:
    return next((item.text for item in result.model_facing_content or () if item.text), "").splitlines()[0]


class DemoReport:
    """Prints the demo for a terminal, or as JSON Lines, and counts its checks."""

    def __init__(self) -> None:
        self.passed = self.failed = 0

    def section(self, title: str) -> None:
        """Begin a section."""
        rule = HorizontalRule(Text(title, style="bold cyan"), align="left", style="dim")
        print_json({"type": "section", "title": title})
        self._print("", rule)

    def text(self, sentence: str) -> None:
        """Print a sentence."""
        print_json({"type": "text", "text": sentence})
        self._print(Text(sentence))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows below their column names."""
        print_json({"type": "table", "rows": [dict(zip(columns, row, strict=True)) for row in rows]})
        self._print(indented(plain_table(*columns, rows=rows)))

    def check(self, claim: str, *, passes: bool) -> None:
        """Print whether a claim holds, and count it."""
        self.passed += passes
        self.failed += not passes
        print_json({"type": "check", "claim": claim, "passes": passes})
        self._print(Text(f"{'✓' if passes else '✗'} {claim}", style="green" if passes else "bold red"))

    def _print(self, *blocks: RenderableType) -> None:
        for block in () if is_json() else blocks:
            Console(highlight=False).print(block)
