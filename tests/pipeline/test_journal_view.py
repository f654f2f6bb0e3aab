import pytest

from agenttool import Runtime, tool
from agenttool.ports.output import NativeOutput
from agenttool.records import ContentClass, ContentItem, ToolResult

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
