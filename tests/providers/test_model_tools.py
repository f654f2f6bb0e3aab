"""A model's turn through the public API, in every provider's format."""

import asyncio
import base64
import json

import pytest

from agenttool import ConfigError, Media, Runtime, tool
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, ErrorClass, FunctionMapping, RuleSource
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str, place: str | None = None, least: int = 0) -> str:
    """Count what is left of an article. Not for prices."""
    return f"{article}: 7, {place}, {least}"


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def photo(article: str) -> Media:
    """Show an article. Not for words."""
    return Media(PNG, "image/png", "soap.png")


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False, should_defer=True)
async def weigh(article: str) -> int:
    """Weigh an article. Not for prices."""
    return 12


@tool(namespace="shop", read_only=True, open_world=False, name="stock")
async def other_stock(article: str) -> str:
    """Count elsewhere. Not for prices."""
    return "elsewhere"


def turn(provider, *calls, tools=(stock, photo, weigh), **options):
    """Answer one reply; return the turn, the request before it, and the invocations."""
    raw = options.pop("raw", None) or reply(provider, *calls, **options.pop("reply", {}))

    async def run():
        async with Runtime.open(tools=tools) as rt:
            model = await rt.tools_for(provider, **options)
            request = model.request()
            taken = await model.answer(raw)
            return taken, request, [await rt.journal.invocation(each.invocation_id) for each in taken.results]

    return asyncio.run(run())


def ids_answered(provider, messages):
    """Return the ids of the results in messages."""
    match provider:
        case "openai":
            return [each["tool_call_id"] for each in messages if each["role"] == "tool"]
        case "openai_responses":
            return [each["call_id"] for each in messages if each["type"] == "function_call_output"]
        case "anthropic":
            return [each["tool_use_id"] for message in messages for each in message["content"]]
        case "gemini":
            return [part["function_response"].get("id") for message in messages for part in message["parts"]]


def names_in(provider, request):
    """Return the names of the tools in a request."""
    tools = request["tools"]
    match provider:
        case "openai":
            return [each["function"]["name"] for each in tools]
        case "gemini":
            return [each["name"] for each in tools[0]["function_declarations"]]
        case _:
            return [each["name"] for each in tools if "name" in each]


@pytest.mark.requirement("AT-INTEROP-FUNC-02")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_parallel_calls_get_results_under_their_own_ids(provider):
    asked = [ModelCall(name="stock", arguments={"article": word}, call_id=f"call_{word}") for word in ("soap", "salt")]
    taken, _, invocations = turn(provider, *asked)
    assert len({each.surface_id for each in invocations}) == 1
    assert ids_answered(provider, taken.result_messages) == ["call_soap", "call_salt"]
    assert [each.model_facing_content[0].text for each in taken.results] == ["soap: 7, None, 0", "salt: 7, None, 0"]
    assert [each.native_call_id for each in invocations] == ["call_soap", "call_salt"]
    assert taken.messages == [*taken.reply_messages, *taken.result_messages]
    assert not taken.is_final


@pytest.mark.requirement("AT-INTEROP-FUNC-01")
@pytest.mark.requirement("AT-INTEROP-FUNC-03")
@pytest.mark.parametrize(
    ("provider", "choice", "strict"),
    [
        ("openai", {"type": "function", "function": {"name": "stock"}}, True),
        ("openai_responses", {"type": "function", "name": "stock"}, True),
        ("anthropic", {"type": "tool", "name": "stock", "disable_parallel_tool_use": True}, True),
        ("gemini", {"mode": "ANY", "allowed_function_names": ["stock"]}, False),
    ],
)
def test_an_invocation_records_the_data_of_its_provider(provider, choice, strict):
    asked = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")
    taken, _, (invocation,) = turn(provider, asked, tool_choice="stock", parallel_tool_calls=False)
    assert invocation.external_mappings == (
        FunctionMapping(
            provider=provider.partition("_")[0],
            tool_call_id="call_1",
            function_name="stock",
            tool_choice=choice,
            parallel_tool_calls=False,
            strict=strict,
            defer_loading=False,
        ),
    )
    assert invocation.native_call_id == "call_1"
    assert invocation.invocation_id == taken.results[0].invocation_id != "call_1"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_reply_without_calls_is_final(provider):
    taken, _, _ = turn(provider, reply={"text": "Seven."})
    assert taken.is_final
    assert taken.calls == taken.results == taken.result_messages == ()
    assert "Seven." in json.dumps(taken.reply_messages)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_unknown_name_is_a_result(provider):
    taken, _, _ = turn(provider, ModelCall(name="no such tool", arguments={}, call_id="call_1"))
    assert taken.results[0].error.error_class is ErrorClass.UNKNOWN_TOOL
    assert ids_answered(provider, taken.result_messages) == ["call_1"]


