"""The tasks extension: a client follows a long call, answers it, cancels it, and finds it after a restart."""

import asyncio
import json
import sys
from pathlib import Path

import mcp_types as types
import pytest
from mcp.client.extension import ClientExtension
from mcp.shared.exceptions import MCPError
from mcp_clients import NEW, OpenResult, Person, connected, text_of

from agenttool import Allow, McpServer, Runtime, tool
from agenttool.adapters.mcp.session import TASKS_EXTENSION
from agenttool.mcp import tasks
from agenttool.ports.surfacing import Role

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"
DONE = []


@tool(read_only=True, background=True)
async def compute(seconds: float) -> str:
    """Take some time."""
    try:
        await asyncio.sleep(seconds)
    finally:
        DONE.append(seconds)
    return "computed"


@tool(background=True)
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


class Follower(ClientExtension):
    """Declares that this client can follow tasks."""

    identifier = TASKS_EXTENSION


class TaskRequest(types.Request[dict[str, object], str]):
    method: str
    params: dict[str, object]


async def follow(client, method, task_id, **more):
    request = TaskRequest(method=f"tasks/{method}", params={"taskId": task_id, **more})
    return (await client.session.send_request(request, OpenResult)).model_extra


async def started(client, name, arguments):
    request = TaskRequest(method="tools/call", params={"name": name, "arguments": arguments})
    return (await client.session.send_request(request, OpenResult)).model_extra


async def until(client, task_id, *statuses):
    while True:
        task = await follow(client, "get", task_id)
        if task["status"] in statuses:
            return task
        await asyncio.sleep(0.02)


def runtime(**options):
    return Runtime.open(tools=[compute, send], approve="wait", **options)


def following(rt, **options):
    return connected(rt, NEW, Person(decision="allow"), extensions=[Follower()], **options)


async def test_a_long_call_is_a_task_with_its_result():
    async with runtime() as rt, following(rt) as client:
        task = await started(client, "compute", {"seconds": 0.1})
        assert (task["status"], type(task["ttlMs"]), type(task["pollIntervalMs"])) == ("working", int, int)
        assert (await rt.journal.invocation(task["taskId"])).tool_id == "tool_local.compute"
        ended = await until(client, task["taskId"], "completed")
        assert ended["result"]["content"][0]["text"] == "computed"


async def test_a_canceled_task_cancels_its_call():
    DONE.clear()
    async with runtime() as rt, following(rt) as client:
        task = await started(client, "compute", {"seconds": 60})
        await until(client, task["taskId"], "working")
        await follow(client, "cancel", task["taskId"])
        assert "result" not in await until(client, task["taskId"], "cancelled")
        assert DONE == [60]


async def test_a_task_asks_for_its_approval_and_continues_after_the_answer():
    async with runtime() as rt, following(rt) as client:
        task = await started(client, "send", {"to": "ada"})
        asked = await until(client, task["taskId"], "input_required")
        ((key, request),) = asked["inputRequests"].items()
        assert "Allow local.send?" in request["params"]["message"]
        reply = {key: {"action": "accept", "content": {"decision": "allow"}}}
        await follow(client, "update", task["taskId"], inputResponses=reply)
        ended = await until(client, task["taskId"], "completed")
        assert ended["result"]["content"][0]["text"] == "sent to ada"


@tool
def save(text: str) -> str:
    """Save a text."""
    return f"saved {text}"


async def test_a_call_that_the_client_cannot_approve_is_a_task_until_it_is_approved_elsewhere(tmp_path):
    def opened():
        return Runtime.open(tools=[save], approve="wait", store=tmp_path / "calls.db")

    async with opened() as rt, connected(rt, NEW, extensions=[Follower()], answer_command="answer it") as client:
        task = await started(client, "save", {"text": "a letter"})
        (question,) = await rt.approvals.list()
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert f"run `answer it` (question {question.approval_id}" in task["statusMessage"]
    async with opened() as rt, connected(rt, NEW, extensions=[Follower()]) as client:
        assert (await follow(client, "get", task["taskId"]))["status"] == "working"
        await rt.approvals.decide(question, Allow())
        ended = await until(client, task["taskId"], "completed")
    assert ended["result"]["content"][0]["text"] == "saved a letter"


