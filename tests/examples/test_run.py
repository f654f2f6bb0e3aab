"""`rt.run` with the SDKs of the providers, synchronous and asynchronous, complete and streamed."""

import asyncio
import importlib
from contextlib import asynccontextmanager

import pytest

from agenttool import Runtime, sync, tool
from agenttool.errors import ConfigError
from agenttool.providers import IncompleteReplyError, TurnLimitError
from agenttool.testing.replies import ModelCall, reply, stream

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
SOAP = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")
SALT = ModelCall(name="stock", arguments={"article": "salt"}, call_id="call_2")


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str) -> str:
    """Count what is left of an article. Not for prices."""
    return f"7 {article}"


@tool(namespace="depot")
async def order(article: str) -> str:
    """Order an article. Not for prices."""
    return f"ordered {article}"


def sdk_client(provider, url, *, is_async):
    """Return a client of the provider's own SDK."""
    match provider:
        case "openai" | "openai_responses":
            kind = "AsyncOpenAI" if is_async else "OpenAI"
            return getattr(importlib.import_module("openai"), kind)(base_url=f"{url}/v1", api_key="none", max_retries=0)
        case "anthropic":
            kind = "AsyncAnthropic" if is_async else "Anthropic"
            return getattr(importlib.import_module("anthropic"), kind)(base_url=url, api_key="none", max_retries=0)
        case "gemini":
            client = importlib.import_module("google.genai").Client(api_key="none", http_options={"base_url": url})
            return client.aio if is_async else client


@asynccontextmanager
async def opened(provider, url, *, is_async):
    client = sdk_client(provider, url, is_async=is_async)
    if is_async:
        async with client:
            yield client
    else:
        with client:
            yield client


def sent_results(provider, request):
    """List the texts of the results in a request, as they were sent."""
    match provider:
        case "openai":
            return [each["content"] for each in request["messages"] if each["role"] == "tool"]
        case "openai_responses":
            return [each["output"] for each in request["input"] if each.get("type") == "function_call_output"]
        case "anthropic":
            parts = [
                part for each in request["messages"] if isinstance(each["content"], list) for part in each["content"]
            ]
            return [part["content"][0]["text"] for part in parts if part["type"] == "tool_result"]
        case "gemini":
            parts = [part for each in request["contents"] for part in each["parts"]]
            return [each["functionResponse"]["response"]["output"] for each in parts if "functionResponse" in each]


@pytest.mark.parametrize("provider_name", PROVIDERS)
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("write", [reply, stream])
def test_a_run_calls_the_tools_until_the_reply_is_final(provider_name, is_async, write, provider):
    script = [write(provider_name, SOAP, SALT, text="Let me look."), write(provider_name, text="There is enough.")]
    pieces = []

    async def run(url):
        async with Runtime.open(tools=[stock]) as rt, opened(provider_name, url, is_async=is_async) as client:
            options = {"on_text": pieces.append} if write is stream else {}
            return await rt.run(client, "How much is left?", model="m", provider=provider_name, **options)

    with provider(script) as server:
        done = asyncio.run(run(server.url))
    assert (done.text, done.turns, done.pending) == ("There is enough.", 2, ())
    assert sent_results(provider_name, server.requests[1]) == ["7 soap", "7 salt"]
    assert "How much is left?" in str(server.requests[0])
    assert "stock" in str(server.requests[0]["tools"])
    assert "There is enough." in str(done.messages[-1])
    assert "".join(pieces) == ("Let me look.There is enough." if write is stream else "")


@pytest.mark.parametrize("provider_name", PROVIDERS)
@pytest.mark.parametrize("write", [reply, stream])
def test_a_final_reply_that_was_cut_off_says_so(provider_name, write, provider):
    script = [write(provider_name, text="There is", cut_off=True)]
    options = {"on_text": lambda _text: None} if write is stream else {}
    with (
        provider(script) as server,
        sdk_client(provider_name, server.url, is_async=False) as client,
        sync.open(tools=[stock]) as rt,
    ):
        done = rt.run(client, "How much is left?", model="m", provider=provider_name, **options)
    assert (done.text, done.turn.is_final, done.turn.is_cut) == ("There is", True, True)


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("pendng", "did you mean 'pending'?"),
        ("temperature", "request={'temperature': …}"),
        ("strict", "write the loop with `tools_for(…, strict=…)` and `answer`"),
    ],
)
def test_an_option_that_does_not_exist_is_an_error(option, remedy):
    with sync.open(tools=[stock]) as rt, pytest.raises(ConfigError, match=option) as raised:
        rt.run(object(), "How much is left?", model="m", **{option: 0})
    assert remedy in str(raised.value)


