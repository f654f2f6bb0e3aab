"""What leaves for a provider, as its own SDK sends it: beside the surface that it was made from."""

import asyncio
import importlib

import pytest

from agenttool import Runtime, tool
from agenttool.testing.replies import reply

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
NATIVE = ["openai_responses", "anthropic"]


@tool(namespace="depot", read_only=True, open_world=False)
async def stock(article: str) -> str:
    """Count what is left of an article. Not for prices."""
    return "7"


@tool(namespace="depot", read_only=True, open_world=False, should_defer=True)
async def weigh(article: str, in_grams: int = 1) -> int:
    """Weigh an article. Not for prices."""
    return 12


@tool(namespace="bank", credentials=["vault:bank"])
async def pay(amount: int) -> str:
    """Pay somebody. Not for refunds."""
    return "paid"


async def send(provider, url, request):
    """Send a request with the provider's own SDK."""
    said = [{"role": "user", "content": "go"}]
    match provider:
        case "openai":
            async with importlib.import_module("openai").AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
                await client.chat.completions.create(model="m", messages=said, **request)
        case "openai_responses":
            async with importlib.import_module("openai").AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
                await client.responses.create(model="m", input=said, **request)
        case "anthropic":
            async with importlib.import_module("anthropic").AsyncAnthropic(base_url=url, api_key="none") as client:
                await client.messages.create(model="m", max_tokens=9, messages=said, **request)
        case "gemini":
            whole = importlib.import_module("google.genai").Client(api_key="none", http_options={"base_url": url})
            with whole:
                async with whole.aio as client:
                    await client.models.generate_content(model="m", contents="go", config=request)


@pytest.fixture
def captured(provider):
    """Give the surface, and the request that reached the provider."""

    def capture(name, *, context=None, **options):
        async def run(server):
            async with Runtime.open(tools=[stock, weigh, pay]) as rt:
                surface = await rt.surface("session", **(context or {}))
                model = await rt.tools_for(name, surface=surface, **options)
                await send(name, server.url, model.request())
                found = [await rt.search(f"select:{ref.name}", surface=surface) for ref in surface.deferred_tools]
            return surface, server.requests[0], [each.name for result in found for each in result.matches]

        with provider([reply(name, text="done")]) as server:
            return asyncio.run(run(server))

    return capture


def tools_in(provider, request):
    """List the functions of a captured request by their names."""
    written = request["tools"]
    declared = written[0]["functionDeclarations"] if provider == "gemini" else written
    functions = [each.get("function", each) for each in declared]
    return {
        each["name"]: each for each in functions if "name" in each and not each["name"].startswith("tool_search_tool")
    }


@pytest.mark.requirement("AT-SURF-07")
@pytest.mark.parametrize("provider_name", PROVIDERS)
def test_the_tools_of_a_request_are_exactly_those_that_are_loaded(provider_name, captured):
    surface, request, _ = captured(provider_name)
    assert {f"tool_depot.{name}" for name in tools_in(provider_name, request) if name != "tool_search"} == {
        each for each in surface.loaded_tools if each != "tool_agenttool.tool_search"
    }
    assert "tool_search" in tools_in(provider_name, request)
    assert len(tools_in(provider_name, request)) == len(surface.loaded_tools)


@pytest.mark.requirement("AT-SURF-08")
@pytest.mark.parametrize("provider_name", PROVIDERS)
def test_nothing_of_a_deferred_tool_is_in_a_request_and_each_of_them_is_found(provider_name, captured):
    surface, request, found = captured(provider_name)
    assert [each.name for each in surface.deferred_tools] == ["weigh"]
    assert "weigh" not in tools_in(provider_name, request)
    assert "in_grams" not in str(request)
    assert found == ["depot.weigh"]


@pytest.mark.parametrize("provider_name", NATIVE)
def test_where_the_provider_searches_itself_deferred_tools_say_so_and_are_shown_to_no_model(provider_name, captured):
    _, request, _ = captured(provider_name, native_search=True)
    sent = tools_in(provider_name, request)
    assert [name for name, each in sent.items() if each.get("defer_loading")] == ["weigh"]
    assert "tool_search" not in sent
    kinds = [each.get("type", "") for each in request["tools"]]
    assert len([each for each in kinds if each.startswith("tool_search")]) == 1


@pytest.mark.requirement("AT-SURF-12")
@pytest.mark.parametrize(
    ("provider_name", "choice", "said"),
    [
        ("openai", "none", "none"),
        ("openai", "required", "required"),
        ("openai", "depot.stock", {"type": "function", "function": {"name": "stock"}}),
        ("openai_responses", "none", "none"),
        ("openai_responses", "required", "required"),
        ("openai_responses", "depot.stock", {"type": "function", "name": "stock"}),
        ("anthropic", "none", {"type": "none"}),
        ("anthropic", "required", {"type": "any"}),
        ("anthropic", "depot.stock", {"type": "tool", "name": "stock"}),
        ("gemini", "none", {"mode": "NONE"}),
        ("gemini", "required", {"mode": "ANY"}),
        ("gemini", "depot.stock", {"mode": "ANY", "allowedFunctionNames": ["stock"]}),
    ],
)
def test_the_choice_of_a_surface_is_that_of_its_requests(provider_name, choice, said, captured):
    surface, request, _ = captured(provider_name, context={"tool_choice": choice})
    sent = request["toolConfig"]["functionCallingConfig"] if provider_name == "gemini" else request["tool_choice"]
    assert surface.default_tool_choice == choice
    assert surface.selection_policy["select_from"] == "loaded_tools"
    assert sent == said
