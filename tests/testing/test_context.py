"""A tool function is tested with a fake context: it sees what it sees in a runtime, and the test sees what it did."""

import asyncio
import inspect
from typing import Annotated

import pytest

from agenttool import ConfigError, Context, Inject, Progress, Runtime, sync, tool
from agenttool.testing import FakeContext


class Prices:
    def __init__(self, prices):
        self.prices = prices


@tool(credentials=["shop"])
async def buy(article: str, prices: Annotated[Prices, Inject], ctx: Context) -> str:
    """Buy an article."""
    ctx.progress("asking for stock", percent=50)
    left = await ctx.call("stock", {"article": article})
    if not left.ok:
        return left.text
    ctx.log(f"paying with {ctx.credentials['shop']}")
    return f"{ctx.invocation_id}: {left.value} left, paid {prices.prices[article]} with {len(ctx.credentials['shop'].value)} characters"


def test_a_function_reports_logs_calls_and_reads_credentials_as_in_a_runtime():
    ctx = FakeContext(credentials={"shop": "a-long-secret"}, results={"stock": 7}, invocation_id="inv_1")
    text = asyncio.run(buy("soap", Prices({"soap": 3}), ctx))
    assert text == "inv_1: 7 left, paid 3 with 13 characters"
    assert ctx.reports == [Progress("asking for stock", percent=50)]
    assert ctx.messages == ["paying with Secret('shop')"]
    assert ctx.calls == [("stock", {"article": "soap"})]

    @tool(read_only=True)
    def stock(article: str) -> int:
        """Count an article."""
        return 7

    options = {"provide": {Prices: Prices({"soap": 3})}, "credentials": {"shop": "a-long-secret"}, "approve": lambda _: "allow"}  # fmt: skip
    with sync.open(tools=[buy, stock], **options) as rt:
        result = rt.call("buy", {"article": "soap"})
    assert result.text == text.replace("inv_1", result.invocation_id)


@pytest.mark.parametrize(
    ("prepared", "value", "text"),
    [
        ("seven", "seven", "seven"),
        ({"left": 7}, {"left": 7}, '{"left":7}'),
        (lambda arguments: arguments["n"] + 1, 2, "2"),
        (None, None, "null"),
    ],
)
def test_a_nested_call_returns_the_prepared_value(prepared, value, text):
    result = FakeContext(results={"next": prepared}).call_and_wait("next", {"n": 1})
    assert (result.ok, result.value, result.text) == (True, value, text)


async def test_a_nested_call_fails_with_the_prepared_exception_as_it_would_in_a_runtime():
    def broken() -> str:
        """Fail."""
        raise KeyError("soap")

    fake = await FakeContext(results={"broken": KeyError("soap")}).call("broken", {})
    async with Runtime.open(tools=[tool(read_only=True)(broken)]) as rt:
        real = await rt.call("broken", {})
    assert (fake.ok, fake.error.error_class, fake.error.message) == (False, real.error.error_class, real.error.message)


def test_a_call_without_a_prepared_result_names_the_argument_that_prepares_one():
    with pytest.raises(ConfigError, match=r"add FakeContext\(results=\{'stock': …\}\)"):
        FakeContext().call_and_wait("stock", {})


def test_a_credential_that_the_test_does_not_give_is_missing_as_in_a_runtime():
    with pytest.raises(KeyError, match="is not leased to this call"):
        FakeContext().credentials["shop"]


def test_a_canceled_context_stops_a_function_that_waits():
    ctx = FakeContext(shared={"step": 1})
    assert not ctx.wait_for_cancel(0)
    ctx.cancel()
    assert (ctx.is_canceled, ctx.wait_for_cancel(), ctx.cancel_reason) == (True, True, "user_interruption")
    ctx.change_shared({"step": 2})
    ctx.partial([1])
    assert (ctx.changes, ctx.shared, ctx.partials) == ([{"step": 2}], {"step": 1}, [[1]])


def test_every_service_of_a_context_has_a_fake():
    services = {name for name, _ in inspect.getmembers(Context) if not name.startswith("_")}
    assert services <= set(vars(FakeContext))
