from datetime import timedelta

import pytest

from agenttool import Runtime, tool
from agenttool.errors import ConfigError
from agenttool.ports.output import NativeOutput
from agenttool.records import ContentClass, ContentItem, ResultPersistence, ToolResult

READS = {"read_only": True, "concurrency_safe": True, "open_world": False}


@tool(**READS)
async def plain() -> dict[str, list[int]]:
    """Return a value. Not for text."""
    return {"n": [1]}


@tool(**READS)
async def items() -> object:
    """Return items. Not for text."""
    item = ContentItem(type=ContentClass.STRUCTURED_CONTENT, data={"n": [1]})
    return NativeOutput(content=[item], structured_content={"n": [1]})


def values(result):
    """The values of a result, as anyone who reads it gets them."""
    return [result.structured_content, *(item.data for item in result.content if item.text is None)]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("called", [plain, items])
async def test_a_reader_that_changes_a_result_changes_neither_the_journal_nor_what_others_read(tmp_path, kind, called):
    store = "memory:" if kind == "memory" else f"sqlite:{tmp_path / 'state.db'}"
    async with Runtime.open(store=store, tools=[called]) as rt:
        result = await rt.call(called.__name__, {}, surface=await rt.surface())
        expected = [{"n": [1]}] * len(values(result))
        stored = await rt.journal.result(result.invocation_id)
        (exported,) = [each async for each in rt.journal.export() if isinstance(each, ToolResult)]
        for each in (result, stored, exported):
            assert values(each) == expected
            for value in values(each):
                value["n"].append("changed")
        assert values(await rt.journal.result(result.invocation_id)) == expected


@tool(read_only=True, open_world=False, risk="low", approval_required=False, max_inline_chars=200)
async def recite(lines: int) -> str:
    """Recite a poem."""
    return "\n".join(f"line {line}" for line in range(lines))


@pytest.mark.parametrize("place", ["memory:", "sqlite:"])
async def test_stored_bytes_go_and_what_is_said_of_them_stays(place, tmp_path):
    store = place if place == "memory:" else f"sqlite:{tmp_path}/state.db"
    async with Runtime.open(store=store, tools=[recite], approve="wait") as rt:
        result = await rt.call("recite", {"lines": 500}, surface=await rt.surface())
        (stored,) = [each async for each in rt.journal.export() if isinstance(each, ResultPersistence)]
        assert (await rt.journal.retain(payloads=timedelta(days=1))).payloads == 0
        assert await rt.journal.payload(stored.persisted_ref) is not None
        assert (await rt.journal.retain(payloads=timedelta(0))).payloads >= 1
        assert await rt.journal.payload(stored.persisted_ref) is None
        assert [each async for each in rt.journal.export() if isinstance(each, ResultPersistence)] == [stored]
        assert (stored.reason, stored.persisted_ref.digest is None) == ("result_exceeded_inline_limit", False)
        assert await rt.journal.result(result.invocation_id) == result


async def test_old_facts_go_from_a_log_on_disk_and_the_chain_continues(tmp_path):
    async with Runtime.open(store=f"sqlite:{tmp_path}/state.db", tools=[recite], approve="wait") as rt:
        surface = await rt.surface()
        first = await rt.call("recite", {"lines": 1}, surface=surface)
        gone = await rt.journal.retain(journal=timedelta(0))
        assert gone.facts_up_to == rt._core.journal.log.last > 0
        second = await rt.call("recite", {"lines": 2}, surface=surface)
        assert await rt.journal.result(first.invocation_id) is None
        assert await rt.journal.result(second.invocation_id) == second
        assert list(rt._core.journal.log.verify()) == []


@pytest.mark.parametrize("given", [timedelta(-1), 3])
async def test_what_is_no_length_of_time_is_refused(given):
    async with Runtime.open(tools=[recite], approve="wait") as rt:
        with pytest.raises(ConfigError, match="timedelta"):
            await rt.journal.retain(payloads=given)
