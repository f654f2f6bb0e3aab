"""A server behind our server: its tools, resources, prompts and questions reach the client, on all four pairs of revisions."""

import sys
from pathlib import Path

import pytest
from mcp_clients import Person, connected, text_of

from agenttool import Runtime
from agenttool.adapters.mcp.settings import McpServer

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"


class Honest(Person):
    """Allows calls, and answers the questions of servers."""

    async def __call__(self, context, params):
        wanted = params.requested_schema["properties"]
        self.content = {"decision": "allow"} if "decision" in wanted else {"name": "Ada"}
        return await super().__call__(context, params)


@pytest.mark.parametrize("upstream", [(), ("modern=1",)])
async def test_a_client_uses_a_server_through_the_gateway(mode, upstream):
    source = McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE), *upstream))
    person = Honest()
    async with Runtime.open(sources=[source], approve="wait") as rt, connected(rt, mode, person) as client:
        assert "ask" in [each.name for each in (await client.list_tools()).tools]
        (resource,) = (await client.list_resources()).resources
        assert (await client.read_resource(resource.uri)).contents[0].text == "the memo"
        (prompt,) = (await client.list_prompts()).prompts
        got = await client.get_prompt(prompt.name, {"who": "Ada"})
        assert got.messages[0].content.text == "Greet Ada."
        result = await client.call_tool("ask", {})
    assert "Ada" in text_of(result)
    assert "fx asks: Your name?" in person.asked
