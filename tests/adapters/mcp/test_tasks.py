"""Calls that a server runs as tasks; on a durable store they outlive the process that made them."""

import asyncio
import json
import subprocess
import sys

import pytest
from waiting import wait_until

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
    assert {each.task_id for each in progress} == {"t-completed"}
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
    assert [each["params"]["taskId"] for each in sent if each.get("method") == "tasks/cancel"] == ["t-never"]


PROGRAM = """
import asyncio, json, sys
from agenttool import McpServer, Runtime

async def main():
    server = McpServer("fx", command=sys.executable, args=json.loads(sys.argv[2]))
    async with Runtime.open(sources=[server], store=sys.argv[1], approve=lambda _: True) as rt:
        await rt.call("fx.task", {"ends": "file"})

asyncio.run(main())
"""


async def open_call(rt):
    while not rt.open_calls():
        await asyncio.sleep(0.01)
    return rt.open_calls()[0]


def is_followed(log):
    return log.exists() and "tasks/get" in log.read_text()


async def finish(made, store, done, log):
    """Open a runtime on the store, end the task, and return the result of its call."""
    log.write_text("")
    async with Runtime.open(sources=[made], store=store, approve=lambda _: False) as rt:
        call = await open_call(rt)
        while not is_followed(log):
            await asyncio.sleep(0.01)
        done.touch()
        result = await rt.wait(call)
    sent = [json.loads(line).get("method") for line in log.read_text().splitlines()]
    return result, sent


async def test_a_task_is_followed_by_the_next_runtime_if_this_one_is_closed(server, tmp_path):
    done, log, store = tmp_path / "done", tmp_path / "messages", str(tmp_path / "calls.db")
    made = server("modern=1", f"done={done}", f"log={log}")
    async with Runtime.open(sources=[made], store=store, approve=lambda _: True) as rt:
        started = await rt.start("fx.task", {"ends": "file"})
        while not is_followed(log):
            await asyncio.sleep(0.01)
    first = log.read_text()
    result, sent = await finish(made, store, done, log)
    assert "tasks/cancel" not in first
    assert (result.invocation_id, result.text) == (started.invocation_id, "printed None")
    assert "tools/call" not in sent


@pytest.mark.slow
async def test_a_task_is_followed_by_the_next_process_if_this_one_is_killed(server, tmp_path):
    done, log, store = tmp_path / "done", tmp_path / "messages", str(tmp_path / "calls.db")
    made = server("modern=1", f"done={done}", f"log={log}")
    words = [sys.executable, "-c", PROGRAM, store, json.dumps(made.args)]
    with subprocess.Popen(words) as process:
        try:
            wait_until(lambda: is_followed(log))
        finally:
            process.kill()
    result, sent = await finish(made, store, done, log)
    assert result.text == "printed None"
    assert "tools/call" not in sent