@pytest.mark.parametrize("provider", ["openai", "openai_responses"])
@pytest.mark.parametrize("arguments", ["", "{", '{"article": "so', "null", "[]", '"text"', "\x00", "\ud800"])
def test_arguments_that_are_no_object_are_a_result(provider, arguments):
    taken, _, _ = turn(provider, ModelCall(name="stock", arguments=arguments, call_id="call_1"))
    assert taken.results[0].error.error_class is ErrorClass.SCHEMA_VALIDATION_FAILED
    assert ids_answered(provider, taken.result_messages) == ["call_1"]


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
@pytest.mark.parametrize("arguments", ["text", [1], 7])
def test_an_input_that_is_no_object_is_a_result_and_is_not_repeated(provider, arguments):
    taken, _, _ = turn(provider, ModelCall(name="stock", arguments=arguments, call_id="call_1"))
    assert taken.results[0].error.error_class is ErrorClass.SCHEMA_VALIDATION_FAILED
    written = taken.reply_messages[0]
    block = written["content"][0]["input"] if provider == "anthropic" else written["parts"][0]["function_call"]["args"]
    assert block == {}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_calls_with_missing_or_repeated_ids_get_unique_ids(provider):
    asked = [ModelCall(name="stock", arguments={"article": word}, call_id=call_id)
             for word, call_id in [("a", "call_1"), ("b", "call_1"), ("c", None)]]  # fmt: skip
    taken, _, invocations = turn(provider, *asked)
    assert [each.is_error for each in taken.results] == [False] * 3
    assert len({each.native_call_id for each in invocations}) == 3
    answered = ids_answered(provider, taken.result_messages)
    assert answered[0] == "call_1"
    assert len(set(answered)) == 3
    repeated = json.dumps(taken.reply_messages)
    assert all(json.dumps(each) in repeated for each in answered if each is not None)
    assert (answered[2] is None) == (provider == "gemini")


