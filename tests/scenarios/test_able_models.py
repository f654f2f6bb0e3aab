"""What a request asks of a model, if its surface says what that model can do."""

import json

import pytest

from agenttool import ModelCapabilities, Runtime
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.testing.fakes import scripted_tool

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    *(scripted_tool(name, schema=CLOSED) for name in ("count", "show")),
    scripted_tool("weigh", schema=CLOSED, should_defer=True),
]


@pytest.mark.requirement("AT-SURF-13")
@pytest.mark.parametrize("provider", FORMATS)
async def test_a_request_asks_nothing_of_a_model_that_its_surface_says_it_cannot_do(provider):
    """A server that speaks a provider's format need not have all that the provider has."""
    able = ModelCapabilities(strict_schemas=True, parallel_calls=True, deferred_refs=True)
    requests, left_out = [], []
    async with Runtime.open(tools=TOOLS) as rt:
        for model in (None, able, ModelCapabilities(), ModelCapabilities(max_tools=2)):
            tools = await rt.tools_for(provider, surface=await rt.surface(model=model))
            requests.append(json.dumps(tools.request()))
            left_out.append([each.name for each in tools.left_out])
        await rt.surfaces.change(model=ModelCapabilities())
        changed = json.dumps((await rt.tools_for(provider)).request())
    anybody, abler, unable, small = requests
    assert anybody == abler
    assert "parallel" not in anybody
    assert unable == changed
    assert '"strict": true' not in unable
    assert "defer_loading" not in unable
    assert "select:NAME" in unable
    assert provider == "gemini" or '"parallel_tool_calls": false' in unable or "disable_parallel_tool_use" in unable
    assert left_out == [[], [], [], ["test.show"]]
    assert "select:NAME" in small
