"""Sources of tools that other packages write: attached, called, lost and closed through the public interface."""

import asyncio
from importlib import metadata

import pytest

from agenttool import ConfigError, Runtime, sync, tool
from agenttool.adapters.python.source import PythonSource
from agenttool.agent import attached_sources
from agenttool.policy.rules import Rule
from agenttool.ports.source import SourceStatus
from agenttool.ports.surfacing import ProviderState
from agenttool.records import Behavior, RuleSource
from agenttool.testing.fakes import scripted_tool

ALLOW_ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


@tool(read_only=True, open_world=False)
def near() -> str:
    """Say where. Not for time."""
    return "here"


class ClockSource:
    """A source as a third party writes it."""

    def __init__(self, name="clock", fault=None):
        self.name = name
        self.fault = fault
        self.closed = 0

    async def connect(self, host):
        if self.fault is not None:
            raise self.fault
        self.host = host
        self.offer()

    def offer(self, now="noon"):
        @tool(namespace=self.name, name="now", read_only=True, open_world=False)
        def now_(zone: str) -> str:
            """Tell the time in a zone. Not for dates."""
            return f"{now} in {zone}"

        self.host.declare(now_.declared)

    def health(self):
        return (SourceStatus(source=self.name, state=ProviderState.READY),)

    async def close(self):
        self.closed += 1


async def test_the_tools_of_a_third_party_source_are_offered_and_called():
    source = ClockSource()
    async with Runtime.open(tools=[near], sources=[source]) as rt:
        surface = await rt.surface()
        result = await rt.call("clock.now", {"zone": "CET"}, surface=surface)
        assert (result.content[0].text, rt.sources.names) == ("noon in CET", ("clock",))
        assert await rt.sources.status() == (SourceStatus(source="clock", state=ProviderState.READY),)
        source.offer(now="one o'clock")
        result = await rt.call("clock.now", {"zone": "CET"}, surface=await rt.surface())
        assert result.content[0].text == "one o'clock in CET"
        assert (rt.sources.get("clock"), rt.sources.find(ClockSource), source.closed) == (source, source, 0)
    assert source.closed == 1


async def test_a_source_that_cannot_connect_costs_only_its_own_tools(caplog):
    broken = ClockSource("broken", fault=OSError("connection refused"))
    async with Runtime.open(tools=[near], sources=[broken, ClockSource()]) as rt:
        surface = await rt.surface()
        assert (await rt.call("near", {}, surface=surface)).content[0].text == "here"
        assert not (await rt.call("clock.now", {"zone": "CET"}, surface=surface)).is_error
        missing, ready = await rt.sources.status()
        assert (missing.source, missing.state, ready.state) == (
            "broken",
            ProviderState.UNAVAILABLE,
            ProviderState.READY,
        )
        assert missing.fault == "the source 'broken' cannot connect (OSError); the log has the details"
        assert rt.sources.find(ClockSource).name == "clock"
    assert broken.closed == 1
    assert "connection refused" in caplog.text


async def test_a_source_that_hangs_does_not_hold_up_the_others(monkeypatch):
    class Hanging(ClockSource):
        async def connect(self, host):
            await asyncio.Event().wait()

    monkeypatch.setattr(attached_sources, "CONNECT_TIMEOUT_S", 0.01)
    async with Runtime.open(sources=[Hanging("slow"), ClockSource()]) as rt:
        assert [each.is_ready for each in await rt.sources.status()] == [False, True]


@pytest.mark.parametrize("fault", [asyncio.CancelledError("inner scope"), SystemExit(3)])
async def test_an_exception_of_any_kind_costs_only_the_tools_of_its_source(tmp_path, fault):
    class Fails(ClockSource):
        async def close(self):
            raise fault

    store, last = f"sqlite:{tmp_path / 'state.db'}", ClockSource()
    async with Runtime.open(store=store, sources=[Fails("first", fault), Fails("second"), last]) as rt:
        assert [each.is_ready for each in await rt.sources.status()] == [False, True, True]
        assert not (await rt.call("clock.now", {"zone": "CET"}, surface=await rt.surface())).is_error
    assert last.closed == 1
    assert not (tmp_path / "state.db-wal").exists()


