import sys
import traceback
import typing

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
