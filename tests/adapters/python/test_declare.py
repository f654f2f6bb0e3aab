import asyncio
import io
import json
import os
import sys
import traceback
import typing
from pathlib import Path

import pytest

from agenttool import ConfigError, Context, Runtime, make_tool, tool
from agenttool.codec import to_json
from agenttool.records import CAPABILITY_FLAGS, complete_interface


def test_a_decorated_function_is_still_a_function():
    @tool
    def double(n: int) -> int:
        """Double a number. Not for text."""
        return 2 * n

    assert double(4) == 8
    assert double.__name__ == "double"


def test_what_an_author_says_stands_in_the_records_and_nothing_else_does():
    @tool(namespace="files", read_only=True, aliases=["cat"], timeout_s=2, sensitive=["token"])
    async def read(path: str, token: str, limit: int = 10) -> str:
        """Read a file.

        Args:
            path: where it is
        """
        return path

    declared = read.declared
    declaration, interface = to_json(declared.declaration), to_json(declared.interface)
    assert declaration["tool_id"] == "tool_files.read"
    assert declaration["aliases"] == ["cat"]
    assert declaration["description"] == "Read a file."
    contract = declaration["input_contract"]
    assert contract["model_input_schema"]["properties"]["path"]["description"] == "where it is"
    assert contract["model_input_schema"]["required"] == ["path", "token"]
    assert (contract["defaults"], contract["sensitive_fields"]) == ({"limit": 10}, ["token"])
    assert (interface["is_read_only"], interface["timeout_ms"]) == (True, 2000)
    assert "is_open_world" not in interface
    assert "is_open_world" in complete_interface(declared.interface).inferred_facts
    assert declaration["external_mappings"] == [{"source": "function", "function_name": "read"}]


@pytest.mark.requirement("AT-EXEC-04")
def test_a_profile_says_yes_or_no_to_every_capability_and_a_thread_cannot_be_stopped():
    @tool
    def in_thread() -> None:
        """Run in a thread."""

    @tool
    async def in_loop(context: Context) -> None:
        """Run in the loop."""

    for each in (in_thread, in_loop):
        assert all(getattr(each.declared.execution_profile, flag) is not None for flag in CAPABILITY_FLAGS)
    assert in_thread.declared.execution_profile.supports_cancel is False
    assert in_loop.declared.execution_profile.supports_cancel is True
    assert "context" not in repr(to_json(in_loop.declared.declaration))


def test_a_parameter_without_a_type_is_refused():
    with pytest.raises(ConfigError, match="n"):

        @tool
        def vague(n):
            """Do something."""


@pytest.mark.parametrize(
    ("returns", "value", "is_error"),
    [
        (int, "text", True),
        (int, None, True),
        (int, True, True),
        (int, 5, False),
        (float, 5, False),
        (float, "5", True),
        (bool, 1, True),
        (int | None, None, False),
        (int | str, "text", False),
        (int | None, [1], True),
        (list[int], ["text"], True),
        (str, "text", False),
    ],
)
async def test_a_function_that_returns_another_type_than_it_declares_fails(returns, value, is_error):
    async def answer():
        """Answer. Not for asking."""
        return value

    answer.__annotations__["return"] = returns
    async with Runtime.open(tools=[tool(read_only=True, open_world=False)(answer)]) as rt:
        result = await rt.call("answer", {}, surface=await rt.surface())
    assert result.is_error is is_error
    if is_error:
        assert (result.error.error_class, result.error.error_code) == ("result_mapping_failed", "schema_misfit")


def test_a_default_of_another_type_is_refused_at_declaration():
    def wrong(a: int = "nope") -> str:
        """Do. Not for undoing."""
        return str(a)

    with pytest.raises(
        ConfigError, match=r"parameter 'a' of wrong\(\) has a default of the type str, but is declared as"
    ):
        tool(wrong)


def test_a_decorated_method_is_refused_with_the_line_that_declares_it():
    with pytest.raises(ConfigError, match=r"leave @tool off the method, and pass tools=tools_from\(Shop\(\.\.\.\)\)"):

        class Shop:
            @tool
            def order(self, article: str) -> str:
                """Order."""
                return article


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic accepts typing.TypedDict")
def test_a_typed_dict_of_typing_is_refused_in_one_error_with_its_remedy():
    class Item(typing.TypedDict):
        name: str

    def given(item: Item, count: int) -> str:
        """Take an item."""
        return f"{item}{count}"

    def returned() -> Item:
        """Return an item."""
        return {"name": "soap"}

    for function in (given, returned):
        function.__globals__["Item"] = Item
        with pytest.raises(ConfigError, match=r"; import TypedDict from typing_extensions$") as caught:
            tool(function)
        assert len(traceback.format_exception(caught.value)) < 20
        assert "PydanticUserError" not in "".join(traceback.format_exception(caught.value))