@pytest.mark.parametrize("provider_name", PROVIDERS)
def test_the_client_decides_the_format_and_a_synchronous_program_runs_the_same_loop(provider_name, provider):
    script = [reply(provider_name, SOAP), reply(provider_name, text="There is enough.")]
    named = {"provider": provider_name} if provider_name == "openai_responses" else {}
    with (
        provider(script) as server,
        sdk_client(provider_name, server.url, is_async=False) as client,
        sync.open(tools=[stock]) as rt,
    ):
        done = rt.run(client, "How much is left?", model="m", request={}, **named)
    assert done.text == "There is enough."


@pytest.mark.parametrize("provider_name", PROVIDERS)
@pytest.mark.parametrize("write", [reply, stream])
def test_a_run_that_waits_for_an_approval_returns_and_another_run_continues_it(
    provider_name, write, provider, tmp_path
):
    bought = ModelCall(name="order", arguments={"article": "soap"}, call_id="call_1")
    script = [write(provider_name, bought), write(provider_name, text="It is ordered.")]
    store = f"sqlite:{tmp_path / 'state.db'}"
    options = {"model": "m", "provider": provider_name, "pending": "return", "stream": write is stream}

    async def first(url):
        async with Runtime.open(store=store, tools=[order]) as rt, opened(provider_name, url, is_async=True) as client:
            done = await rt.run(client, "Order soap.", **options)
            return done.to_json(), done.pending[0].approval

    async def second(url, waiting, approval):
        async with Runtime.open(store=store, tools=[order]) as rt, opened(provider_name, url, is_async=True) as client:
            await rt.approvals.decide(approval, "allow")
            with pytest.raises(ConfigError, match="or the run to continue as `resume=`"):
                await rt.run(client, "Order soap.", resume=waiting, **options)
            return await rt.run(client, resume=waiting, **{**options, "pending": "wait"})

    with provider(script) as server:
        done = asyncio.run(second(server.url, *asyncio.run(first(server.url))))
    assert done.text == "It is ordered."
    assert sent_results(provider_name, server.requests[1]) == ["ordered soap"]


def test_a_model_that_never_ends_reaches_the_limit_and_the_conversation_is_in_the_error(provider):
    async def run(url):
        async with Runtime.open(tools=[stock]) as rt, opened("anthropic", url, is_async=True) as client:
            with pytest.raises(TurnLimitError, match="no final reply after 2 turns") as caught:
                await rt.run(client, "How much?", model="m", max_turns=2)
            return caught.value.run

    with provider([reply("anthropic", SOAP)] * 3) as server:
        done = asyncio.run(run(server.url))
        assert len(server.requests) == 2
    assert len(done.messages) == 5


def test_a_request_or_a_stream_that_fails_leaves_the_turns_so_far_in_the_caller_s_list(provider):
    broken = stream("anthropic", SOAP, SALT)[:9]

    async def run(url, messages):
        async with Runtime.open(tools=[stock]) as rt, opened("anthropic", url, is_async=True) as client:
            with pytest.raises(IncompleteReplyError, match="pass it as `messages` to `run` again") as raised:
                await rt.run(client, messages, model="m", stream=True)
            assert raised.value.conversation is messages
            with pytest.raises(Exception, match="overloaded"):
                await rt.run(client, messages, model="m")

    messages = [{"role": "user", "content": "How much?"}]
    failure = (529, {"error": {"message": "overloaded"}})
    with provider([broken, reply("anthropic", SALT), failure]) as server:
        asyncio.run(run(server.url, messages))
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant", "user"]


