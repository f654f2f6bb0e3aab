"""What a model may be shown of a surface, and what a provider said about a call."""

import asyncio
import dataclasses
from typing import Annotated

import pytest

from agenttool import Internal, Runtime, ToolCall, tool
from agenttool.records import ErrorClass, FunctionMapping, InputContract, replace
from agenttool.testing.fakes import scripted_tool


@tool(namespace="shop", read_only=True, open_world=False)
def price(article: str, tenant: Annotated[str, Internal] = "") -> str:
    """Tell the price of an article."""
    return f"{article}: 3"


@tool(namespace="shop", should_defer=True)
def refund(order: str) -> str:
    """Give money back."""
    return "done"


def test_a_surface_offers_what_it_shows_and_what_it_defers_without_internal_fields():
    async def run():
        async with Runtime.open(tools=[price, refund]) as rt:
            return rt.surfaces.offered(await rt.surface())

    shown, finder, deferred = asyncio.run(run())
    assert (finder.qualified_name, finder.is_deferred) == ("agenttool.tool_search", False)
    assert (shown.qualified_name, shown.is_deferred, shown.strict) == ("shop.price", False, True)
    assert set(shown.input_schema["properties"]) == {"article"}
    assert (deferred.qualified_name, deferred.is_deferred) == ("shop.refund", True)


@pytest.mark.requirement("AT-IO-10")
def test_a_search_reveals_of_a_field_that_no_model_may_set_neither_its_name_nor_its_words():
    schema = {
        "type": "object",
        "properties": {"article": {"type": "string"}, "tenant": {"type": "string", "description": "The landlord."}},
        "additionalProperties": False,
    }
    tool = scripted_tool("price", should_defer=True)
    contract = InputContract(model_input_schema=schema, internal_only_fields=("tenant",))
    tool = dataclasses.replace(
        tool,
        declaration=replace(tool.declaration, input_contract=contract),
        interface=replace(tool.interface, model_input_schema=None),
    )

    async def run():
        async with Runtime.open(tools=[tool]) as rt:
            surface = await rt.surface()
            found = [await rt.search(each, surface=surface) for each in ("article", "tenant", "landlord")]
            loaded = await rt.call("tool_search", {"query": "select:price"}, surface=surface)
            return found, loaded.model_facing_content[0].text

    (seen, *unseen), loaded = asyncio.run(run())
    assert [len(each.matches) for each in (seen, *unseen)] == [1, 0, 0]
    assert "article" in loaded
    assert "tenant" not in loaded


@pytest.mark.parametrize("store", ["memory:", "sqlite:calls.db"])
def test_a_providers_words_about_a_call_stand_beside_our_own(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = FunctionMapping(provider="openai", tool_call_id="call_1", function_name="price", strict=True)

    async def run():
        async with Runtime.open(tools=[price], store=store) as rt:
            surface = await rt.surface()
            call = ToolCall(name="price", arguments={"article": "soap"}, native_call_id="call_1", mapping=said)
            (result,) = await rt.batch([call], surface=surface)
            return result, await rt.journal.invocation(result.invocation_id)

    result, invocation = asyncio.run(run())
    assert not result.is_error
    assert invocation.external_mappings == (said,)
    assert (invocation.native_call_id, invocation.invocation_id != "call_1") == ("call_1", True)


def test_a_call_that_came_with_a_fault_is_a_result_and_does_not_run():
    async def run():
        async with Runtime.open(tools=[price]) as rt:
            cut = ToolCall(name="price", arguments={"article": "soap"}, fault="the reply was cut off; ask again")
            whole = ToolCall(name="price", arguments={"article": "soap"})
            return await rt.batch([cut, whole], surface=await rt.surface())

    cut, whole = asyncio.run(run())
    assert cut.error.error_class is ErrorClass.SCHEMA_VALIDATION_FAILED
    assert cut.error.message == "the reply was cut off; ask again"
    assert not whole.is_error
