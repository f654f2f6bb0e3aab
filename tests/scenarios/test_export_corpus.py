"""The exported records of a fixed corpus of calls stay identical from one version to the next.

Ids and times are replaced by running numbers. Prose that may be reworded (messages, summaries, the text of error
results and previews, descriptions of built-in tools) is replaced by a placeholder. Everything else is compared whole
with `tests/data/export_corpus.jsonl`, in memory and on SQLite. To accept an intended change, run:

    .venv/bin/python -m pytest tests/scenarios/test_export_corpus.py --update-golden
"""

import asyncio
import dataclasses
import json
import re
from pathlib import Path
from typing import Annotated

import pytest
from starting import begin

from agenttool import (
    Context,
    Media,
    Progress,
    RateLimit,
    Runtime,
    Sensitive,
    SurfacePolicy,
    ToolCall,
    ToolFailure,
    tool,
)
from agenttool.codec import to_json
from agenttool.ports.deferred import DEFERRED
from agenttool.ports.world import OsUser
from agenttool.records import (
    ErrorClass,
    HookEvent,
    OutputContract,
    SchedulerPolicy,
    SchedulerPolicyId,
    SiblingFailurePolicy,
    ToolError,
    replace,
)
from agenttool.testing.fakes import scripted_tool

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "export_corpus.jsonl"
SAFE = {"read_only": True, "concurrency_safe": True, "open_world": False}
PIN = "4711-secret-pin"
KEY_TEXT = "hunter2"


def fail(error_class, message="refused"):
    raise ToolFailure(ToolError(error_class=ErrorClass(error_class), message=message))


@tool(**SAFE)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@tool(**SAFE)
async def total(prices: dict[str, int], labels: list[str]) -> dict[str, int]:
    """Sum prices by label. Not for single prices."""
    return {label: prices[label] for label in labels}


@tool(**SAFE)
def blocking_add(a: int, b: int = 2) -> int:
    """Add two whole numbers in a thread. Not for text."""
    return a + b


@tool(**SAFE)
async def login(user: str, pin: Annotated[str, Sensitive]) -> str:
    """Log in. Not for services."""
    if user == "eve":
        raise PermissionError(f"no {pin} for {user}")
    return f"welcome {user}, your pin is {pin}"


@tool
async def pay(to: str, amount: int) -> str:
    """Pay an amount. Not for refunds."""
    return f"paid {amount} to {to}"


@tool(approval_required=True, approval_reason="money moves")
async def transfer(to: str, amount: int, note: str = "") -> str:
    """Transfer money. Not for refunds."""
    return f"sent {amount} to {to}"


def reject_negative(given):
    if given["n"] < 0:
        fail("invalid_arguments", "n is negative")


