"""The tasks extension: a client follows a long call, answers it, cancels it, and finds it after a restart."""

import asyncio

import mcp_types as types
import pytest
from mcp.client.extension import ClientExtension
from mcp.shared.exceptions import MCPError
from mcp_clients import NEW, Person, connected, text_of

from agenttool import Runtime, tool
from agenttool.mcp.tasks import EXTENSION, OpenResult
from agenttool.ports.surfacing import Role

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

    identifier = EXTENSION


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
