import dataclasses
import datetime as dt
import enum
import functools
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pytest
from pydantic import AnyUrl, BaseModel, Field, SecretStr
from typing_extensions import Doc, TypedDict

from agenttool.errors import ConfigError
from agenttool.schema.compile import Checker
from agenttool.schema.markers import MARKERS, CommandArg, Internal, PathArg, Sensitive, UrlArg
from agenttool.schema.signature import Signature, signature_of
from agenttool.schema.signature.schemas import TypeCheck
from agenttool.schema.traverse import properties_of


class Context:
    """What a running call may use."""


class Special(Context):
    pass


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: int = 0


class Box(TypedDict, total=False):
    width: int


@dataclasses.dataclass
class Login:
    user: str
    password: Annotated[str, Sensitive] = "hunter2"  # noqa: S105


class Tree(BaseModel):
    """A tree of names."""

    name: str
    tenant: Annotated[str, Internal] = "nobody"
    children: "list[Tree]" = []


async def read_file(path: str, limit: int = 2000) -> str:
    """Read a text file.

    Use it for text, not for images.

    Args:
        path: Where the file is.
        limit: How many lines to read
            at most.

    Returns:
        The text.
    """
    return path * limit


def test_a_plain_function_is_read_completely():
    found = signature_of(read_file)
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where the file is."},
            "limit": {"type": "integer", "description": "How many lines to read\nat most.", "default": 2000},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert found == Signature(
        name="read_file",
        title="Read file",
        description="Read a text file.\n\nUse it for text, not for images.\n\nReturns:\n    The text.",
        model_input_schema=schema,
        runtime_input_schema=None,
        output_schema=None,
        output_check=TypeCheck("str", frozenset({str})),
        defaults={"limit": 2000},
        secret_defaults={},
        nested_defaults=None,
        fields=dict.fromkeys(MARKERS, ()),
        context_parameter=None,
        injected={},
        arguments=None,
        integer_fields=frozenset({"limit"}),
        kind="coroutine",
    )
    assert list(found.model_input_schema["properties"]) == ["path", "limit"]


TYPES = [
    (str, "a", "a", "string"),
    (int, 1, 1, "integer"),
    (float, 1, 1, "number"),
    (bool, True, True, "boolean"),
    (None, None, None, "null"),
    (Any, {"a": 1}, {"a": 1}, None),
    (object, [1], [1], None),
    (str | None, None, None, None),
    (Literal["a", "b"], "b", "b", "string"),
    (Color, "red", Color.RED, None),
    (list[int], [1, 2.0], [1, 2], "array"),
    (tuple[int, str], [1, "a"], (1, "a"), "array"),
    (set[str], ["a"], {"a"}, "array"),
    (dict[str, list[float]], {"a": [1.5]}, {"a": [1.5]}, "object"),
    (dict[int, str], {"1": "a"}, {1: "a"}, "object"),
    (Point, [1, 2], Point(1, 2), None),
    (Box, {"width": 1}, {"width": 1}, None),
    (Login, {"user": "u"}, Login("u"), None),
    (Tree, {"name": "r", "children": [{"name": "c"}]}, Tree(name="r", children=[Tree(name="c")]), None),
    (dt.date, "2026-02-28", dt.date(2026, 2, 28), "string"),
    (dt.datetime, "2026-02-28T01:02:03Z", dt.datetime(2026, 2, 28, 1, 2, 3, tzinfo=dt.UTC), "string"),
    (dt.timedelta, "PT1H", dt.timedelta(hours=1), "string"),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678"), "string"),
    (Decimal, "0.10", Decimal("0.10"), None),
    (Path, "a/b", Path("a/b"), "string"),
    (bytes, "aGk+/w==", b"hi>\xff", "string"),
    (Annotated[list[Login | Point], Field(min_length=1)], [{"user": "u"}, [1]], [Login("u"), Point(1)], "array"),
]


@pytest.mark.parametrize(("kind", "sent", "given", "json_type"), TYPES, ids=lambda value: str(value)[:30])
def test_json_becomes_what_the_parameter_asks_for(kind, sent, given, json_type):
    def tool(value: kind): ...

    found = signature_of(tool)
    assert Checker(found.model_input_schema).misfits({"value": sent}) == []
    assert found.model_input_schema["properties"]["value"].get("type") == json_type
    assert (found.arguments or dict)({"value": sent}) == {"value": given}


