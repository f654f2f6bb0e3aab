import asyncio
import sys

import pytest

from agenttool import ConfigError, Runtime
from agenttool.adapters.python.source import load_tools
from agenttool.stores.location import store_path
from agenttool.testing.fakes import scripted_tool

TOOLS = """
from agenttool.testing.fakes import scripted_tool

wash, dry = scripted_tool("wash"), scripted_tool("dry")
dishes = [wash, scripted_tool("stack")]
by_name = {"dry": dry, "number": 7}
"""


@pytest.fixture
def names(tmp_path, monkeypatch):
    (tmp_path / "kitchen_of_lists.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "kitchen_of_lists", raising=False)
    return lambda *places: sorted(each.declaration.name for each in load_tools([*places]))


def test_tools_in_lists_and_tables_are_found_and_each_once(names):
    assert names("kitchen_of_lists") == ["dry", "stack", "wash"]
    assert names("kitchen_of_lists:dishes", "kitchen_of_lists:wash") == ["stack", "wash"]
    assert names("kitchen_of_lists:by_name") == ["dry"]


def test_a_place_without_a_tool_is_rejected(names):
    with pytest.raises(ConfigError, match="'kitchen_of_lists:number' holds no tool"):
        names("kitchen_of_lists:number")


@pytest.mark.parametrize("place", ["calls.db", "sqlite:calls.db"])
def test_the_library_and_the_command_line_accept_the_same_places_of_a_store(run, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)

    async def make():
        async with Runtime.open(store=place, tools=[scripted_tool("wash")]) as rt:
            return (await rt.call("nothing", {}, surface=await rt.surface())).invocation_id

    call = asyncio.run(make())
    assert (tmp_path / "calls.db").is_file()
    for spelling in ("calls.db", "sqlite:calls.db", tmp_path / "calls.db"):
        assert call in run("show", "--store", spelling).stdout


@pytest.mark.parametrize("place", ["postgres://x", "stone:tablet", ""])
def test_a_place_that_is_no_store_is_rejected(place):
    with pytest.raises(ConfigError, match="use 'memory:', 'sqlite:PATH' or a PATH"):
        store_path(place)
