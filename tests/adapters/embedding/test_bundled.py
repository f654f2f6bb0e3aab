"""The model of the optional extra: used without configuration, loaded by the first search."""

import subprocess
import sys

import pytest

from agenttool import Runtime, tool
from agenttool.adapters.embedding import bundled


@tool(namespace="people")
def hire_employee(name: str) -> str:
    """Add a person to the staff."""
    return name


@tool(namespace="rooms")
def set_thermostat(degrees: float) -> float:
    """Change the temperature of an office."""
    return degrees


@tool(namespace="money")
def pay_invoice(number: int) -> int:
    """Transfer the amount that a supplier billed."""
    return number


TOOLS = [hire_employee, set_thermostat, pay_invoice]


async def found(query, **options):
    async with Runtime.open(tools=TOOLS, **options) as rt:
        await rt.surfaces.prepare_search()
        return [each.name for each in (await rt.search(query, surface=await rt.surface())).matches]


async def test_without_configuration_tools_are_found_by_meaning():
    assert await found("recruit colleagues") == ["people.hire_employee"]
    assert await found("xylophonic") == []


async def test_the_model_is_switched_off_by_an_option_or_the_settings(tmp_path):
    settings = tmp_path / "agenttool.toml"
    settings.write_text('[search]\nmodel = "none"\n')
    assert await found("recruit colleagues", search_model="none") == []
    assert await found("recruit colleagues", config=settings) == []


@pytest.mark.parametrize("library", bundled.LIBRARIES)
async def test_without_the_extra_tools_are_found_by_words(library, monkeypatch):
    find = bundled.find_spec
    monkeypatch.setattr(bundled, "find_spec", lambda name: None if name == library else find(name))
    assert await found("recruit colleagues") == []
    assert await found("hire") == ["people.hire_employee"]


async def test_a_model_that_cannot_be_loaded_leaves_search_by_words(monkeypatch, caplog):
    def broken(files):
        raise ValueError("other format")

    monkeypatch.setattr(bundled, "_load", broken)
    assert await found("hire") == ["people.hire_employee"]
    assert caplog.messages == ["the search model cannot be used (other format); tools are found by words"]


async def test_a_query_in_another_script_is_searched_by_words():
    async with Runtime.open(tools=TOOLS) as rt:
        result = await rt.search("招聘同事", surface=await rt.surface())
    assert result.matches == ()


def test_opening_a_runtime_does_not_load_the_model():
    program = (
        "import asyncio, sys\nfrom agenttool import Runtime\n"
        "async def main():\n    async with Runtime.open(): print('numpy' in sys.modules, 'tantivy' in sys.modules)\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-s", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
