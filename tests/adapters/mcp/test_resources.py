"""Resources and prompts of a server: as tools, and for programs."""

import json

import pytest

from agenttool import ConfigError, Runtime
from agenttool.records import ContentClass


async def test_resources_and_prompts_are_read_by_tools(open_server):
    async with open_server() as rt:
        listed = await rt.call("fx.list_resources", {})
        read = await rt.call("fx.read_resource", {"uri": "memo://one"})
        prompts = await rt.call("fx.list_prompts", {})
        prompt = await rt.call("fx.get_prompt", {"name": "greet", "arguments": {"who": "Ada"}})
    assert listed.value["resources"] == [{"uri": "memo://one", "name": "one", "mimeType": "text/plain"}]
    assert (read.content[0].type, read.content[0].uri, read.text) == (
        ContentClass.EMBEDDED_RESOURCE,
        "memo://one",
        "the memo",
    )
    assert read.external_mappings[0].method == "resources/read"
    assert prompts.value["prompts"][0]["name"] == "greet"
    assert prompt.text == "Greet Ada."


@pytest.mark.parametrize(("options", "count"), [((), 5), (("empty=1",), 0)])
async def test_models_are_shown_the_tools_only_of_a_server_that_has_resources_or_prompts(open_server, options, count):
    async with open_server(*options) as rt:
        shown = {each.name for each in rt.surfaces.offered(await rt.surface())}
        read = await rt.call("fx.read_resource", {"uri": "memo://one"})
    reading = {"list_resources", "list_resource_templates", "read_resource", "list_prompts", "get_prompt"}
    assert len(shown & reading) == count
    assert read.text == "the memo"


async def test_programs_read_them_as_the_server_sent_them(open_server):
    async with open_server() as rt:
        source = rt.sources.get("fx")
        assert (await source.read("read_resource", uri="ui://view"))["contents"][0]["text"] == "the memo"
        with pytest.raises(ConfigError, match="did you mean 'list_resources'"):
            await source.read("list_resource")


async def test_the_tools_are_left_out_by_a_setting(open_server):
    async with open_server(resources=False) as rt:
        result = await rt.call("fx.list_resources", {})
    assert result.error.error_code == "unknown_tool"


@pytest.mark.parametrize("behavior", ["allow", "deny"])
async def test_no_allow_rule_for_a_reading_tool_applies_to_a_tool_that_the_server_adds(server, tmp_path, behavior):
    added = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read_resource", "read_resource_")]
    (tmp_path / "more.json").write_text(json.dumps(added))
    made, rule = server(f"definitions={tmp_path / 'more.json'}"), {"behavior": behavior, "tool": "fx.read_resource"}
    asked = []
    async with Runtime.open(sources=[made], rules=[rule], approve=lambda each: asked.append(each.tool_name)) as rt:
        read = await rt.call("fx.read_resource", {"uri": "memo://one"})
        native = [await rt.call(f"fx.{name}", {}) for name in ("read_resource_", "read_resource__")]
    assert read.ok is (behavior == "allow")
    assert [each.ok for each in native] == [False, False]
    assert asked == (["fx.read_resource_", "fx.read_resource__"] if behavior == "allow" else ["fx.read_resource__"])