def round_down(given):
    return {**given, "n": given["n"] // 10 * 10}


@tool(**SAFE, check=reject_negative, normalize=round_down)
async def tens(n: int) -> int:
    """Give the tens of a number. Not for text."""
    return n


@tool(**SAFE, max_inline_chars=200)
async def dump(lines: int) -> str:
    """Return many lines. Not for a few."""
    return "\n".join(f"line {number}: " + "x" * 30 for number in range(lines))


@tool(**SAFE)
async def break_down(kind: str) -> str:
    """Raise an error. Not for success."""
    if kind == "tool":
        fail("dependency_unavailable", "the backend is away")
    raise {"key": KeyError, "connection": ConnectionError, "value": ValueError}[kind]("it broke")


@tool(**SAFE, timeout_s=0.05)
async def hang() -> str:
    """Never return. Not for results."""
    await asyncio.Event().wait()
    return "never"


@tool(**SAFE)
async def wait_for_cancel() -> str:
    """Wait until canceled. Not for results."""
    await asyncio.Event().wait()
    return "never"


@tool(**SAFE)
async def wrong_output() -> list[int]:
    """Return values that do not fit the output schema. Not for use."""
    return ["zzz"]


@dataclasses.dataclass
class Place:
    name: str
    height: int


@tool(**SAFE)
async def describe(name: str) -> Place:
    """Describe a place. Not for people."""
    return Place(name, 2962)


@tool(**SAFE)
async def bake(loaves: int, context: Context) -> str:
    """Bake with progress. Not for cakes."""
    for done in range(loaves):
        context.progress(f"loaf {done}", percent=100 * done / loaves, step=str(done))
    context.partial({"loaves": loaves})
    return "bread"


@tool(**SAFE)
async def count_up(to: int):
    """Yield progress and parts. Not for counting down."""
    for number in range(to):
        yield Progress(message=f"at {number}", percent=100.0 * number / to)
        yield str(number)


@tool(**SAFE)
async def quadruple(n: int, context: Context) -> int:
    """Add a number to itself twice. Not for text."""
    twice = await context.call("add", {"a": n, "b": n})
    await context.call("add", {"a": "not a number"})
    again = await context.call("add", {"a": twice.structured_content, "b": twice.structured_content})
    return again.structured_content


@tool(**SAFE)
async def picture() -> list[Media | str]:
    """Return an image. Not for text."""
    return ["a dot", Media(b"\x89PNG\r\n\x1a\n" + bytes(40), "image/png")]


@tool(**SAFE, rate_limit=RateLimit(per_second=0.0001, max_wait_s=0))
async def once() -> str:
    """Run once an hour. Not for more."""
    return "ran"


@tool(open_world=False, changes_context=True)
async def remember(key: str, context: Context) -> str:
    """Change the shared context. Not for reading."""
    context.change_shared({key: True})
    return "remembered"


def redacted_tool():
    """Make a tool whose output contract redacts one member."""

    async def report(job):
        return {"user": "ada", "password": KEY_TEXT}

    made = scripted_tool("report", report)
    contract = OutputContract(redaction_rules=("password",))
    return dataclasses.replace(made, declaration=replace(made.declaration, output_contract=contract))


class AnswersByCallback:
    """A tool whose result arrives after its run has ended."""

    async def may_resend(self, invocation_id):
        return True

    def until_ns(self, invocation_id, started_ns):
        return None

    def why_over(self, invocation_id, now_ns):
        return None

    async def send(self, job):
        return DEFERRED

    def read(self, body):
        given = json.loads(body)
        if "error" in given:
            fail("execution_failed", given["error"])
        return given["value"]

    def withdraw(self, invocation_id, thread):
        return None

    def tool(self):
        return dataclasses.replace(scripted_tool("ask", self.send, namespace="far"), later=self)


CASES = {}


def case(name, *tools, **options):
    """Register a case: `run` is given what a case needs, and leaves its calls in the runtime's journal."""

    def register(run):
        assert name not in CASES
        CASES[name] = (tools, options, run)
        return run

    return register


def calls(name, *tools, made, **options):
    """Register a case of plain calls: `made` lists a tool's name and its arguments."""

    @case(name, *tools, **options)
    async def run(kit):
        for called, arguments in made:
            await kit.call(called, arguments)


calls("all arguments", add, made=[("add", {"a": 1, "b": 2})])
calls("default left out", add, made=[("add", {"a": 1})])
calls("arguments as text", add, made=[("add", '{"a": 1, "b": 5}'), ("add", "{broken"), ("add", "[1]")])
calls("nested arguments", total, made=[("total", {"prices": {"x": 3, "y": 4}, "labels": ["x", "y"]})])
calls("sync function", blocking_add, made=[("blocking_add", {"a": 1})])
calls("sensitive field", login, made=[("login", {"user": "ada", "pin": PIN})])
calls("sensitive field in an error", login, made=[("login", {"user": "eve", "pin": PIN})])
calls("schema errors", add, made=[("add", {"a": "x"}), ("add", {}), ("add", {"a": 1, "c": 2}), ("add", {"a": None})])
calls("unknown tool", add, made=[("subtract", {"a": 1})])
calls("qualified name", add, made=[("local.add", {"a": 1})])
calls("allowed by rule", pay, rules=[("allow", "local.pay")], made=[("pay", {"to": "ada", "amount": 1})])
calls("denied by rule", pay, rules=[("deny", "local.pay")], made=[("pay", {"to": "ada", "amount": 1})])
calls(
    "deny beats allow",
    pay,
    rules=[("allow", "local.*"), ("deny", "local.pay")],
    made=[("pay", {"to": "ada", "amount": 1})],
)
calls("no approver", pay, approve="deny", made=[("pay", {"to": "ada", "amount": 1})])
calls("read-only mode", pay, add, mode="read_only", made=[("pay", {"to": "ada", "amount": 1}), ("add", {"a": 1})])
calls("check and normalize", tens, made=[("tens", {"n": 47}), ("tens", {"n": -1})])
calls("large output stored", dump, made=[("dump", {"lines": 300}), ("dump", {"lines": 2})])
calls("tool that raises", break_down, made=[("break_down", {"kind": kind}) for kind in ("key", "connection", "tool")])
calls("timeout", hang, made=[("hang", {})])
calls("output schema mismatch", wrong_output, made=[("wrong_output", {})])
calls("structured output", describe, made=[("describe", {"name": "Zugspitze"})])
calls("progress", bake, made=[("bake", {"loaves": 3})])
calls("generator", count_up, made=[("count_up", {"to": 3})])
calls("nested calls", add, quadruple, made=[("quadruple", {"n": 3})])
calls("media", picture, made=[("picture", {})])
calls("rate limit", once, made=[("once", {}), ("once", {})])
calls("shared context", remember, rules=[("allow", "*")], made=[("remember", {"key": "seen"})])
calls("redacted output", redacted_tool(), rules=[("allow", "*")], made=[("report", {})])
calls(
    "preflight",
    dataclasses.replace(scripted_tool("setup"), preflight=lambda _: fail("setup_required", "install it")),
    dataclasses.replace(scripted_tool("ready"), preflight=lambda _: None),
    rules=[("allow", "*")],
    made=[("setup", {}), ("ready", {})],
)
calls(
    "hook that mutates",
    add,
    hooks=[("adder", "pre_tool_use", lambda question: {"updated_input": {**question.input, "b": 40}})],
    made=[("add", {"a": 2})],
)
calls(
    "hook that mutates badly",
    add,
    hooks=[("adder", "pre_tool_use", {"updated_input": {"a": "x"}})],
    made=[("add", {"a": 2})],
)
calls(
    "hook that blocks",
    add,
    hooks=[("guard", "pre_tool_use", {"stop": "not today"})],
    made=[("add", {"a": 2})],
)
calls(
    "hook that denies",
    add,
    hooks=[("guard", "pre_tool_use", {"permission_result": "deny", "permission_reason": "Fridays"})],
    made=[("add", {"a": 2})],
)
calls(
    "hooks at every event",
    add,
    dump,
    hooks=[
        (f"note-{event}", event, {"message": "seen", "additional_context": [{"note": "hello"}]})
        for event in ("pre_tool_use", "permission_request", "permission_decision", "post_tool_use")
    ],
    made=[("add", {"a": 2}), ("add", {"a": "x"})],
)
calls(
    "hook that replaces output",
    add,
    hooks=[("masker", "post_tool_use", {"updated_output": 7})],
    made=[("add", {"a": 2})],
)
calls(
    "tools are deferred",
    add,
    tens,
    surface=SurfacePolicy(max_tools=1),
    made=[("add", {"a": 1}), ("tool_search", {"query": "select:local.add"}), ("add", {"a": 1})],
)


async def approve(kit, answer, **options):
    calling = asyncio.ensure_future(kit.call("transfer", {"to": "ada", "amount": 5}))
    (question,) = await kit.asked_questions(kit.rt)
    await kit.rt.approvals.decide(question.approval_id, answer, by="pat", **options)
    await calling


@case("approval allowed", transfer)
async def _(kit):
    await approve(kit, "allow")


@case("approval denied", transfer)
async def _(kit):
    await approve(kit, "deny", message="too much")


@case("approval edited", transfer)
async def _(kit):
    await approve(kit, "allow", input={"to": "grace", "amount": 3, "note": "less"})


@case("canceled while it runs", wait_for_cancel)
async def _(kit):
    calling = asyncio.ensure_future(kit.call("wait_for_cancel", {}))
    await kit.rt.cancel(await kit.begun(kit.rt))
    await calling


@case("canceled while it awaits approval", transfer)
async def _(kit):
    calling = asyncio.ensure_future(kit.call("transfer", {"to": "ada", "amount": 5}))
    (question,) = await kit.asked_questions(kit.rt)
    await kit.rt.cancel(question.invocation_id)
    await calling


@case("batch", add, pay, rules=[("deny", "local.pay")])
async def _(kit):
    made = [("add", {"a": 1}), ("pay", {"to": "ada", "amount": 1}), ("add", {"a": 3})]
    await kit.rt.batch([ToolCall(name=name, arguments=given) for name, given in made], surface=kit.surface)


@case("batch with sibling cancel", wait_for_cancel, break_down)
async def _(kit):
    policy = SchedulerPolicy(
        scheduler_policy_id=SchedulerPolicyId("sched_corpus"),
        sibling_failure_policy=SiblingFailurePolicy.CANCEL_SIBLINGS,
    )
    made = [("wait_for_cancel", {}), ("break_down", {"kind": "value"})]
    batch = [ToolCall(name=name, arguments=given) for name, given in made]
    await kit.rt.batch(batch, surface=kit.surface, policy=policy)


@case("deferred result", AnswersByCallback().tool(), rules=[("allow", "*")])
async def _(kit):
    for body in (b'{"value": "forty-two"}', b'{"error": "no idea"}'):
        invocation = await begin(kit.rt, "ask", {"n": 1}, surface=kit.surface)
        await kit.rt.deferred.deliver(invocation.invocation_id, body)
        await kit.rt.calls.get(invocation.invocation_id).result()


@case("tool outside the surface", add, tens)
async def _(kit):
    narrow = await kit.rt.surface(only=["local.tens"])
    await kit.rt.call("add", {"a": 1}, surface=narrow)


@case("retired tool", add, tens)
async def _(kit):
    kit.rt.retire("local.add")
    kit.rt.surfaces.current(kit.surface)
    await kit.call("add", {"a": 1})


@dataclasses.dataclass(kw_only=True)
class Kit:
    """What a case may use."""

    rt: Runtime
    surface: object
    asked_questions: object
    begun: object

    async def call(self, name, arguments):
        options = {"actor_ref": "user:ada", "native_call_id": "call_1"}
        return await self.rt.call(name, arguments, surface=self.surface, **options)


UNIQUE = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])|(?<=evt_)\d{20}-\d+")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
PROSE = {"message", "elapsed_ms", "retry_after", "summary", "loaded_tokens", "deferred_tokens", "preview_size_bytes"}
TEXT = "(text)"
IN_MEMORY_ONLY = ("tools are deferred",)  # on SQLite, read_result counts towards the limit of loaded tools
REDACTED = "[redacted]"
READ_RESULT = "tool_agenttool.read_result"