@pytest.mark.parametrize(
    ("kind", "sent"),
    [(int, True), (bool, 1), (int, 1.5), (str, 1), (Color, "green"), (Login, {"user": "u", "admin": True}),
     (Tree, {"name": "r", "tenant": "mine"}), (Annotated[int, Field(ge=3)], 2)],
)  # fmt: skip
def test_the_schema_refuses_what_the_parameter_does_not_take(kind, sent):
    def tool(value: kind): ...

    assert not Checker(signature_of(tool).model_input_schema).accepts({"value": sent})


def test_a_nested_object_stays_open_only_if_its_author_says_so():
    class Loose(BaseModel, extra="ignore"):
        a: int = 0

    class Free(BaseModel, extra="allow"):
        a: int = 0

    def tool(loose: Loose, free: Free): ...

    assert Checker(signature_of(tool).model_input_schema).accepts({"loose": {"b": 1}, "free": {"b": 1}})


def test_marked_fields_are_found_on_every_level():
    def tool(
        *,
        login: Login,
        tokens: dict[str, Annotated[str, Sensitive]],
        secret: SecretStr | None,
        roots: list[Path],
        page: AnyUrl,
        target: Annotated[str | None, UrlArg],
        files: list[Annotated[str, PathArg]],
        script: Annotated[list[str], CommandArg],
    ): ...

    found = signature_of(tool)
    assert found.fields[Sensitive] == ("tokens", "secret", "password")
    assert found.fields[PathArg] == ("roots", "files")
    assert found.fields[UrlArg] == ("page", "target")
    assert found.fields[CommandArg] == ("script",)
    assert found.model_input_schema["properties"]["files"]["items"] == {"type": "string", "x-agenttool": "path"}
    assert "x-sensitive" not in str((found.model_input_schema, found.runtime_input_schema, found.output_schema))


def test_the_default_of_a_sensitive_field_is_in_no_schema():
    def tool(login: Login = Login("u"), key: Annotated[str, Sensitive] = "sk-1"): ...  # noqa: B008

    found = signature_of(tool)
    assert found.defaults == {}
    assert "hunter2" not in str(found)
    assert "sk-1" not in str(found)


def test_the_model_and_the_runtime_schema_differ_by_exactly_the_internal_fields():
    def tool(tree: Tree, actor: Annotated[str, Internal], trace: Annotated[str | None, Internal] = None): ...

    found = signature_of(tool)
    model, runtime = found.model_input_schema, found.runtime_input_schema
    assert found.fields[Internal] == ("actor", "trace", "tenant")
    assert {name for name, _ in properties_of(model)} == {"tree", "name", "children"}
    assert model["required"] == ["tree"]
    assert runtime["required"] == ["tree", "actor"]
    assert runtime["properties"]["actor"] == {"type": "string", "visibility": "internal"}
    assert runtime["$defs"]["Tree"]["properties"]["tenant"]["visibility"] == "internal"
    assert found.defaults == {"trace": None}
    assert Checker(runtime).accepts({"tree": {"name": "r", "tenant": "t"}, "actor": "a"})
    assert not Checker(model).accepts({"tree": {"name": "r"}, "actor": "a"})


def test_a_name_that_is_internal_here_and_open_there_is_refused():
    def tool(tree: Tree, tenant: str): ...

    with pytest.raises(ConfigError, match=r"field 'tenant' in the input of tool\(\) is internal in one place"):
        signature_of(tool)


@pytest.mark.parametrize("kind", [Context, Special, Context | None, Annotated[Context, "here"], "Context"])
def test_the_context_is_no_argument(kind):
    def tool(name: str, context: kind): ...

    found = signature_of(tool, context_type=Context)
    assert found.context_parameter == "context"
    assert list(found.model_input_schema["properties"]) == ["name"]


def test_a_function_has_one_context():
    def tool(a: Context, b: Context): ...

    with pytest.raises(ConfigError, match="two context parameters, 'a' and 'b'"):
        signature_of(tool, context_type=Context)