def test_a_printed_tool_is_its_name():
    @tool(namespace="shop")
    def stock() -> int:
        """Count."""
        return 1

    made = make_tool("refund", {}, stock)
    assert (repr(stock), str([made])) == ("<tool shop.stock>", "[<tool local.refund>]")


LIMIT = 3
SEEN = []


def numbered(each):
    return {"number": each, "text": f"{each:03}"}


async def relay(number: int, context: Context) -> str:
    return (await context.call("pay", {"number": number})).status


async def relay_many(numbers: list[int], context: Context, note: str = "") -> str:
    paid = await asyncio.gather(*(context.call("pay", numbered(each)) for each in numbers[:LIMIT]))
    if any(each.error is not None for each in paid):
        raise ValueError(note)
    context.progress("paid")
    return json.dumps([each.text for each in paid])


def relay_from_a_thread(number: int, context: Context) -> str:
    return context.call_and_wait("pay", {"number": number}).status


async def opens_a_file(number: int, context: Context) -> str:
    open(str(number), "w").close()  # noqa: ASYNC230, PTH123 -- an effect
    return await relay(number, context)


async def uses_a_module(number: int, context: Context) -> str:
    os.remove(str(number))  # noqa: PTH107 -- an effect
    return await relay(number, context)


async def imports_a_module(number: int, context: Context) -> str:
    import shutil  # noqa: PLC0415 -- a way to effects

    return await relay(shutil.rmtree and number, context)


async def calls_a_function_with_an_effect(number: int, context: Context) -> str:
    return await opens_a_file(number, context)


async def uses_an_object(number: int, context: Context) -> str:
    SEEN.append(number)
    return await relay(number, context)


def append(number, file=SEEN):
    file.append(number)


async def uses_an_object_by_a_default(number: int, context: Context) -> str:
    append(number)
    return await relay(number, context)


async def reads_a_private_attribute(number: int, context: Context) -> str:
    return str(context._job) + await relay(number, context)


async def changes_the_shared_context(number: int, context: Context) -> str:
    context.change_shared({"number": number})
    return await relay(number, context)


async def depends_on_the_order_of_a_set(names: list[str], context: Context) -> str:
    return await relay(len(list(set(names))[0]), context)  # noqa: RUF015 -- by a list


async def depends_on_the_order_of_a_built_set(names: list[str], context: Context) -> str:
    return await relay([len(each) for each in {*names}][0], context)  # noqa: RUF015 -- by a list


async def depends_on_the_order_of_a_constant_set(number: int, context: Context) -> str:
    for each in {"a", "bb", "ccc"}:  # noqa: PLC0208 -- a set
        await relay(number + len(each), context)
    return ""


async def depends_on_the_order_of_keys(one: dict[str, int], other: dict[str, int], context: Context) -> str:
    return "".join([await relay(one[each], context) for each in one.keys() & other.keys()])


async def gets_a_converted_argument(path: Path, context: Context) -> str:
    path.unlink()  # noqa: ASYNC240 -- an effect
    return await relay(1, context)


async def makes_no_nested_call(number: int, context: Context) -> str:
    return f"{number}"


def with_a_closure():
    async def has_a_closure(number: int, context: Context) -> str:
        file.write("x")
        return await relay(number, context)

    file = io.StringIO()
    return has_a_closure


@pytest.mark.parametrize("function", [relay, relay_many, relay_from_a_thread])
def test_a_function_that_acts_only_by_nested_calls_can_be_resumed(function):
    profile = tool(function).declared.execution_profile
    assert (profile.supports_resume, profile.supports_retries) == (True, False)


@pytest.mark.parametrize(
    "function",
    [
        opens_a_file,
        uses_a_module,
        imports_a_module,
        calls_a_function_with_an_effect,
        uses_an_object,
        uses_an_object_by_a_default,
        reads_a_private_attribute,
        changes_the_shared_context,
        depends_on_the_order_of_a_set,
        depends_on_the_order_of_a_built_set,
        depends_on_the_order_of_a_constant_set,
        depends_on_the_order_of_keys,
        gets_a_converted_argument,
        makes_no_nested_call,
        with_a_closure(),
    ],
)
def test_a_function_whose_own_code_may_act_cannot_be_resumed(function):
    assert tool(function).declared.execution_profile.supports_resume is False
