"""A journal that a real runtime wrote: every sort of ending, a change of input, a secret, a question, a cancellation."""

import asyncio
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenttool import Context, Progress, Runtime, tool
from agenttool.adapters.python.threads import FunctionHook
from agenttool.cli.main import app
from agenttool.config import Setting
from agenttool.hooks.definition import Hook
from agenttool.policy.rule_settings import read_rules
from agenttool.records import HookEvent, RuleSource

PIN = "4711-0815"
BOUND_S = 60

_began = asyncio.Event()


@tool(namespace="math", read_only=True, open_world=False, risk="low", approval_required=False)
async def add(a: int, b: int = 1) -> int:
    """Add two numbers. Not for text."""
    return a + b


@tool(namespace="bank", destructive=True, sensitive=["pin"])
async def transfer(to: str, amount: int, pin: str) -> str:
    """Transfer money. Not for gifts."""
    return f"{amount} to {to}"


@tool(namespace="files", destructive=True)
async def delete(path: str) -> str:
    """Delete a file. Not for folders."""
    return f"deleted {path}"


@tool(namespace="kitchen")
async def bake(loaves: int):
    """Bake bread. Not for cake."""
    for loaf in range(loaves):
        yield Progress(f"loaf {loaf + 1} is done", percent=100 * (loaf + 1) / loaves)
    yield f"{loaves} loaves"


@tool(namespace="kitchen")
async def wait() -> str:
    """Wait for ever. Not for results."""
    _began.set()
    await asyncio.Event().wait()


@tool(namespace="kitchen", max_inline_chars=200)
async def recite(lines: int) -> str:
    """Recite a poem. Not for prose."""
    return "\n".join(f"line {line} of a long poem about bread" for line in range(lines))


@tool(namespace="kitchen")
async def cook(dish: str, ctx: Context) -> str:
    """Cook a dish with other tools. Not for bread."""
    result = await ctx.call("math.add", {"a": len(dish)})
    return f"{dish} in {result.structured_content} steps"


@tool(namespace="kitchen")
async def burn() -> str:
    """Burn something. Not for eating."""
    raise ValueError("the oven is on fire")


RULES = (
    {"name": "kitchen", "behavior": "allow", "tool": "kitchen.*"},
    {"name": "tidy", "behavior": "allow", "tool": "files.*"},
    {"name": "keep-keys", "behavior": "deny", "tool": "files.*", "path": "keys/**", "because": "keys stay here"},
    {"name": "ask-bank", "behavior": "ask", "namespace": "bank", "because": "money is money"},
)


async def say_less(question):
    """Change an input: no customer needs more than two loaves."""
    if question.input["loaves"] > 2:
        return {"updated_input": {**question.input, "loaves": 2}, "message": "two are enough"}
    return None


def open_runtime(path):
    written = [
        Setting(members=each, source=RuleSource.PROJECT_SETTINGS, file="agenttool.toml", line=1) for each in RULES
    ]
    hook = Hook(name="say-less", event=HookEvent.PRE_TOOL_USE, runner=FunctionHook(say_less), tools=("kitchen.bake",))
    tools = (add, transfer, delete, bake, wait, recite, cook, burn)
    return Runtime.open(store=f"sqlite:{path}", tools=tools, rules=read_rules(written), hooks=[hook], approve="wait")


async def answered(rt, calling, word, updated):
    """Answer the question of a call, and give its result."""
    async with asyncio.timeout(BOUND_S):
        while not (questions := await rt.approvals.list()):  # noqa: ASYNC110 -- no event says when a question is asked
            await asyncio.sleep(0.01)
    await rt.approvals.decide(questions[0].approval_id, word, input=updated, by="pat")
    return await calling


async def write_day(path):
    """Write one call of every sort; give their ids by what they are."""
    ids = {}
    async with open_runtime(path) as rt:
        surface = await rt.surface()
        for what, name, arguments in (
            ("plain", "math.add", {"a": 19, "b": 23}),
            ("misfit", "math.add", {"a": "four"}),
            ("unknown", "math.divide", {"a": 4}),
            ("hooked", "kitchen.bake", {"loaves": 7}),
            ("denied", "files.delete", {"path": "keys/front-door"}),
            ("deleted", "files.delete", {"path": "notes.txt"}),
            ("large", "kitchen.recite", {"lines": 80}),
            ("parent", "kitchen.cook", {"dish": "soup"}),
            ("failed", "kitchen.burn", {}),
        ):
            result = await rt.call(name, arguments, surface=surface, actor_ref="user:ada")
            ids[what] = result.invocation_id
        wish = {"to": "mallory", "amount": 9000, "pin": PIN}
        edit = {"to": "ada", "amount": 90, "pin": "[redacted]"}
        calling = asyncio.ensure_future(rt.call("bank.transfer", wish, surface=surface))
        ids["edited"] = (await answered(rt, calling, "allow", edit)).invocation_id
        calling = asyncio.ensure_future(rt.call("bank.transfer", {**wish, "to": "bob"}, surface=surface))
        ids["approved"] = (await answered(rt, calling, "allow", None)).invocation_id
        ids["canceled"] = await canceled(rt, surface)
    return ids


async def canceled(rt, surface):
    calling = asyncio.ensure_future(rt.call("kitchen.wait", {}, surface=surface))
    async with asyncio.timeout(BOUND_S):
        await _began.wait()
    rt.calls.interrupt(blocking=True)
    return (await calling).invocation_id


@pytest.fixture(scope="session")
def day(tmp_path_factory):
    """The file of one day of calls, and their ids by what they are."""
    path = tmp_path_factory.mktemp("day") / "agenttool.db"
    return path, asyncio.run(write_day(path))


@pytest.fixture
def journal(day, tmp_path, monkeypatch):
    """A copy of that file, in the working directory and under the name that is looked for; gives the ids."""
    shutil.copy(day[0], tmp_path / "agenttool.db")
    monkeypatch.chdir(tmp_path)
    return day[1]


@pytest.fixture
def run():
    """Run the command line in this process."""
    return lambda *words, **env: CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80", **env})


@pytest.fixture
def pin():
    """A secret that one of the calls was made with."""
    return PIN


def _served():
    spec = spec_from_file_location("served_garden", Path(__file__).with_name("served.py"))
    served = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(served)
    return served


@pytest.fixture
def garden(tmp_path, free_port):
    """A folder with settings, a provider in a process of its own, and a port on which a runtime may be served."""
    with _served().garden(tmp_path, free_port()) as found:
        yield found


@pytest.fixture
def serving(tmp_path):
    """Run a command that serves, in an empty folder: `with serving("serve") as (child, line)`."""
    return lambda *words: _served().running(tmp_path, ["-m", "agenttool", *words, "--json"])


@pytest.fixture
def running():
    """Run a program that says in a line of JSON when it is there: `with running(folder, words) as (child, line)`."""
    return _served().running