async def test_the_cancellation_of_the_caller_stops_the_start_and_closes_every_source(monkeypatch):
    class Slow(ClockSource):
        async def connect(self, host):
            entered.set()
            await asyncio.Event().wait()

    entered, slow, other = asyncio.Event(), Slow("slow"), ClockSource()

    async def start():
        async with Runtime.open(sources=[slow, other]):
            pass

    task = asyncio.ensure_future(start())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (slow.closed, other.closed) == (1, 1)


async def test_the_cancellation_of_the_caller_while_a_source_closes_closes_the_others_first():
    class Slow(ClockSource):
        async def close(self):
            closing.set()
            await asyncio.Event().wait()

    closing, other = asyncio.Event(), ClockSource()

    async def run():
        async with Runtime.open(sources=[Slow("slow"), other]):
            pass

    task = asyncio.ensure_future(run())
    await closing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other.closed == 1


async def test_an_invalid_tool_of_a_source_costs_only_that_tool():
    class Careless(ClockSource):
        def offer(self):
            self.host.declare(scripted_tool("bad", namespace=self.name, schema={"type": "strng"}))
            super().offer()

    source = Careless()
    async with Runtime.open(sources=[source, ClockSource("other")]) as rt:
        surface = await rt.surface()
        assert not (await rt.call("clock.now", {"zone": "CET"}, surface=surface)).is_error
        assert not (await rt.call("other.now", {"zone": "CET"}, surface=surface)).is_error
        first, second = await rt.sources.status()
        assert first.is_ready
        assert first.fault.startswith("'bad' is not offered: the input schema of 'clock.bad' cannot be used: ")
        assert second.fault is None
        source.host.declare(scripted_tool("bad", namespace="clock", schema={"type": "object"}))
        assert [each.fault for each in await rt.sources.status()] == [None, None]


async def test_a_source_that_rejects_the_deployment_stops_the_start_and_is_closed():
    wrong, other = ClockSource("wrong", fault=ConfigError("no zone is set; set one")), ClockSource()
    with pytest.raises(ConfigError, match="no zone is set"):
        async with Runtime.open(sources=[wrong, other]):
            pass
    assert (wrong.closed, other.closed) == (1, 1)


async def test_a_source_that_fails_to_close_does_not_keep_others_open(caplog):
    class Stuck(ClockSource):
        async def close(self):
            raise OSError("stuck")

    other = ClockSource()
    async with Runtime.open(sources=[Stuck("stuck"), other]):
        pass
    assert other.closed == 1
    assert "the source 'stuck' cannot be closed" in caplog.text


async def test_a_lost_server_hides_its_tools_until_it_is_back():
    source = ClockSource()
    async with Runtime.open(sources=[source]) as rt:
        before = await rt.surface()
        assert "tool_clock.now" in before.loaded_tools
        await source.host.set_states({"clock": ProviderState.CONNECTING})
        assert "tool_clock.now" not in rt.surfaces.current(before).loaded_tools
        await source.host.set_states({"clock": ProviderState.READY})
        assert "tool_clock.now" in rt.surfaces.current(before).loaded_tools


async def test_a_report_of_a_source_that_changes_nothing_renews_no_surface():
    source = ClockSource()
    async with Runtime.open(sources=[source]) as rt:
        await source.host.set_states({"clock": ProviderState.READY})
        before = await rt.surface()
        await source.host.set_states({"clock": ProviderState.READY})
        assert rt.surfaces.current(before) == before
        source.host.declare(scripted_tool("later", namespace="clock"))
        await source.host.set_states({"clock": ProviderState.READY})
        assert "tool_clock.later" in rt.surfaces.current(before).loaded_tools


async def test_a_tool_of_a_source_cannot_replace_one_of_the_program():
    @tool(namespace="clock", name="now")
    def ours() -> str:
        """Mine. Not theirs."""
        return "mine"

    async with Runtime.open(tools=[ours], sources=[ClockSource()], rules=ALLOW_ALL) as rt:
        assert (await rt.call("clock.now", {}, surface=await rt.surface())).content[0].text == "mine"
        (status,) = await rt.sources.status()
        assert status.fault.startswith("'now' is not offered: another tool has the id 'tool_clock.now' already")


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        ([ClockSource(), ClockSource()], "two sources are named 'clock'; rename one of them"),
        (["clock"], "not a source: 'clock'; pass an object with the methods of `Source`"),
        (ClockSource(), "sources must be a list, got a ClockSource; put it in brackets"),
    ],
)
async def test_wrong_sources_are_rejected(sources, reason):
    with pytest.raises(ConfigError) as error:
        Runtime.open(sources=sources)
    assert str(error.value) == reason