def without_prose(value, *, is_prose=False):
    """Replace what may be reworded: values of prose members, and the texts of a record that is prose."""
    if isinstance(value, dict):
        prose = PROSE | {"text", "description", "digest"} if is_prose else PROSE
        return {name: TEXT if name in prose else without_prose(each, is_prose=is_prose) for name, each in value.items()}
    if isinstance(value, list):
        return [without_prose(each, is_prose=is_prose) for each in value if not is_read_result(each)]
    return value


def is_read_result(item):
    return item == READ_RESULT or (isinstance(item, dict) and item.get("tool_id") == READ_RESULT)


def is_about_read_result(record):
    """Whether a record only declares the tool that reads stored output: each store offers it at another time."""
    named = [record.get(name) or "" for name in ("tool_id", "execution_profile_id", "permission_profile_id")]
    declared = record["data"]["tool_id"] if record.get("event_type") == "tool.declared" else ""
    return any(each.endswith(READ_RESULT) for each in (*named, declared))


def normalized(records):
    """Give records as lines of JSON, call by call, with ids and times as running numbers, and without prose.

    Only the order of a call's events is compared with others: how calls of one batch interleave, or how events and
    other records do, depends on how the store groups them.
    """
    seen, by_call = {}, {}
    for record in records:
        by_call.setdefault(record.get("invocation_id", ""), []).append(record)
    for own in by_call.values():
        is_keyed = REDACTED in json.dumps(own)  # digests of sensitive input are keyed by a secret of the process
        for record in sorted(own, key=lambda each: each["record_type"]):
            if not is_about_read_result(record):
                line = TIME.sub("(time)", line_of(record))
                line = DIGEST.sub("(digest)", line) if is_keyed else line
                yield UNIQUE.sub(lambda found: f"#{seen.setdefault(found.group(), len(seen) + 1)}", line)