@pytest.mark.parametrize(
    ("provider", "raw"),
    [
        ("openai", {"choices": [{"message": {"tool_calls": [{}, None, {"function": 7}]}}]}),
        ("openai", {"role": "assistant", "tool_calls": [{"id": 7}]}),
        ("openai_responses", {"output": [None, {"type": "function_call"}, 7]}),
        ("anthropic", {"role": "assistant", "content": [None, {"type": "tool_use"}, 7]}),
        ("gemini", {"candidates": [{"content": {"parts": [None, {"functionCall": {"id": 7}}]}}]}),
    ],
)
def test_every_malformed_call_of_a_reply_has_a_result(provider, raw):
    taken, _, _ = turn(provider, raw=raw)
    assert len(taken.results) == len(taken.calls) > 0
    assert all(each.is_error for each in taken.results)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_that_was_cut_off_does_not_run(provider):
    whole = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")
    cut = ModelCall(name="stock", arguments={"article": "sa"}, call_id="call_2")  # as a gateway may complete it
    taken, _, _ = turn(provider, whole, cut, reply={"cut_off": True})
    assert not taken.results[0].is_error
    assert taken.results[1].error.error_class is ErrorClass.SCHEMA_VALIDATION_FAILED
    assert ids_answered(provider, taken.result_messages) == ["call_1", "call_2"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_image_reaches_the_model_as_an_image(provider):
    taken, _, _ = turn(provider, ModelCall(name="photo", arguments={"article": "soap"}, call_id="call_1"))
    encoded = base64.b64encode(PNG).decode()
    url = f"data:image/png;base64,{encoded}"
    match provider:
        case "openai":
            assert taken.result_messages[1]["content"][1] == {"type": "image_url", "image_url": {"url": url}}
        case "openai_responses":
            assert {"type": "input_image", "image_url": url, "detail": "auto"} in taken.result_messages[0]["output"]
        case "anthropic":
            source = {"type": "base64", "media_type": "image/png", "data": encoded}
            assert {"type": "image", "source": source} in taken.result_messages[0]["content"][0]["content"]
        case "gemini":
            (blob,) = taken.result_messages[0]["parts"][0]["function_response"]["parts"]
            assert blob == {"inline_data": {"mime_type": "image/png", "data": PNG}}


def test_an_empty_reply_is_not_repeated():
    taken, _, _ = turn("openai")
    assert (taken.messages, taken.is_final) == ([], True)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("data", [b"%PDF-1.4 all letters", b"%PDF-1.4\n\xe2\xe3"])
def test_a_document_reaches_the_model_as_a_document_and_not_as_its_bytes(provider, data):
    @tool(namespace="depot", read_only=True, open_world=False)
    async def manual() -> list[str | Media]:
        """Show how to use it. Not for prices."""
        return ["see page 2", Media(data, "application/pdf", "manual.pdf")]

    taken, _, _ = turn(provider, ModelCall(name="manual", arguments={}, call_id="call_1"), tools=[manual])
    written = str(taken.result_messages)
    assert "see page 2" in written
    assert (str(data) if provider == "gemini" else base64.b64encode(data).decode()) in written
    assert provider == "gemini" or "all letters" not in written


@pytest.mark.parametrize("provider", ["openai", "openai_responses"])
def test_placeholder_nulls_of_strict_mode_are_removed_before_the_call(provider):
    asked = ModelCall(name="stock", arguments={"article": "soap", "place": None, "least": None}, call_id="call_1")
    taken, _, (invocation,) = turn(provider, asked)
    assert taken.results[0].model_facing_content[0].text == "soap: 7, None, 0"
    assert invocation.model_input == {"article": "soap"}


@pytest.mark.requirement("AT-IFACE-23")
def test_a_tool_is_strict_by_default_where_the_provider_supports_it():
    requests = {provider: turn(provider)[1] for provider in PROVIDERS}
    assert requests["openai"]["tools"][0]["function"]["strict"] is True
    assert requests["openai_responses"]["tools"][0]["strict"] is True
    assert next(each for each in requests["anthropic"]["tools"] if each["name"] == "stock")["strict"] is True
    assert "strict" not in json.dumps(requests["gemini"])
    assert turn("openai", strict=False)[1]["tools"][0]["function"]["strict"] is False
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    silent = scripted_tool("silent", schema={**schema, "additionalProperties": False})
    assert silent.declaration.input_contract is None, "it does not declare whether it is strict"
    assert turn("openai", tools=[silent])[1]["tools"][0]["function"]["strict"] is True


@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_tools_with_one_name_have_different_function_names(provider):
    _, request, _ = turn(provider, tools=[stock, other_stock])
    assert names_in(provider, request) == ["depot__stock", "shop__stock"]
    asked = ModelCall(name="shop__stock", arguments={"article": "soap"}, call_id="call_1")
    taken, _, _ = turn(provider, asked, tools=[stock, other_stock])
    assert taken.results[0].model_facing_content[0].text == "elsewhere"


SEARCHED = {
    "anthropic": {
        "role": "assistant",
        "stop_reason": "tool_use",
        "content": [
            {"type": "server_tool_use", "id": "srv_1", "name": "tool_search_tool_bm25", "input": {"query": "weigh"}},
            {
                "type": "tool_search_tool_result",
                "tool_use_id": "srv_1",
                "content": {
                    "type": "tool_search_tool_search_result",
                    "tool_references": [{"type": "tool_reference", "tool_name": "weigh"}],
                },
            },
            {"type": "tool_use", "id": "call_1", "name": "weigh", "input": {"article": "soap"}},
        ],
    },
    "openai_responses": {
        "status": "completed",
        "output": [
            {"type": "tool_search_call", "id": "ts_1", "execution": "server", "arguments": {}, "status": "completed"},
            {"type": "tool_search_output", "id": "to_1", "tools": [{"type": "function", "name": "weigh"}]},
            {"type": "function_call", "call_id": "call_1", "name": "weigh", "arguments": '{"article": "soap"}'},
        ],
    },
}


@pytest.mark.parametrize("provider", SEARCHED)
def test_a_tool_that_native_search_found_is_loaded_and_runs(provider):
    async def run():
        async with Runtime.open(tools=[stock, weigh]) as rt:
            model = await rt.tools_for(provider, native_search=True)
            before, request = model.surface, model.request()
            taken = await model.answer(SEARCHED[provider])
            events = [event.event_type async for _, event in _until_now(rt)]
            invocation = await rt.journal.invocation(taken.results[0].invocation_id)
            return before, request, taken, model.surface, events, invocation, model.request()

    before, request, taken, after, events, invocation, later = asyncio.run(run())
    deferred = [each for each in request["tools"] if each.get("defer_loading")]
    assert [each["name"] for each in deferred] == ["weigh"]
    assert any(each["type"].startswith("tool_search") for each in request["tools"] if "type" in each)
    assert taken.results[0].model_facing_content[0].text == "12"
    assert (len(before.deferred_tools), len(after.deferred_tools)) == (1, 0)
    assert {"tool.deferred.loaded", "tool.surface.updated"} <= set(events)
    assert invocation.external_mappings[0].defer_loading is True
    assert later == request


@pytest.mark.parametrize("provider", SEARCHED)
def test_a_tool_that_became_unavailable_after_native_search_is_rejected_by_a_result(provider):
    async def run():
        async with Runtime.open(tools=[stock, weigh]) as rt:
            model = await rt.tools_for(provider, native_search=True)
            model.request()
            await rt.surfaces.change(providers={"depot": "unavailable"})
            return await model.answer(SEARCHED[provider])

    taken = asyncio.run(run())
    assert [result.error.error_class for result in taken.results] == ["blocked_tool"]
    assert len(taken.result_messages) == 1


async def _until_now(rt):
    async for position, event in rt.journal.events():
        yield position, event
        if event.event_type == "tool.invocation.completed" or event.event_type.endswith(".succeeded"):
            return


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_that_our_search_loaded_is_in_the_next_request_and_runs(provider):
    async def run():
        async with Runtime.open(tools=[stock, weigh]) as rt:
            model = await rt.tools_for(provider)
            before = names_in(provider, model.request())
            find = ModelCall(name="tool_search", arguments={"query": "select:depot.weigh"}, call_id="call_1")
            await model.answer(reply(provider, find))
            after = names_in(provider, model.request())
            weighed = await model.answer(
                reply(provider, ModelCall(name="weigh", arguments={"article": "a"}, call_id="call_2"))
            )
            return before, after, weighed.results[0]

    before, after, result = asyncio.run(run())
    assert "tool_search" in before
    assert "weigh" in set(after) - set(before)
    assert result.model_facing_content[0].text == "12"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_deferred_tool_that_is_not_loaded_does_not_run(provider):
    taken, _, _ = turn(provider, ModelCall(name="weigh", arguments={"article": "soap"}, call_id="call_1"))
    assert taken.results[0].error.error_class is ErrorClass.SCHEMA_NOT_LOADED


@pytest.mark.parametrize("provider", PROVIDERS)
def test_deferred_tools_stay_out_of_a_request_without_a_search(provider):
    _, request, _ = turn(provider)
    assert names_in(provider, request) == ["stock", "photo", "tool_search"]


def test_a_canceled_turn_leaves_no_call_open():
    @tool(namespace="depot", read_only=True, open_world=False)
    async def wait() -> str:
        """Wait for ever. Not for the impatient."""
        started.set()
        await asyncio.Event().wait()
        return ""

    async def run():
        async with Runtime.open(tools=[wait]) as rt:
            model = await rt.tools_for("openai")
            messages = [{"role": "user", "content": "wait"}]

            async def step():
                messages.extend(
                    (await model.answer(reply("openai", ModelCall(name="wait", arguments={}, call_id="c")))).messages
                )

            async with asyncio.timeout(60):
                task = asyncio.ensure_future(step())
                await started.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return messages

    started = asyncio.Event()
    assert asyncio.run(run()) == [{"role": "user", "content": "wait"}]


def test_unknown_formats_and_tool_choices_are_rejected_with_a_remedy():
    with pytest.raises(ConfigError, match="use one of anthropic, gemini, openai, openai_responses"):
        turn("mistral", raw={"content": []})
    with pytest.raises(ConfigError, match="name a tool of the surface"):
        turn("anthropic", tool_choice="missing")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_deferred_tools_are_searched_by_our_ranker_by_default_and_are_not_sent(provider):
    _, request, _ = turn(provider)
    assert names_in(provider, request) == ["stock", "photo", "tool_search"]
    assert "weigh" not in json.dumps(request)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_schema_with_boolean_limits_and_no_draft_is_read_as_draft_4_and_a_note_says_so(provider):
    limit = {"type": "number", "minimum": 0, "exclusiveMinimum": True}
    old = scripted_tool("old", schema={"type": "object", "properties": {"a": limit}, "required": ["a"]})

    async def run():
        async with Runtime.open(tools=[old], rules=ALLOW) as rt:
            model = await rt.tools_for(provider)
            asked = [ModelCall(name="old", arguments={"a": a}, call_id=f"call_{a}") for a in (0, 1)]
            return model.request(), model.notes, await model.answer(reply(provider, *asked))

    request, notes, taken = asyncio.run(run())
    assert [each.status for each in taken.results] == ["failed", "succeeded"]
    assert "a number more than 0" in taken.results[0].error.message
    assert "true" not in json.dumps(request).partition('"properties"')[2].partition("}}")[0]
    assert notes["test.old"].startswith("its schema is read as draft 4 of JSON Schema")


FORMATS = {
    "date-time": (["2026-11-16T22:00:00Z", "2026-11-16T22:00:00", "2026-11-16 22:00:00+01:00"], ["soon", "2026-11-16"]),
    "date": (["2026-11-16"], ["16.11.2026", "2026-02-30"]),
    "uri": (["https://a.example/b?c#d", "mailto:a@b.example", "https://ä.example/"], ["a.example", "/b", "http://a b"]),
    "email": (["a@b.example"], ["a", "a@"]),
    "uuid": (["01890a5d-ac96-774b-bcce-b302099a8057"], ["7"]),
    "ipv4": (["127.0.0.1"], ["127.0.0.256", "::1"]),
    "ipv6": (["::1"], ["127.0.0.1"]),
    "hostname": (["a.example", "-"], []),
}


@pytest.mark.parametrize("form", FORMATS)
def test_the_common_formats_of_arguments_are_checked_and_the_others_are_not(form):
    strange = scripted_tool(
        "strange", schema={"type": "object", "properties": {"a": {"type": "string", "format": form}}}
    )
    right, wrong = FORMATS[form]

    async def run():
        async with Runtime.open(tools=[strange], rules=ALLOW) as rt:
            return [await rt.call("strange", {"a": each}) for each in (*right, *wrong)]

    results = asyncio.run(run())
    assert [each.is_error for each in results] == [False] * len(right) + [True] * len(wrong)
    assert all(f"text in the format '{form}'" in each.error.message for each in results[len(right) :])


def test_only_small_schemas_are_strict_for_anthropic():
    member = {"type": "string", "description": "words " * 60}
    schema = {"type": "object", "properties": dict.fromkeys("abcdefgh", member), "additionalProperties": False}
    large = scripted_tool("large", schema={**schema, "required": list("abcdefgh")})
    _, request, _ = turn("anthropic", tools=[stock, large, *(numbered(each) for each in range(6))])
    strict = {each["name"] for each in request["tools"] if each.get("strict")}
    assert strict == {"stock", *(f"tool_{each}" for each in range(4))}


def numbered(number):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    return scripted_tool(f"tool_{number}", schema=schema)