def test_strict_schemas_that_anthropic_finds_too_large_are_sent_again_without_strict(provider):
    refused = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "The compiled grammar is too large."},
    }

    async def run(url):
        async with Runtime.open(tools=[stock]) as rt, opened("anthropic", url, is_async=True) as client:
            return await rt.run(client, "How much?", model="m")

    with provider([(400, refused), reply("anthropic", SOAP), reply("anthropic", text="Seven.")]) as server:
        assert asyncio.run(run(server.url)).text == "Seven."
    assert [each["tools"][0].get("strict", False) for each in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("provider_name", "search"), [("openai_responses", "tool_search"), ("anthropic", "tool_search_tool_bm25")]
)
def test_a_run_uses_the_tool_search_of_the_provider_if_asked(provider_name, search, provider):
    @tool(namespace="depot", read_only=True, open_world=False, should_defer=True)
    def weigh(article: str) -> int:
        """Weigh an article. Not for prices."""
        return 12

    with (
        provider([reply(provider_name, text="Done.")]) as server,
        sdk_client(provider_name, server.url, is_async=False) as client,
        sync.open(tools=[stock, weigh]) as rt,
    ):
        rt.run(client, "How heavy?", model="m", provider=provider_name, native_search=True)
    (request,) = server.requests
    assert [each["name"] for each in request["tools"] if each.get("defer_loading")] == ["weigh"]
    assert search in [each.get("name") or each["type"] for each in request["tools"]]
    assert "native_search" not in request


async def test_what_is_no_client_is_rejected():
    async with Runtime.open(tools=[stock]) as rt:
        with pytest.raises(ConfigError, match="dict is no client of the SDKs"):
            await rt.run({}, "How much?", model="m")
        with pytest.raises(ConfigError, match="or the run to continue as `resume=`"):
            await rt.run(sdk_client("openai", "http://127.0.0.1:9", is_async=False), model="m")
        with pytest.raises(ConfigError, match="`resume` takes a run"):
            await rt.run(sdk_client("openai", "http://127.0.0.1:9", is_async=False), model="m", resume="{}")
        with pytest.raises(ConfigError, match="max_turns is a whole number"):
            await rt.run(sdk_client("openai", "http://127.0.0.1:9", is_async=False), "x", model="m", max_turns=0)


@pytest.mark.parametrize("provider_name", ["openai", "openai_responses", "anthropic"])
def test_the_stream_helpers_of_the_sdks_are_answered_like_their_streams(provider_name, provider):
    async def run(url):
        async with Runtime.open(tools=[stock]) as rt, opened(provider_name, url, is_async=True) as client:
            tools = await rt.tools_for(provider_name)
            asked = {"model": "m", **tools.request()}
            said = [{"role": "user", "content": "How much?"}]
            match provider_name:
                case "openai":
                    helper = client.chat.completions.stream(messages=said, **asked)
                case "openai_responses":
                    helper = client.responses.stream(input=said, **asked)
                case "anthropic":
                    helper = client.messages.stream(messages=said, max_tokens=9, **asked)
            pieces = []
            async with helper as events:
                turn = await tools.answer(events, on_text=pieces.append)
            return turn, "".join(pieces)

    with provider([stream(provider_name, SOAP, SALT, text="Let me look.")]) as server:
        turn, text = asyncio.run(run(server.url))
    assert (text, turn.text) == ("Let me look.", "Let me look.")
    assert [each.status for each in turn.results] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("provider_name", PROVIDERS)
def test_tools_of_the_request_are_sent_beside_those_of_the_surface(provider_name, provider):
    is_gemini = provider_name == "gemini"
    own = {"google_search": {}} if is_gemini else {"type": "web_search", "name": "web_search"}
    with provider([reply(provider_name, text="Done.")]) as model, sync.open(tools=[stock]) as rt:
        client = sdk_client(provider_name, model.url, is_async=False)
        request = {"config": {"tools": [own]}} if is_gemini else {"tools": [own]}
        rt.run(client, "Look.", model="m", provider=provider_name, request=request)
        first, second = model.requests[0]["tools"]
    assert "search" in str(first).lower()
    assert "stock" in str(second)