def test_the_nearest_words_explain_a_parameter():
    def tool(
        field: Annotated[str, Field(description="from the field"), "ignored"],
        doc: Annotated[str, Doc("from the doc")],
        text: Annotated[Tree, "from the text"],
        plain: str,
        from_: Annotated[str, Field(alias="from")] = "here",
    ):
        """Do it.

        :param field: from the docstring
        :param doc: from the docstring
        :param plain: from the docstring
        :param from_: where from
        """

    found = signature_of(tool)
    properties = found.model_input_schema["properties"]
    assert {name: inner["description"] for name, inner in properties.items()} == {
        "field": "from the field",
        "doc": "from the doc",
        "text": "from the text",
        "plain": "from the docstring",
        "from": "where from",
    }
    assert found.description == "Do it."
    assert found.arguments({"from": "there"}) == {"from_": "there"}


class Toolbox:
    """Tools that share something."""

    def method(self, a: int) -> None:
        """Use it."""

    @staticmethod
    def still(a: int) -> None: ...

    @classmethod
    def of_class(cls, a: int) -> None: ...

    async def __call__(self, a: int) -> None: ...


async def stream(a: int) -> AsyncIterator[dict[str, int]]:
    yield {"a": a}


def steps(a: int) -> Iterator[Tree]:
    yield Tree(name=str(a))


class Logged:
    def __init__(self, function):
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        """Log it."""


@functools.wraps(steps)
def wrapped(*args, **kwargs):
    return steps(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "name", "kind", "description"),
    [
        (Toolbox().method, "method", "function", "Use it."),
        (Toolbox.still, "still", "function", ""),
        (Toolbox.of_class, "of_class", "function", ""),
        (Toolbox(), "Toolbox", "coroutine", "Tools that share something."),
        (functools.partial(Toolbox()), "Toolbox", "coroutine", "Tools that share something."),
        (functools.lru_cache(steps), "steps", "function", ""),
        (Logged(Toolbox().method), "method", "function", "Use it."),
        (stream, "stream", "async_generator", ""),
        (steps, "steps", "generator", ""),
        (wrapped, "steps", "function", ""),
    ],
)
def test_everything_that_can_be_called_by_name_is_read(function, name, kind, description):
    found = signature_of(function)
    assert (found.name, found.kind, found.description) == (name, kind, description)
    assert found.model_input_schema["properties"] == {"a": {"type": "integer"}}
    assert found.output_schema is None


def test_what_a_partial_has_filled_in_is_out_of_the_models_sight():
    def send(sender: str, to: str, key: str, text: str = "hi"): ...

    found = signature_of(functools.partial(functools.partial(send, "me"), key="sk-1"))
    assert list(found.model_input_schema["properties"]) == ["to", "text"]
    assert "sk-1" not in str(found)


class Report(BaseModel):
    title: str
    trees: list[Login]


@pytest.mark.parametrize(
    ("returns", "kind"),
    [(Report, "object"), (Login, "object"), (Box, "object"), (list[str], "array"), (dict[str, int], "object"), (Report | None, None),
     (tuple[int, str], "array"), ("Report", "object")],
)  # fmt: skip
def test_a_structured_return_value_has_a_schema(returns, kind):
    def tool() -> returns: ...

    found = signature_of(tool).output_schema
    assert found.get("type") == kind
    assert "x-sensitive" not in str(found)
    Checker(found)


@pytest.mark.parametrize(
    "returns",
    [str, None, Any, object, bytes, int, dt.date, Color, str | Report, Iterator[Report], Context, msgspec.Struct],
)
def test_text_plain_values_streams_and_strangers_have_no_output_schema(returns):
    def tool() -> returns: ...

    assert signature_of(tool).output_schema is None


def test_odd_names_are_preserved():
    def tool(*, größe: int, 数: int, schema: int, model_config: int, _private: int, self: int = 1): ...  # noqa: N803, PLC2401

    names = ["größe", "数", "schema", "model_config", "_private", "self"]
    found = signature_of(tool)
    assert list(found.model_input_schema["properties"]) == names
    assert found.integer_fields == set(names)


def test_reading_a_signature_is_quiet(caplog, recwarn):
    with caplog.at_level(logging.DEBUG):
        signature_of(read_file)
    assert not caplog.records
    assert not recwarn.list


def test_views_and_marks_do_not_load_what_only_signatures_need():
    script = (
        "import sys, agenttool.schema.views, agenttool.schema.markers, agenttool.schema.compile; print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-s", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pydantic", "griffe"} & set(loaded)
