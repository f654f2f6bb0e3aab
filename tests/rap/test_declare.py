"""Tools of a provider: display scripts, and tools of a runtime."""

import asyncio
import json
from dataclasses import replace

import pytest

from agenttool import ConfigError, Media, Runtime, tool
from agenttool.rap import Provider
from agenttool.records import ToolInvocation
from agenttool.testing.fakes import scripted_tool


def offer(script):
    provider = Provider("greenhouse")

    @provider.tool(display_script=script)
    async def water(bed: int, gardener: str, note: str = "") -> str:
        """Water a bed."""
        return f"{bed} {gardener} {note}"

    return provider


@pytest.mark.requirement("RAP-166")
@pytest.mark.parametrize(
    "script",
    [
        '"probe"',
        '"bed " + args.bed',
        'args.bed + " by " + args.gardener',
        "`bed ${args.bed} by ${ args.gardener }`",
        '"a \\"quoted\\" bed: " + args.bed + ", " + args.note + "!"',
    ],
)
def test_a_script_that_yields_a_text_is_served(script):
    [tool] = offer(script).definitions
    assert tool.display_script == script


@pytest.mark.requirement("RAP-166")
@pytest.mark.parametrize(
    "script",
    [
        "",
        "5",
        "true",
        "args",
        "args.bed",
        "args.note",
        "args.gardener",
        "args.bed + args.note",
        "args.bed + 1",
        "args.bed - 1",
        '"a" - "b"',
        'if args.bed == 1 { "one" }',
        'if args.bed == 1 { "one" } else { args.bed }',
        'if args.bed { "one" } else { "two" }',
        'let bed = args.bed; "a"; bed',
        "let bed = args.bed; bed",
        '{ let bed = "a"; bed } + bed',
        'nobody + "a"',
        "`${nobody}`",
        "`${args.bed - 1}`",
        '"a" "b"',
        '"unended',
        "while true {}",
        'throw "a"',
        'print("a")',
        'fn f() { "a" } f()',
        '"a" + if',
        '"a" +',
        'let bed = "a"; bed',
        'if args.bed == 1 { "one" } else { "two" }',
        "`${args.gardener + 1}`",
    ],
)
def test_a_script_that_may_yield_something_else_is_refused(script):
    with pytest.raises(ConfigError, match="display_script must return a text"):
        offer(script)


RULES = """
[[rules]]
name = "look"
behavior = "allow"
tool = "beds.*"
optional = true

[[rules]]
name = "tanks"
behavior = "deny"
tool = "tanks.*"
because = "tanks are for people"
optional = true

[[rules]]
name = "valves"
behavior = "ask"
tool = "valves.*"
optional = true
"""


@tool(namespace="beds", read_only=True)
async def read_probe(bed: int) -> dict[str, int]:
    """Read one soil probe."""
    return {"bed": bed}


@tool(namespace="beds", read_only=True)
async def photo() -> Media:
    """Take a photo of a leaf."""
    return Media(b"\x89PNG\r\n\x1a\n" + b"0" * 40, "image/png", "leaf.png")


@tool(namespace="valves", name="open")
async def open_valve(name: str) -> str:
    """Open a valve."""
    return f"{name} is open"


@tool(namespace="tanks", name="open")
async def open_tank() -> str:
    """Open a tank."""
    return "flooded"


@pytest.fixture
def governed(make, tmp_path):
    """Make a provider over a runtime with rules; gives it, and a place where the open runtime is."""
    settings, runtimes = tmp_path / "agenttool.toml", []
    settings.write_text(RULES)
    provider = make()

    def opening():
        runtimes.append(Runtime.open(config=settings, tools=[read_probe, photo, open_valve, open_tank], approve="wait"))
        return runtimes[-1]

    provider.include_runtime(opening)
    return provider, runtimes


async def test_what_a_surface_offers_is_offered_under_names_that_rap_allows(governed, serving):
    provider, _ = governed
    async with serving(provider) as client:
        manifest = json.loads((await client.get("/.well-known/rap-toolset")).body)
    assert {"read_probe", "photo", "valves_open"} <= {each["name"] for each in manifest["tools"]}