def make_clocks(tables):
    return [ClockSource(each.name, **each.members) for each in tables]


def register(monkeypatch, **kinds):
    points = [metadata.EntryPoint(kind, value, "agenttool.sources") for kind, value in kinds.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: points)


async def test_a_package_adds_a_kind_of_source_by_an_entry_point(tmp_path, monkeypatch):
    register(monkeypatch, clock=f"{__name__}:make_clocks")
    file = tmp_path / "agenttool.toml"
    file.write_text('[sources.wall]\nkind = "clock"\n[sources.wrist]\nkind = "clock"\n')
    async with Runtime.open(config=file) as rt:
        assert rt.sources.names == ("wall", "wrist")
        assert not (await rt.call("wrist.now", {"zone": "CET"}, surface=await rt.surface())).is_error


async def test_an_unknown_or_broken_kind_is_rejected_with_its_place(tmp_path, monkeypatch):
    register(monkeypatch, clock="no_such_package:make")
    file = tmp_path / "agenttool.toml"
    file.write_text('\n[sources.wall]\nkind = "clok"\n')
    with pytest.raises(ConfigError, match=r"agenttool.toml:2: no source is of the kind 'clok'; did you mean 'clock'\?"):
        Runtime.open(config=file)
    file.write_text('[sources.wall]\nkind = "clock"\n')
    with pytest.raises(ConfigError, match=r"agenttool.toml:1: sources of the kind 'clock' cannot be loaded: No module"):
        Runtime.open(config=file)


async def test_settings_name_a_module_of_python_tools(tmp_path, monkeypatch):
    (tmp_path / "wall_tools.py").write_text(
        "from agenttool import tool\n\n@tool(read_only=True, open_world=False)\n"
        'def paint(color: str) -> str:\n    """Paint. Not for walls of others."""\n    return color\n'
    )
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "agenttool.toml"
    file.write_text('[sources.walls]\nkind = "python"\nmodule = "wall_tools"\n')
    async with Runtime.open(config=file) as rt:
        assert not (await rt.call("paint", {"color": "red"}, surface=await rt.surface())).is_error
    for wrong, reason in (("", "a python source has one setting"), ('module = "nothing"', "cannot be imported")):
        file.write_text(f'[sources.walls]\nkind = "python"\n{wrong}\n')
        with pytest.raises(ConfigError, match=f"agenttool.toml:1: .*{reason}"):
            Runtime.open(config=file)


def test_sources_work_without_a_loop():
    with sync.open(sources=[PythonSource("places", [near])]) as rt:
        assert not rt.call("near", {}, surface=rt.surface()).is_error
        assert [each.source for each in rt.sources.status()] == ["places"]


async def test_a_source_cannot_take_the_tools_or_the_namespace_of_another():
    first, second = ClockSource(), ClockSource("other")
    async with Runtime.open(sources=[first, second]) as rt:
        second.name = "clock"
        second.offer(now="midnight")
        result = await rt.call("clock.now", {"zone": "CET"}, surface=await rt.surface())
        assert result.content[0].text == "noon in CET"
        with pytest.raises(ConfigError, match="has the namespace 'clock'"):
            await second.host.set_states({"clock": ProviderState.UNAVAILABLE})
        with pytest.raises(ConfigError, match="use members of ProviderState"):
            await first.host.set_states({"clock": "nonsense"})
        assert first.host.declare("x") == "the source 'clock' declared 'x'; declare a DeclaredTool"
        result = await rt.call("clock.now", {"zone": "CET"}, surface=await rt.surface())
        assert result.content[0].text == "noon in CET"


async def test_a_source_that_cannot_report_its_health_hides_no_other():
    class Unwell(ClockSource):
        def health(self):
            raise RuntimeError("boom")

    async with Runtime.open(sources=[Unwell("unwell"), ClockSource()]) as rt:
        assert [each.state for each in await rt.sources.status()] == [ProviderState.UNAVAILABLE, ProviderState.READY]
