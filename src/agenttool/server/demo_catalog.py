"""The tools of `agenttool serve` without settings: one of each kind, and some calls, so that no page is empty."""

import asyncio
from base64 import b64decode
from itertools import cycle
from pathlib import Path

from agenttool.adapters.python.context import Context
from agenttool.adapters.python.declare import tool
from agenttool.adapters.python.files import Media
from agenttool.adapters.python.source import Tool
from agenttool.errors import ConfigError
from agenttool.records import JsonObject, ResourceLock
from agenttool.runtime import Runtime

DEFERRED = 500
"""How many tools of the demo are found by search only, as in a large catalog."""

ACTOR = "agent:demo"
"""The actor of the calls that the demo makes."""

DEMO_RULES: tuple[JsonObject, ...] = (
    {
        "name": "large-invoices",
        "behavior": "deny",
        "tool": "demo.send_invoice",
        "argument": {"/amount": {"min": 10_000}},
        "because": "the accountants send invoices from 10,000",
    },
)
"""The rules of the demo; one of its first calls is denied by them."""

_OBJECTS = ("invoice", "customer", "order", "ticket", "shipment", "contract", "refund", "payment", "report", "meeting")
_VERBS = ("list", "get", "create", "update", "archive")
_WHERE = ("north", "south", "east", "west", "central", "online", "retail", "export", "service", "partner")
_CHART = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAMAAAAB4AQMAAACei29cAAAABlBMVEX09vovb+0KBFmOAAAAPklEQVR42u3JwQkAIBADwfRfrR0oKtwj+g6CGzg4"
    "diQWXG+AJeBIKSgE5gHyBMhTBvYHVALkKQeLXoR7/gAGJZgAVnc0SC0AAAAASUVORK5CYII="
)
_INVOICE: JsonObject = {"customer": "Ada Lovelace", "amount": 1250.0, "note": "analytical engine, first part"}
_FIRST_CALLS: tuple[tuple[str, JsonObject], ...] = (
    ("files.list_files", {}),
    ("demo.make_chart", {}),
    ("demo.flaky", {}),
    ("demo.large_table", {"rows": 3000}),
    ("demo.send_invoice", {**_INVOICE, "amount": 12500.0}),
    ("demo.send_invoice", _INVOICE),
)
_FILES = {
    "welcome.txt": "These files belong to the demo. Nothing else of this machine can be read.\n",
    "prices.csv": "article,price\ntea,4.20\ncoffee,5.10\n",
}


def demo_tools(folder: Path) -> list[Tool]:
    """Return the tools; those about files use one folder only.

    Raises:
        ConfigError: the folder cannot be used.
    """
    try:
        folder.mkdir(exist_ok=True)
        for name, text in _FILES.items():
            if not (folder / name).exists():
                (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot use the demo folder {str(folder)!r}: {error.strerror}; use --no-demo") from error
    return [*_file_tools(folder), *_example_tools(), *(_deferred(number) for number in range(DEFERRED))]


def _file_tools(folder: Path) -> list[Tool]:
    def inside(name: str) -> Path:
        if name != Path(name).name or name in ("", ".", ".."):
            raise ValueError(f"name must be the name of a file in the demo folder, got {name!r}; use list_files")
        return folder / name

    @tool(namespace="files", read_only=True, concurrency_safe=True, open_world=False)
    def list_files() -> list[str]:
        """List the files of the demo folder."""
        return sorted(each.name for each in folder.iterdir() if each.is_file())

    @tool(namespace="files", read_only=True, concurrency_safe=True, open_world=False)
    def read_file(name: str) -> str:
        """Read a file of the demo folder."""
        return inside(name).read_text(encoding="utf-8")

    @tool(namespace="files", destructive=True, concurrency_safe=True, open_world=False, locks=_file_lock)
    def write_file(name: str, content: str) -> str:
        """Write a file of the demo folder; a person is asked first."""
        inside(name).write_text(content, encoding="utf-8")
        return f"wrote {len(content)} characters to {name}"

    return [list_files, read_file, write_file]


def _file_lock(given: JsonObject) -> list[ResourceLock]:
    return [ResourceLock(resource=f"file:{given['name']}", mode="exclusive")]


def _example_tools() -> list[Tool]:
    failures = cycle([True, False])

    @tool(namespace="demo", read_only=True, concurrency_safe=True, open_world=False)
    async def slow_report(seconds: int = 60, *, ctx: Context) -> str:
        """Compile a report slowly, with progress."""
        for passed in range(max(1, min(seconds, 600))):
            ctx.progress(f"chapter {passed + 1}", percent=100 * passed / seconds)
            await asyncio.sleep(1)
        return f"the report is complete after {seconds} s"

    @tool(namespace="demo", destructive=True, concurrency_safe=True)
    def send_invoice(customer: str, amount: float, note: str = "") -> str:
        """Send an invoice to a customer; a person is asked first."""
        return f"sent an invoice over {amount:.2f} to {customer}" + (f": {note}" if note else "")

    @tool(namespace="demo", read_only=True, concurrency_safe=True, open_world=False)
    def large_table(rows: int = 5000) -> str:
        """Return a table that is too large to be shown whole."""
        lines = (f"{number},article {number},{number * 7 % 1000 / 10}" for number in range(max(0, min(rows, 100_000))))
        return "\n".join(["number,name,price", *lines])

    @tool(namespace="demo", read_only=True, concurrency_safe=True, open_world=False)
    def make_chart() -> Media:
        """Return a chart as an image."""
        return Media(_CHART, "image/png", "chart.png")

    @tool(namespace="demo", read_only=True, concurrency_safe=True, open_world=False)
    def flaky() -> str:
        """Fail every second time."""
        if next(failures):
            raise RuntimeError("the exchange rate service did not answer; try again")
        return "it worked this time"

    return [slow_report, send_invoice, large_table, make_chart, flaky]


def _deferred(number: int) -> Tool:
    verb, what, where = _VERBS[number % 5], _OBJECTS[number // 5 % 10], _WHERE[number // 50]
    is_read = verb in ("list", "get")

    @tool(
        name=f"{verb}_{what}_{where}",
        namespace="catalog",
        description=f"{verb.capitalize()} a {what} of the {where} division.",
        should_defer=True,
        read_only=is_read,
        concurrency_safe=True,
        open_world=False,
    )
    def act(number: int = 1) -> str:
        return f"{verb} {what} {number} of the {where} division: done"

    return act


async def make_calls(runtime: Runtime) -> None:
    """Start a long call; on an empty journal, first make calls that wait, fail or succeed."""
    if not runtime.inspection.log.last or not await _has_calls(runtime):
        for name, arguments in _FIRST_CALLS:
            await (await runtime.start(name, arguments, actor_ref=ACTOR)).idle()
    await (await runtime.start("demo.slow_report", {"seconds": 300}, actor_ref=ACTOR)).idle()


async def _has_calls(runtime: Runtime) -> bool:
    return bool(await runtime.approvals.list(limit=1)) or any(
        fact.invocation_id is not None for _, fact in runtime.inspection.log.read(0, 2 * DEFERRED)
    )