@pytest.mark.requirement("RAP-054")
async def test_each_invocation_is_a_governed_call_on_behalf_of_its_user(governed, serving):
    provider, runtimes = governed
    async with serving(provider) as client:
        await client.invoke("read_probe", {"bed": 3}, user_id="ann")
        assert json.loads((await client.result())["text"]) == {"bed": 3}
        await client.invoke("photo", id="tc-2")
        content = (await client.result(2))["content"]
        calls = [each async for each in runtimes[0].journal.export() if isinstance(each, ToolInvocation)]
    assert [each["type"] for each in content[-2:]] == ["text", "image"]
    assert [call.actor_ref for call in calls] == ["rap:ann", None]


async def test_a_hanging_call_of_one_conversation_delays_no_exclusive_call_of_another(make, serving):
    started, end = asyncio.Event(), asyncio.Event()

    async def hang(_):
        started.set()
        await end.wait()
        return "late"

    async def answer(_):
        return "at once"

    scripts = (scripted_tool("slow", hang), scripted_tool("quick", answer))
    tools, rules = [replace(each, shared_state=None) for each in scripts], [{"behavior": "allow", "tool": "*"}]
    provider = make()
    provider.include_runtime(lambda: Runtime.open(tools=tools, rules=rules))
    async with serving(provider) as client:
        await client.invoke("slow", id="tc-1", group_id="thread-1")
        await started.wait()
        await client.invoke("quick", id="tc-2", group_id="thread-1")
        await client.invoke("quick", id="tc-3", group_id="thread-2")
        first = await client.result()
        end.set()
        await client.result(3)
    assert (first["id"], first["text"]) == ("tc-3", "at once")


@pytest.mark.parametrize(("answer", "expected"), [("allow", "north is open"), ("deny", "Error: ")])
async def test_what_rules_ask_is_asked_of_the_runtimes_own_approvers(governed, serving, answer, expected):
    provider, runtimes = governed
    async with serving(provider) as client:
        await client.invoke("valves_open", {"name": "north"})
        while not (questions := await runtimes[0].approvals.list()):
            await asyncio.sleep(0.01)
        assert client.inbox.messages == []
        await runtimes[0].approvals.decide(questions[0].approval_id, answer)
        assert (await client.result())["text"].startswith(expected)


@pytest.fixture
def durable(make, tmp_path):
    """Make a provider over a runtime that outlives its process, a new one each time; return it, and the place of the runtime."""
    settings, runtimes = tmp_path / "agenttool.toml", []
    settings.write_text(RULES)

    def opening():
        runtimes.append(
            Runtime.open(store=f"sqlite:{tmp_path}/state.db", config=settings, tools=[open_valve], approve="wait")
        )
        return runtimes[-1]

    def durable():
        provider = make()
        provider.include_runtime(opening)
        return provider

    return durable, runtimes


async def asked(rt):
    while not (questions := await rt.approvals.list()):
        await asyncio.sleep(0.01)
    return questions[0].approval_id


@pytest.mark.requirement("RAP-061")
async def test_a_call_that_waits_for_an_approver_outlives_its_provider(durable, serving):
    provider, runtimes = durable
    async with serving(provider()) as client:
        inbox = client.inbox
        await client.invoke("open", {"name": "north"})
        await asked(runtimes[-1])
    async with serving(provider(), inbox) as client:
        assert inbox.messages == []
        await runtimes[-1].approvals.decide(await asked(runtimes[-1]), "allow")
        assert (await client.result())["text"] == "north is open"
        calls = [each async for each in runtimes[-1].journal.export() if isinstance(each, ToolInvocation)]
    assert len(calls) == 1


async def test_a_governed_call_is_canceled_with_its_invocation(durable, serving):
    provider, runtimes = durable
    async with serving(provider()) as client:
        await client.invoke("open", {"name": "north"})
        await asked(runtimes[-1])
        await client.post("/cancel_tool_call", {"thread_id": "thread-1", "tool_call_id": "tc-1"})
        assert (await client.result())["text"].startswith("Error: the call was canceled")
        (call,) = [each async for each in runtimes[-1].journal.export() if isinstance(each, ToolInvocation)]
        # It was asked to stop, and does so in its own time.
        result = await runtimes[-1].calls.get(call.invocation_id).result()
        assert (result.status.value, await runtimes[-1].approvals.list()) == ("canceled", ())


async def test_a_runtime_without_tools_cannot_be_served(make):
    provider = make()
    provider.include_runtime(Runtime.open)
    with pytest.raises(ConfigError, match="offers no tool"):
        async with provider.running():
            pass