def line_of(record):
    """Give a record without prose as a line of JSON."""
    is_ours = record.get("namespace") == "agenttool"
    is_reworded = record.get("is_error", False) or "persistence_refs" in record
    return json.dumps(without_prose(record, is_prose=is_ours or is_reworded), sort_keys=True, ensure_ascii=False)


@pytest.fixture
def export(rule, hook, asked_questions, begun, monkeypatch):
    monkeypatch.setattr("agenttool.assemble.settings.os_user", lambda: OsUser(1000, "ada"))

    async def export(name, store):
        tools, options, run = CASES[name]
        rules = [rule(behavior, pattern) for behavior, pattern in options.get("rules", ())]
        hooks = [hook(answer, HookEvent(event), called) for called, event, answer in options.get("hooks", ())]
        given = {"approve": "wait", **options, "rules": rules, "hooks": hooks}
        async with Runtime.open(store=store, tools=tools, **given) as rt:
            await run(Kit(rt=rt, surface=await rt.surface(), asked_questions=asked_questions, begun=begun))
            return [to_json(record) async for record in rt.journal.export()]

    return export


@pytest.fixture(scope="module")
def golden(request):
    """The stored lines by case; after a run with `--update-golden`, those that the run made."""
    if request.config.getoption("--update-golden"):
        made = {}
        yield made
        lines = (json.dumps({"case": name}, ensure_ascii=False) + "\n" + "\n".join(made[name]) for name in CASES)
        GOLDEN.write_text("\n".join(lines) + "\n")
        return
    stored, name = {}, None
    for line in GOLDEN.read_text().splitlines():
        if line.startswith('{"case"'):
            name = json.loads(line)["case"]
        else:
            stored.setdefault(name, []).append(line)
    yield stored


def test_the_golden_file_holds_the_cases_and_no_others(golden, request):
    if not request.config.getoption("--update-golden"):
        assert list(golden) == list(CASES)


@pytest.mark.parametrize("name", CASES)
async def test_the_export_of_a_call_is_what_it_was(name, export, golden, request):
    records = await export(name, "memory:")
    lines = list(normalized(records))
    if request.config.getoption("--update-golden"):
        golden[name] = lines
    assert lines == golden[name]
    assert PIN not in json.dumps(records)
    assert KEY_TEXT not in json.dumps(records)


@pytest.mark.parametrize("name", [name for name in CASES if name not in IN_MEMORY_ONLY])
async def test_the_export_of_a_call_is_the_same_on_sqlite(name, export, golden, tmp_path):
    records = await export(name, f"sqlite:{tmp_path}/calls.db")
    assert list(normalized(records)) == golden[name]