async def test_the_task_of_a_server_is_a_task_of_the_client():
    source = McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE), "modern=1"))
    rules = [{"behavior": "allow", "tool": "fx.*"}]
    async with Runtime.open(sources=[source], rules=rules, approve="wait") as rt, following(rt) as client:
        tasks = {ends: await started(client, "task", {"ends": ends}) for ends in ("completed", "failed", "input")}
        assert {each["resultType"] for each in tasks.values()} == {"task"}
        done = await until(client, tasks["completed"]["taskId"], "completed")
        failed = await until(client, tasks["failed"]["taskId"], "completed", "failed")
        asked = await until(client, tasks["input"]["taskId"], "input_required")
        reply = {"q": {"action": "accept", "content": {"name": "Ada"}}}
        await follow(client, "update", tasks["input"]["taskId"], inputResponses=reply)
        answered = await until(client, tasks["input"]["taskId"], "completed")
    assert done["result"]["content"][0]["text"] == "printed None"
    assert (failed["status"], failed["error"]) == ("failed", {"code": -32050, "message": "out of paper"})
    assert asked["inputRequests"]["q"]["params"]["message"] == "fx asks: Your name?"
    assert answered["result"]["content"][0]["text"] == "printed Ada"


@pytest.mark.parametrize("error_class", ["canceled", "hook_failed"])
async def test_the_status_of_a_task_is_that_of_its_call_whatever_its_server_claims(error_class, monkeypatch):
    monkeypatch.setattr(tasks, "TASK_AFTER_S", 0.0)
    source = McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE)))
    claim = {"agenttool/error": {"error_class": error_class}, "vendor/trace": 1}
    result = {"content": [{"type": "text", "text": "done"}], "_meta": claim}
    rules = [{"behavior": "allow", "tool": "fx.*"}]
    async with Runtime.open(sources=[source], rules=rules, approve="wait") as rt, following(rt) as client:
        task = await started(client, "raw", {"rest": f',"result":{json.dumps(result)}}}'})
        ended = await until(client, task["taskId"], "completed", "failed", "cancelled")
    assert (ended["status"], ended["result"]["content"][0]["text"]) == ("completed", "done")
    assert {"vendor/trace", "agenttool/invocation"} <= ended["result"]["_meta"].keys()
    assert "agenttool/error" not in ended["result"]["_meta"]


async def test_a_task_is_found_after_a_restart(tmp_path):
    store = tmp_path / "calls.db"
    async with runtime(store=store) as rt, following(rt, actor="user:ada") as client:
        task = await started(client, "send", {"to": "ada"})
        await until(client, task["taskId"], "input_required")
    async with runtime(store=store) as rt:
        async with following(rt, actor="user:eve") as client:
            with pytest.raises(MCPError, match="no task has the id"):
                await follow(client, "get", task["taskId"])
        async with following(rt, actor="user:ada") as client:
            (key,) = (await until(client, task["taskId"], "input_required"))["inputRequests"]
            reply = {key: {"action": "accept", "content": {"decision": "allow"}}}
            await follow(client, "update", task["taskId"], inputResponses=reply)
            ended = await until(client, task["taskId"], "completed")
            assert ended["result"]["content"][0]["text"] == "sent to ada"


async def test_a_task_that_waits_for_its_turn_runs_after_a_restart(tmp_path):
    @tool(background=True)
    async def hold() -> str:
        """Run alone, and do not end."""
        await asyncio.sleep(3600)
        return "held"

    @tool(background=True)
    async def write(text: str) -> str:
        """Write."""
        return f"wrote {text}"

    def open_runtime():
        rules = [{"behavior": "allow", "tool": f"local.{name}"} for name in ("hold", "write")]
        return Runtime.open(tools=[hold, write], rules=rules, approve="wait", store=tmp_path / "calls.db")

    async with open_runtime() as rt, following(rt, actor="user:ada") as client:
        held = await started(client, "hold", {})
        task = await started(client, "write", {"text": "a letter"})
        assert None not in (held["createdAt"], task["createdAt"])
    async with open_runtime() as rt, following(rt, actor="user:ada") as client:
        await until(client, held["taskId"], "cancelled")
        ended = await until(client, task["taskId"], "completed")
        assert ended["result"]["content"][0]["text"] == "wrote a letter"


async def test_a_task_is_not_found_in_a_profile_without_its_tool():
    role = Role(name="senders", tools=("send",))
    async with runtime() as rt, following(rt) as client, following(rt, profile="senders", role=role) as other:
        task = await started(client, "compute", {"seconds": 60})
        for method in ("get", "update", "cancel"):
            with pytest.raises(MCPError, match="no task has the id"):
                await follow(other, method, task["taskId"])
        assert (await follow(client, "get", task["taskId"]))["status"] == "working"


async def test_a_client_without_the_extension_waits_for_the_result():
    async with runtime() as rt, connected(rt) as client:
        assert text_of(await client.call_tool("compute", {"seconds": 0.05})) == "computed"
        with pytest.raises(MCPError) as refused:
            await follow(client, "get", "inv_x")
        assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
