"""Calls that a server runs as tasks."""

import asyncio
import json

from agenttool import Allow, Edit, Runtime
from agenttool.records import ErrorClass, ToolProgress


def answer(question):
    is_question = question.tool_name.endswith("ask_user")
    return Edit({**question.shown, "answer": {"name": "Ada"}}) if is_question else Allow()


async def test_a_task_is_followed_to_its_end(server):
    async with Runtime.open(sources=[server("modern=1")], approve=answer) as rt:
        done = await rt.call("fx.task", {"ends": "completed"})
        progress = [each async for each in rt.journal.export() if isinstance(each, ToolProgress)]
        failed = await rt.call("fx.task", {"ends": "failed"})
        asked = await rt.call("fx.task", {"ends": "input"})
    assert done.text == "printed None"
    assert {"step 1", "step 2"} <= {each.message for each in progress}
    assert {each.task_id for each in progress} == {"t1"}
    assert (failed.error.error_code, failed.error.native_error_ref["message"]) == ("-32050", "out of paper")
    assert asked.text == "printed Ada"


async def test_the_task_of_a_canceled_call_is_canceled(server, tmp_path):
    log = tmp_path / "messages"
    async with Runtime.open(sources=[server("modern=1", f"log={log}")], approve=answer) as rt:
        started = await rt.start("fx.task", {"ends": "never"})
        while "tasks/get" not in log.read_text():
            await asyncio.sleep(0.01)
        await rt.cancel(started.invocation_id)
        result = await rt.wait(started.invocation_id)
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    assert result.error.error_class is ErrorClass.CANCELED
    assert [each["params"]["taskId"] for each in sent if each.get("method") == "tasks/cancel"] == ["t1"]
