# ruff: noqa: ARG005 -- the parameters of the functions are what is tested
from types import SimpleNamespace
from typing import Annotated

import pytest
from pydantic import BaseModel

from agenttool import ConfigError, Context, Inject, Runtime, make_tool, tools_from

SCHEMA = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def call(tools, name, arguments):
    async with Runtime.open(tools=tools) as rt:
        return await rt.call(name, arguments)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_name_a_schema_and_a_function_make_a_tool(is_async):
    async def later(n):
        return 2 * n

    double = make_tool("double", SCHEMA, later if is_async else lambda n: 2 * n, read_only=True)
    assert (await call([double], "double", {"n": 4})).value == 8
    assert (await call([double], "double", {"n": "4"})).error.error_class == "schema_validation_failed"
    assert (await call([double], "double", {"n": 4, "m": 1})).error.error_class == "schema_validation_failed"


class Greet(BaseModel):
    """Greet somebody."""

    name: str
    loud: bool = False

    def __call__(self) -> str:
        return f"hello {self.name}".upper() if self.loud else f"hello {self.name}"


async def test_a_pydantic_model_is_a_tool_whose_fields_are_the_arguments():
    (greet,) = tools_from(Greet, read_only=True)
    assert greet.declaration.description == "Greet somebody."
    assert (await call([greet], "Greet", {"name": "ada", "loud": True})).text == "HELLO ADA"


class Stock:
    def __init__(self):
        self.pieces = {"soap": 3}

    def count(self, article: str) -> int:
        """Count the pieces of an article."""
        return self.pieces[article]

    def _hidden(self) -> None:
        """Do nothing."""


async def test_the_methods_of_an_object_are_tools_of_one_namespace():
    tools = tools_from(Stock(), read_only=True)
    assert [each.declaration.tool_id for each in tools] == ["tool_stock.count"]
    assert (await call(tools, "stock.count", {"article": "soap"})).value == 3
    with pytest.raises(ConfigError, match="describes no tool"):
        tools_from(7)


class Counter:
    def hidden(self) -> int:
        return 1

    def shown(self) -> int:
        """Count."""
        return 2

    @staticmethod
    def fixed() -> int:
        """Return the fixed count."""
        return 3


async def test_methods_without_a_docstring_are_left_out_with_a_warning(caplog):
    tools = tools_from(Counter(), read_only=True)
    assert [(await call(tools, name, {})).value for name in ("shown", "fixed")] == [2, 3]
    (record,) = caplog.records
    assert "left out methods of Counter without a docstring: hidden; add one" in record.getMessage()


async def test_a_tool_of_langchain_is_recognized_by_its_attributes():
    async def ainvoke(arguments):
        return f"greeted {arguments['name']}"

    (greet,) = tools_from(
        SimpleNamespace(name="greet", description="Greet.", args_schema=Greet, ainvoke=ainvoke), read_only=True
    )
    assert (await call([greet], "greet", {"name": "ada"})).text == "greeted ada"


async def test_a_tool_of_an_mcp_server_runs_by_its_session_and_its_claims_are_not_trusted():
    async def call_tool(name, arguments):
        is_bad = arguments["n"] < 0
        return SimpleNamespace(
            content=[SimpleNamespace(text="no")], isError=is_bad, structuredContent={"name": name, **arguments}
        )

    described = SimpleNamespace(
        name="look", description="Look.", inputSchema=SCHEMA, annotations=SimpleNamespace(readOnlyHint=True)
    )
    with pytest.raises(ConfigError, match=r"call=session.call_tool"):
        tools_from(described)
    assert (await call(tools_from(described, call=call_tool), "look", {"n": 1})).status == "denied"
    trusted = tools_from(described, call=call_tool, read_only=True)
    assert (await call(trusted, "look", {"n": 1})).value == {"name": "look", "n": 1}
    assert (await call(trusted, "look", {"n": -1})).error.error_class == "execution_failed"


def test_a_class_is_refused_with_the_line_that_makes_an_object_of_it():
    class Shop:
        def order(self, article: str) -> str:
            """Order."""
            return article

    with pytest.raises(ConfigError, match=r"Shop is a class; pass an object of it, as in tools_from\(Shop\(\)\)"):
        tools_from(Shop)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("x", None, print), "the schema of 'x' must be an object, got None"),
        (("x", {}, None), "'x' must have a function, got None"),
        ((None, {}, print), "the name of a tool must be text, got None"),
    ],
)
def test_a_wrong_part_of_a_tool_is_named(given, message):
    with pytest.raises(ConfigError, match=message):
        make_tool(*given)


def nothing(**fields):
    return None


WHOLE = {"name": "x", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string"}, "its type is 'string'; arguments have names, so write an object"),
        ({"properties": {"n": {"type": "integr"}}}, "not a usable JSON Schema"),
        ({"properties": []}, "not a usable JSON Schema"),
        ({"n": {"type": "integer"}}, "the field 'n' is not in its properties; write {\"properties\": {'n': ...}}"),
        (WHOLE, "it is the declaration of a whole tool; pass its member 'parameters'"),
        ({"properties": {"path": {}}, "required": ["paht"]}, "it requires the field 'paht', .*; did you mean 'path'?"),
        ({"required": ["path"]}, "it requires the field 'path', which it does not define; add it to the properties"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_remedy(schema, message):
    with pytest.raises(ConfigError, match=rf"the schema of 'x' is invalid: {message.replace('{', '[{]')}"):
        make_tool("x", schema, nothing)


TWO = {"properties": {"path": {}, "limit": {}}, "required": ["path"]}


@pytest.mark.parametrize(
    ("function", "schema", "message"),
    [
        (lambda pth, limit=1: 0, TWO, "unexpected keyword argument 'path'; declare a parameter"),
        (lambda path: 0, TWO, "unexpected keyword argument 'limit'"),
        (lambda path, limit: 0, TWO, "missing a required (keyword-only )?argument: 'limit'"),
        (lambda path, limit=1, *, size: 0, TWO, "missing a required (keyword-only )?argument: 'size'"),
        (lambda path, /, limit=1: 0, TWO, "'path'"),
        (
            lambda path, limit=1: 0,
            {**TWO, "additionalProperties": True},
            "unexpected keyword argument 'further fields'",
        ),
    ],
)
def test_a_function_that_does_not_accept_what_the_schema_allows_is_refused(function, schema, message):
    with pytest.raises(ConfigError, match=rf"<lambda>\(\) does not fit the schema of 'x': .*{message}"):
        make_tool("x", schema, function)


@pytest.mark.parametrize(
    ("function", "schema"),
    [
        (nothing, {**TWO, "additionalProperties": True}),
        (lambda path, limit=1, extra=2: 0, TWO),
        (lambda path, limit: 0, {"allOf": [TWO], "additionalProperties": True}),
        (dict, TWO),
    ],
)
def test_a_function_that_accepts_more_or_that_cannot_be_read_is_a_tool(function, schema):
    assert make_tool("x", schema, function).declaration.name == "x"


async def test_the_runtime_fills_the_context_and_injected_objects_of_a_function_with_a_schema():
    def find(n, ctx: Context, stock: Annotated[Stock, Inject]):
        yield f"{n} {len(ctx.invocation_id) > 4} "
        yield str(stock.pieces["soap"])

    found = make_tool("find", SCHEMA, find, read_only=True)
    async with Runtime.open(tools=[found], provide={Stock: Stock()}) as rt:
        assert (await rt.call("find", {"n": 1})).text == "1 True 3"
    with pytest.raises(ConfigError, match="'stock' of find"):
        Runtime.open(tools=[found])
