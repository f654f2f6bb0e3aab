"""Tools from a schema and a function, a Pydantic model, the methods of an object, or a tool object of another library.

Other libraries are recognized by the attributes of their objects, so that none of them is imported.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol, Unpack, cast, runtime_checkable

from agenttool.adapters.python.context import Context
from agenttool.adapters.python.declare import FunctionTool, declare_function, declare_signature
from agenttool.adapters.python.options import ToolOptions
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError, RecordError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema, is_plain
from agenttool.schema.signature import Signature, filled_parameters, kind_of, normal_form_of_model
from agenttool.schema.signature.conversion import COPY
from agenttool.schema.traverse import members

log = logging.getLogger("agenttool.tools")

McpCall = Callable[[str, JsonObject], Awaitable[object]]
"""Calls a tool of an MCP server by name, such as `session.call_tool`."""

_WRAPPERS = ("parameters", "input_schema", "inputSchema", "function", "args_schema")
_COMPOSED = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"})
"""Keywords that can define fields elsewhere than in `properties`."""

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


@runtime_checkable
class _Model(Protocol):
    """A class of Pydantic models."""

    def model_json_schema(self) -> JsonObject: ...
    def model_validate(self, obj: object) -> object: ...


def make_tool(
    name: str, schema: JsonObject, function: Callable[..., object], /, **options: Unpack[ToolOptions]
) -> DeclaredTool:
    """Declare a tool from its name, its input schema and a function that gets the fields as keyword arguments.

    The schema allows no other fields, unless it says so. Parameters that are annotated with `Context`, or marked with
    `Inject`, are filled by the runtime. The options are those of `tool`.

    Raises:
        ConfigError: the name, the schema, the function or an option is invalid, or the function does not accept what
            the schema allows.
    """
    if not isinstance(cast("object", name), str):
        raise ConfigError(f"the name of a tool must be text, got {name!r}; pass make_tool(name, schema, function)")
    if not isinstance(cast("object", schema), Mapping):
        raise ConfigError(f"the schema of {name!r} must be an object, got {schema!r}; for no parameters pass {{}}")
    if not callable(function):
        raise ConfigError(f"{name!r} must have a function, got {function!r}; pass one that can be called")
    given = _checked_schema(name, schema)
    try:
        accepted = inspect.signature(function)
    except (ValueError, TypeError):
        accepted = None  # a builtin function may have no readable signature
    parameters = () if accepted is None else accepted.parameters.values()
    context_parameter, injected = filled_parameters(function, parameters, context_type=Context)
    if accepted is not None:
        by_caller = [each for each in parameters if each.name not in {context_parameter, *injected}]
        try:
            _bind(given, accepted.replace(parameters=by_caller))
        except TypeError as error:
            called = getattr(function, "__name__", type(function).__name__)
            raise ConfigError(
                f"{called}() does not fit the schema of {name!r}: {error}; declare a parameter for each field, with a"
                " default unless the field is required, or add **fields"
            ) from None
    signature = Signature(
        name=name,
        description=inspect.getdoc(function) or "",
        model_input_schema=given,
        context_parameter=context_parameter,
        injected=injected,
        arguments=COPY,
        kind=kind_of(inspect.unwrap(function)),
    )
    return declare_signature(function, signature, options)


def _checked_schema(name: str, given: Mapping[str, Json]) -> JsonObject:
    """Return the schema of a tool's input, which accepts no other fields unless it says so.

    Raises:
        ConfigError: it is no JSON Schema of an object, or requires a field that it does not allow.
    """
    schema: JsonObject = {"type": "object", "additionalProperties": False, **given}
    if schema["type"] != "object":
        raise _invalid(name, f"its type is {schema['type']!r}", "arguments have names, so write an object")
    if "properties" not in schema and not _COMPOSED & schema.keys():
        _reject_other_forms(name, given)
    try:
        if not is_plain(schema):
            compile_schema(schema)
    except RecordError as error:
        raise ConfigError(f"the schema of {name!r} is invalid: {error}") from error
    required, fields = schema.get("required"), members(schema, "properties")
    if isinstance(required, list) and schema["additionalProperties"] is False and not _COMPOSED & schema.keys():
        for each in required:
            if each not in fields:
                advice = suggestion(str(each), fields) if fields else "add it to the properties"
                raise _invalid(name, f"it requires the field {each!r}, which it does not define", advice)
    return schema


def _reject_other_forms(name: str, given: Mapping[str, Json]) -> None:
    """Reject a declaration of another library, and fields without `properties` around them."""
    inner = next((each for each in _WRAPPERS if isinstance(given.get(each), dict)), None)
    if inner is not None:
        raise _invalid(name, "it is the declaration of a whole tool", f"pass its member {inner!r}")
    fields = [each for each, value in given.items() if isinstance(value, dict) and value.get("type") in _TYPES]
    if fields:
        advice = f'write {{"properties": {{{fields[0]!r}: ...}}}}'
        raise _invalid(name, f"the field {fields[0]!r} is not in its properties", advice)


def _bind(schema: JsonObject, accepted: inspect.Signature) -> None:
    """Check that a function can be called with all fields of a schema, and with the required fields alone.

    Raises:
        TypeError: it cannot.
    """
    is_composed = bool(_COMPOSED & schema.keys())
    is_open = schema["additionalProperties"] is not False or "patternProperties" in schema
    fields: list[str] = [*members(schema, "properties"), *(["further fields"] if is_open and not is_composed else ())]
    accepted.bind_partial(**dict.fromkeys(fields))
    if not is_composed:
        accepted.bind(**dict.fromkeys(cast("list[str]", schema.get("required", []))))


def _invalid(name: str, problem: str, advice: str) -> ConfigError:
    return ConfigError(f"the schema of {name!r} is invalid: {problem}; {advice}")


def tools_from(thing: object, *, call: McpCall | None = None, **options: Unpack[ToolOptions]) -> list[DeclaredTool]:
    """Declare the tools that an object of another kind describes; `options` are those of `@tool`, for each of them.

    Args:
        thing: a Pydantic model class, whose fields are the arguments and whose `__call__` runs; a tool of LangChain; a
            tool of an MCP server, with `call`; or an object, whose public methods with a docstring are tools. A
            warning in the log names the methods that have none.
        call: how to call the MCP server, such as `session.call_tool`.
        **options: declare the facts here, such as `read_only`: what a foreign object claims is not trusted.

    Raises:
        ConfigError: the object describes no tool.
    """
    if isinstance(thing, type) and isinstance(thing, _Model):
        return [_from_model(thing, options)]
    schema = getattr(thing, "inputSchema", None) or getattr(thing, "input_schema", None)
    if isinstance(schema, Mapping):
        return [_from_mcp(thing, cast("JsonObject", schema), call, options)]
    if hasattr(thing, "ainvoke") and hasattr(thing, "args_schema"):
        return [_from_langchain(thing, options)]
    return _from_methods(thing, options)


def _named(thing: object, options: ToolOptions) -> tuple[str, ToolOptions]:
    """Return the name of a tool object, and the options with its description."""
    name = options.get("name", getattr(thing, "name", None) or getattr(thing, "__name__", ""))
    description = options.get("description") or getattr(thing, "description", None) or inspect.getdoc(thing) or name
    return name, {**options, "name": name, "description": str(description)}


def _from_model(model: _Model, options: ToolOptions) -> DeclaredTool:
    name, given = _named(model, options)

    def run(**fields: object) -> object:
        validated = model.model_validate(fields)
        return validated() if callable(validated) else validated

    return _from_schema(name, model, run, given)


def _from_schema(name: str, schema: object, run: Callable[..., object], options: ToolOptions) -> DeclaredTool:
    """Declare a tool from its function, and a model of its arguments or their JSON Schema, without its title."""
    found = schema.model_json_schema() if isinstance(schema, _Model) else cast("JsonObject", schema or {})
    own = {name: value for name, value in found.items() if name not in ("title", "description")}
    made = make_tool(name, own, run, **options)
    return replace(made, validated=normal_form_of_model(schema)) if isinstance(schema, _Model) else made


def _from_langchain(tool: object, options: ToolOptions) -> DeclaredTool:
    name, given = _named(tool, options)
    invoke = cast("Callable[[JsonObject], Awaitable[object]]", getattr(tool, "ainvoke", None))

    async def run(**fields: object) -> object:
        return await invoke(cast("JsonObject", fields))

    return _from_schema(name, getattr(tool, "args_schema", None), run, given)


def _from_mcp(tool: object, schema: JsonObject, call: McpCall | None, options: ToolOptions) -> DeclaredTool:
    name, given = _named(tool, options)
    if call is None:
        raise ConfigError(f"the MCP tool {name!r} cannot run without its server; pass call=session.call_tool")
    native = str(getattr(tool, "name", name))

    async def run(**fields: object) -> object:
        result = await call(native, cast("JsonObject", fields))
        texts = [getattr(each, "text", None) for each in getattr(result, "content", None) or ()]
        text = "\n".join(each for each in texts if isinstance(each, str))
        if getattr(result, "isError", False) or getattr(result, "is_error", False):
            raise RuntimeError(text or f"the MCP tool {native!r} failed")
        structured: object = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
        return text if structured is None else structured

    return make_tool(name, schema, run, **given)


def _from_methods(thing: object, options: ToolOptions) -> list[DeclaredTool]:
    """Declare the public methods of an object that have a docstring; those that are decorated keep their options."""
    if isinstance(thing, type):
        raise ConfigError(f"{thing.__name__} is a class; pass an object of it, as in tools_from({thing.__name__}())")
    owner = type(thing)
    found: list[DeclaredTool] = []
    undescribed: list[str] = []
    for name in dir(owner):
        method: object = inspect.getattr_static(owner, name)
        if name.startswith("_"):
            continue
        if isinstance(method, FunctionTool):
            raise ConfigError(f"{owner.__name__}.{name} is decorated; leave @tool off, and pass its options here")
        if not (inspect.isfunction(method) or isinstance(method, staticmethod | classmethod)):
            continue
        if method.__doc__:
            found.append(declare_function(getattr(thing, name), {"namespace": owner.__name__.lower(), **options}))
        else:
            undescribed.append(name)
    if not found:
        raise ConfigError(
            f"{owner.__name__} describes no tool; pass a Pydantic model class, a tool object, or an object whose"
            " public methods have docstrings"
        )
    if undescribed:
        advice = "add one, or begin the name with an underscore"
        names = ", ".join(undescribed)
        log.warning("tools_from left out methods of %s without a docstring: %s; %s", owner.__name__, names, advice)
    return found
