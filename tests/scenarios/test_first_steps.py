"""What a newcomer writes first, through the public interface."""

import pytest

from agenttool import Runtime, tool
from agenttool.records import ToolInterface


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    return a + b


@tool(read_only=True, open_world=True)
def look_up(word: str) -> str:
    """Ask a public dictionary."""
    return word


@tool(read_only=True)
def read(path: str) -> str:
    """Return the name of a file."""
    return path


async def test_a_function_that_its_owner_declares_read_only_runs_without_a_question():
    async with Runtime.open(tools=[add]) as rt:
        surface = await rt.surface()
        result = await rt.call("add", {"a": 41}, surface=surface)
        assert (result.status, result.structured_content) == ("succeeded", 42)
        exported = [each async for each in rt.journal.export() if isinstance(each, ToolInterface)]
        interface = next(each for each in exported if each.name == "add")
        assert interface.is_open_world is True
        assert "is_open_world" in interface.inferred_facts


@pytest.mark.parametrize(("name", "arguments"), [("look_up", {"word": "a"}), ("read", {"path": "/etc/passwd"})])
async def test_a_read_only_function_that_reaches_outside_is_asked_about(name, arguments):
    async with Runtime.open(tools=[look_up, read], interactive=False) as rt:
        result = await rt.call(name, arguments, surface=await rt.surface())
        assert result.error.error_class == "permission_denied"


def test_a_function_without_a_docstring_is_described_by_its_name():
    @tool
    def rename_file(name: str) -> str:
        return name

    assert rename_file.declared.declaration.description == "Rename file"
