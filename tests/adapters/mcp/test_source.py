"""What a server of an older revision requests within a call: a model to sample, and log messages."""

import json

import mcp_types as types
from mcp_clients import OLD, connected, text_of

from agenttool import Runtime

REPLY = {"role": "assistant", "model": "m1", "content": {"type": "text", "text": "Hi."}}


async def test_a_program_samples_a_model_for_a_server(server):
    asked = []

    async def sample(params):
        asked.append(params["messages"][0]["content"]["text"])
        return REPLY

    rt = Runtime.open(sources=[server()], approve=lambda _: True)
    rt.sources.get("fx").use_sampling(sample)
    async with rt:
        result = await rt.call("fx.sample", {})
    assert asked == ["Hello?"]
    assert json.loads(result.text) == REPLY


async def test_sampling_is_refused_unless_it_is_configured(open_server):
    async with open_server() as rt:
        refused = await rt.call("fx.sample", {})
    async with open_server(sampling=True) as rt:
        of_program = await rt.call("fx.sample", {})
    assert "Sampling not supported" in json.loads(refused.text)["message"]
    assert "has not offered a model with use_sampling" in json.loads(of_program.text)["message"]


async def test_sampling_and_log_messages_reach_the_client_that_made_the_call(server):
    logged = []

    async def sample(context, params):
        return types.CreateMessageResult.model_validate(REPLY)

    async def log(params):
        logged.append((params.level, params.data))

    callbacks = {"sampling_callback": sample, "logging_callback": log}
    opened = Runtime.open(sources=[server(sampling=True)], rules=[{"tool": "fx.*", "behavior": "allow"}])
    async with opened as rt, connected(rt, OLD, callbacks=callbacks) as client:
        sampled = await client.call_tool("sample", {})
        await client.call_tool("note", {})
        lines = rt.sources.get("fx").log
    assert json.loads(text_of(sampled)) == REPLY
    assert logged == [("warning", "low disk")]
    assert "warning: low disk" in lines


async def test_a_tool_that_a_server_lists_twice_has_its_first_definition_and_the_status_says_so(open_server, tmp_path):
    second = {"name": "echo", "description": "Return the text to the author.", "inputSchema": {"type": "object"}}
    (tmp_path / "more.json").write_text(json.dumps([second]))
    async with open_server(f"definitions={tmp_path / 'more.json'}") as rt:
        (status,) = await rt.sources.status()
        (echo,) = [each for each in rt.surfaces.offered(await rt.surface()) if each.name == "echo"]
    assert status.fault == "the tool 'echo' is listed twice; its first definition is used"
    assert echo.description == "Return the text."
