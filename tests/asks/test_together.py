"""Asks about calls at the same time."""

import asyncio
from pathlib import Path

from agenttool import Runtime, ToolCall, tool
from agenttool.records import ResourceLock


async def test_ask_16_parallel_edits_of_one_file_lose_nothing(allow, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("")

    @tool
    async def append(path: Path, line: str) -> str:
        """Read a file, add a line, write it back. Not for binary files."""
        before = await asyncio.to_thread(path.read_text)
        await asyncio.sleep(0.001)
        await asyncio.to_thread(path.write_text, f"{before}{line}\n")
        return line

    async with Runtime.open(tools=[append], rules=allow) as rt:
        calls = [ToolCall(name="append", arguments={"path": str(file), "line": str(n)}) for n in range(20)]
        results = await rt.batch(calls, surface=await rt.surface())
    assert file.read_text().split() == [str(n) for n in range(20)]
    assert [each.model_facing_content[0].text for each in results] == [str(n) for n in range(20)]


class Callers:
    """Counts who is inside at the same time."""

    def __init__(self):
        self.inside, self.peak = set(), 0

    async def visit(self, name):
        assert name not in self.inside, f"two calls at once of {name}"
        self.inside.add(name)
        self.peak = max(self.peak, len(self.inside))
        await asyncio.sleep(0.001)
        self.inside.discard(name)
        return name


async def test_ask_16_a_tool_that_only_reads_is_not_taken_for_one_that_may_run_beside_others():
    callers = Callers()

    @tool(read_only=True, open_world=False)
    async def peek(n: int) -> str:
        """Read through a cursor of its own kind. Not for writing."""
        return await callers.visit(str(n))

    async with Runtime.open(tools=[peek]) as rt:
        calls = [ToolCall(name="peek", arguments={"n": n}) for n in range(8)]
        await rt.batch(calls, surface=await rt.surface())
    assert callers.peak == 1


async def test_ask_16_writers_of_different_files_run_together_and_of_one_file_in_turn(allow):
    callers = Callers()

    @tool(concurrency_safe=True, locks=lambda given: [ResourceLock(resource=f"file:{given['path']}", mode="write")])
    async def save(path: str) -> str:
        """Save a file. Not for reading."""
        return await callers.visit(path)

    async with Runtime.open(tools=[save], rules=allow) as rt:
        calls = [ToolCall(name="save", arguments={"path": path}) for path in ("a", "a", "b", "b", "a", "c")]
        results = await rt.batch(calls, surface=await rt.surface())
    assert callers.peak > 1
    assert not any(each.is_error for each in results)
