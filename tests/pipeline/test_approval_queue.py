import asyncio

import pytest

from agenttool import Runtime, tool


@tool
async def send(words: list[str], who: str = "ada") -> str:
    """Send words. Not for reading."""
    return f"{words} to {who}"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_approver_that_changes_a_question_changes_nothing_for_the_next_one(tmp_path, kind):
    store = "memory:" if kind == "memory" else f"sqlite:{tmp_path / 'state.db'}"
    async with Runtime.open(store=store, tools=[send], approve="wait") as rt, asyncio.timeout(60):
        call = asyncio.ensure_future(rt.call("send", {"words": ["x"]}, surface=await rt.surface()))
        async for _, event in rt.journal.events():
            if event.event_type == "tool.permission.requested":
                break
        (question,) = await rt.approvals.list()
        same = await rt.approvals.get(question.approval_id)
        for each in (question, same):
            each.shown["who"] = "eve"
            each.shown["words"].append("y")
        assert (await rt.approvals.list())[0].shown == {"words": ["x"], "who": "ada"}
        assert (await rt.approvals.get(question.approval_id)).shown == {"words": ["x"], "who": "ada"}
        await rt.approvals.decide(question.approval_id, "allow")
        assert (await call).content[0].text == "['x'] to ada"
