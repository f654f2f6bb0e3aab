"""The conversion of operations to declared tools: names, texts, input schemas and facts."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import cast
from urllib.parse import urlsplit

from agenttool.adapters.openapi.document import DocumentError, absolute_url, object_of, place_of
from agenttool.adapters.openapi.operations import (
    FORM,
    IDEMPOTENT_METHODS,
    MULTIPART,
    READ_METHODS,
    ApiOperation,
    ApiParameter,
    RequestBody,
    media_type,
)
from agenttool.adapters.openapi.pages import has_pages
from agenttool.adapters.openapi.schemas import FILE_SCHEMA, MAX_SCHEMA_BYTES, SchemaConverter, is_binary, plain_text
from agenttool.adapters.openapi.security import SchemeUse, SecuritySchemes
from agenttool.adapters.openapi.settings import OpenApiService, ToolFacts
from agenttool.adapters.source_settings import credentials_in
from agenttool.codec import write_own
from agenttool.config.table import members_of
from agenttool.ports.deferred import DeferredTool
from agenttool.ports.executor import Executor
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    AccessKind,
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
    InterfaceId,
    InterruptBehavior,
    Json,
    JsonObject,
    Lifecycle,
    OpenApiMapping,
    OutputContract,
    Part,
    PermissionProfile,
    PermissionProfileId,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    WriteEffect,
)
from agenttool.records import replace as replace_record

MAX_NAME = 44
"""Clients add a prefix such as `mcp__agenttool__` to a name, and providers of models accept 64 characters."""

MAX_DESCRIPTION = 600
MAX_MEMBERS = 200
"""A body with more members than this is one argument."""

MAX_PARAMETERS = 1000

BODY, PAGES = "body", "pages"
_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_ARGUMENT = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_ARGUMENT = 64
_COMPOSED = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "$ref", "const", "enum"})
_NO_FACTS = ToolFacts()
_VARIABLE = re.compile(r"\{([^{}]+)\}")


class OperationTool(Part, frozen=True, kw_only=True):
    """One operation as a tool: its name and schema, and where each argument belongs in a request.

    Attributes:
        parameters: the parameters by the names of arguments.
        fixed: parameters with a single possible value, and that value.
        members: members of the body by the names of arguments; None if the body is one argument.
        body_argument: the name of that argument.
        is_paged: whether the argument `pages` follows pages.
        credentials: the names of the credentials that requests need.
        missing: security schemes that the operation needs and the settings do not have.
    """

    operation: ApiOperation
    name: str
    base_url: str
    parameters: Mapping[str, ApiParameter]
    fixed: tuple[tuple[ApiParameter, Json], ...]
    members: Mapping[str, str] | None
    body_argument: str
    schema: JsonObject
    is_paged: bool
    uses: tuple[SchemeUse, ...]
    credentials: tuple[str, ...]
    missing: tuple[str, ...]
    facts: ToolFacts
    description: str

    def mapping(self, schemes: Iterable[str]) -> OpenApiMapping:
        """Return the operation as records name it, with some of its security schemes."""
        return OpenApiMapping(
            operation_id=self.operation.operation_id,
            method=self.operation.method,
            path=self.operation.path,
            server_url=self.base_url,
            security_scheme_refs=tuple(schemes) or None,
        )


def tool_names(operations: Sequence[ApiOperation]) -> list[str]:
    """Return a name for each operation: unique, stable over imports, at most `MAX_NAME` characters."""
    found: list[str] = []
    taken: set[str] = set()
    for each in operations:
        words = each.operation_id or f"{each.method.lower()} {each.path}"
        name = _NOT_NAME.sub("_", words).strip("_-") or "operation"
        if len(name) > MAX_NAME or not words.isascii() or name.lower() in taken:
            digest = hashlib.sha256(each.key.encode()).hexdigest()[:6]
            name = f"{name[: MAX_NAME - 7].rstrip('_-')}_{digest}"
        taken.add(name.lower())
        found.append(name)
    return found


def matches(pattern: str, operation: ApiOperation, name: str) -> bool:
    """Return whether a pattern of the settings matches an operation."""
    if pattern.startswith("tag:"):
        return any(fnmatchcase(each.lower(), pattern[4:].lower()) for each in operation.tags)
    subjects = (name, operation.operation_id or "", operation.key)
    return any(fnmatchcase(each, pattern) for each in subjects)


def facts_of(service: OpenApiService, operation: ApiOperation, name: str) -> ToolFacts:
    """Return what the settings state about an operation; later patterns take precedence."""
    if not service.tools:
        return _NO_FACTS
    found = _NO_FACTS
    for pattern, facts in service.tools.items():
        if matches(pattern, operation, name):
            stated = {key: value for key, value in members_of(facts).items() if value is not None}
            found = replace_record(found, **stated)
    return found


def base_url(service: OpenApiService, server: JsonObject | None, place: str) -> str:
    """Return the URL to which the paths of operations are appended; without a server, that of the document.

    Raises:
        DocumentError: the document and the settings name no host.
    """
    if service.server is not None:
        return service.server.rstrip("/")
    server = {"url": "/"} if server is None else server
    variables = object_of(server.get("variables")).items()
    defaults = {name: object_of(each).get("default") for name, each in variables}
    values = {name: "" if each is None else str(each) for name, each in defaults.items()} | service.variables
    url = _VARIABLE.sub(lambda each: values.get(each[1], each[0]), str(server.get("url") or "/"))
    if "://" not in place and url.startswith("//"):
        url = f"https:{url}"
    if "://" not in place and not url.startswith(("http://", "https://")):
        raise DocumentError(f'its server {url!r} has no host; write server = "https://…" in the settings')
    found = absolute_url(place, url).rstrip("/")
    if "@" in urlsplit(found).netloc:
        raise DocumentError(
            "its server URL has a user name; write server without it in the settings, and security or headers for it"
        )
    if "?" in found or "#" in found:
        raise DocumentError(f"its server {url!r} has a query or a fragment; write server and query in the settings")
    if not urlsplit(found).hostname or _VARIABLE.search(urlsplit(found).netloc):
        raise DocumentError(f"its server {url!r} is not complete; write server or variables in the settings")
    return found


class _Argument(Part, frozen=True, kw_only=True):
    """A parameter as an argument of a tool; tools that have the parameter share it.

    Attributes:
        name: the name of the argument, unless another one has it.
        schema: None if the settings supply the parameter.
        names: the definitions that its schema refers to.
        size: of its schema.
        constant: its single possible value; such a parameter needs no argument.
    """

    parameter: ApiParameter
    name: str
    schema: JsonObject | None = None
    names: tuple[str, ...] = ()
    size: int = 0
    constant: Json = None


class _Arguments:
    """The arguments of a tool that are parameters, as they are collected."""

    def __init__(self) -> None:
        self.properties: JsonObject = {}
        self.required: list[Json] = []
        self.parameters: dict[str, ApiParameter] = {}
        self.fixed: list[tuple[ApiParameter, Json]] = []
        self.names: list[str] = []
        self.size = 0

    def add(self, each: _Argument) -> None:
        """Add a parameter, unless a request needs no argument for it."""
        parameter, schema = each.parameter, each.schema
        if schema is None:
            return
        if each.constant is not None:
            self.fixed.append((parameter, each.constant))
            return
        name = each.name
        if name in self.properties:
            name = _argument_name(name, parameter.where, self.properties)
        self.properties[name], self.parameters[name] = schema, parameter
        self.names += each.names
        self.size += each.size
        if parameter.is_required:
            self.required.append(name)


class _Input(Part, frozen=True, kw_only=True):
    """The input of a tool, and where its arguments belong; operations with the same parameters and body share it."""

    schema: JsonObject
    parameters: Mapping[str, ApiParameter]
    fixed: tuple[tuple[ApiParameter, Json], ...]
    members: Mapping[str, str] | None
    body_argument: str
    is_paged: bool


class ToolMaker:
    """Makes tools of the operations of one document."""

    def __init__(
        self, service: OpenApiService, place: str, schemas: SchemaConverter, security: SecuritySchemes
    ) -> None:
        """Take the settings, the place of the document, and its converted parts."""
        self._service = service
        self._place = place
        self._schemas = schemas
        self._security = security
        self._headers = {each.lower() for each in (*service.headers, service.idempotency_header or "")}
        texts = (*service.headers.values(), *service.query.values())
        self._credentials = tuple(sorted({name for text in texts for name in credentials_in(text)}))
        self._arguments: dict[int, _Argument] = {}
        self._inputs: dict[tuple[int, int, bool, frozenset[tuple[str, str]]], _Input] = {}
        self._urls: dict[int, str] = {}

    def make(self, operation: ApiOperation, name: str) -> OperationTool:
        """Return the tool of an operation.

        Raises:
            DocumentError: no request can be made for it.
        """
        keys = self._security.keys_of(operation)
        sources = id(operation.parameters), id(operation.body), operation.method == "GET", keys
        found = self._inputs.get(sources)
        if found is None:
            found = self._inputs[sources] = self._input_of(operation, keys)
        url = self._url_of(operation.server)
        uses, missing = self._security.choose(operation, url)
        facts = facts_of(self._service, operation, name)
        credentials = self._credentials
        if uses:
            credentials = tuple(sorted({*credentials, *(name for each in uses for name in each.credentials)}))
        return OperationTool(
            operation=operation,
            name=facts.name or name,
            base_url=url,
            parameters=found.parameters,
            fixed=found.fixed,
            members=found.members,
            body_argument=found.body_argument,
            schema=found.schema,
            is_paged=found.is_paged,
            uses=uses,
            credentials=credentials,
            missing=missing,
            facts=facts,
            description=_description_of(operation),
        )

    def _input_of(self, operation: ApiOperation, keys: frozenset[tuple[str, str]]) -> _Input:
        if len(operation.parameters) > MAX_PARAMETERS:
            count = len(operation.parameters)
            raise DocumentError(f"it has {count} parameters, more than {MAX_PARAMETERS}; remove some with an overlay")
        arguments = _Arguments()
        for parameter in operation.parameters:
            if keys and (parameter.where, parameter.name.lower()) in keys:
                continue
            known = self._arguments.get(id(parameter))
            if known is None:
                known = self._arguments[id(parameter)] = self._argument_of(parameter)
            arguments.add(known)
        properties, required = arguments.properties, arguments.required
        body_argument = _argument_name(BODY, "json", properties)
        members, names, size = self._add_body(operation, properties, required, body_argument)
        is_paged = operation.method == "GET" and has_pages(operation.parameters) and PAGES not in properties
        if is_paged:
            limit = self._service.max_pages
            note = f"How many pages to fetch and join, at most {limit}."
            properties[PAGES] = {"type": "integer", "minimum": 1, "maximum": limit, "description": note}
        schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        if arguments.names or names:
            schema["$defs"] = self._schemas.definitions([*arguments.names, *names], arguments.size + size)
        return _Input(
            schema=schema,
            parameters=arguments.parameters,
            fixed=tuple(arguments.fixed),
            members=members,
            body_argument=body_argument,
            is_paged=is_paged,
        )

    def _url_of(self, server: JsonObject | None) -> str:
        if id(server) not in self._urls:
            self._urls[id(server)] = base_url(self._service, server, self._place)
        return self._urls[id(server)]

    def _is_given(self, parameter: ApiParameter) -> bool:
        """Return whether the settings supply a parameter."""
        is_header = parameter.where == "header" and parameter.name.lower() in self._headers
        return is_header or (parameter.where == "query" and parameter.name in self._service.query)

    def _argument_of(self, parameter: ApiParameter) -> _Argument:
        name = _argument_name(parameter.name, parameter.where, {})
        if self._is_given(parameter):
            return _Argument(parameter=parameter, name=name)
        converted, names = self._schemas.convert(parameter.schema, parameter.pointer)
        schema = object_of(converted)
        if parameter.description:
            schema = {**schema, "description": plain_text(parameter.description, 200)}
        constant = _constant(schema) if parameter.is_required else None
        size = len(write_own(schema))
        return _Argument(parameter=parameter, name=name, schema=schema, names=names, size=size, constant=constant)

    def _add_body(
        self, operation: ApiOperation, properties: JsonObject, required: list[Json], argument: str
    ) -> tuple[dict[str, str] | None, tuple[str, ...], int]:
        """Add the arguments of the body: its members if it is a simple object, and otherwise one argument."""
        body = operation.body
        if body is None:
            return None, (), 0
        schema, names = self._body_schema(body)
        length = len(write_own(schema))
        if length > MAX_SCHEMA_BYTES:
            schema, length = _pruned(schema), MAX_SCHEMA_BYTES // 2
        own = object_of(schema.get("properties"))
        needed = cast("list[Json]", schema.get("required", []))
        is_simple = own and not _COMPOSED & schema.keys() and len(own) <= MAX_MEMBERS
        is_open = isinstance(schema.get("additionalProperties"), dict) or schema.get("additionalProperties") is True
        is_free = own.keys().isdisjoint((*properties, PAGES)) and all(map(_is_argument, own))
        if is_simple and not is_open and is_free and (body.is_required or not needed):
            properties.update(own)
            required += [each for each in needed if each in own]
            return {each: each for each in own}, names, length
        note = plain_text(body.description or str(schema.get("description", "")), 200)
        properties[argument] = {**schema, "description": note} if note else schema
        if body.is_required:
            required.append(argument)
        return None, names, length

    def _body_schema(self, body: RequestBody) -> tuple[JsonObject, tuple[str, ...]]:
        kind = media_type(body.content_type)
        if kind == MULTIPART:
            return self._multipart_schema(body)
        if is_binary(body.schema) or kind == "application/octet-stream":
            return FILE_SCHEMA, ()
        if kind not in (FORM, "*/*") and "json" not in kind:
            return {"type": "string", "description": f"The body as text of type {kind}."}, ()
        converted, names = self._schemas.convert(self._schemas.unwrap(body.schema), place_of(body.schema, body.pointer))
        return object_of(converted), names

    def _multipart_schema(self, body: RequestBody) -> tuple[JsonObject, tuple[str, ...]]:
        native = self._schemas.joined(body.schema)
        converted, names = self._schemas.convert(native, place_of(body.schema, body.pointer))
        schema = object_of(converted)
        own = object_of(schema.get("properties"))
        own = {name: body.files.get(name, each) for name, each in own.items()}
        return {**schema, "properties": own} if own else schema, names


def _constant(schema: JsonObject) -> Json:
    values = schema.get("enum")
    if isinstance(values, list) and len(values) == 1:
        return values[0]
    return schema.get("const")


def _argument_name(name: str, where: str, taken: Mapping[str, object]) -> str:
    """Return the name of an argument that providers of models accept, and that no other argument has."""
    base = _NOT_ARGUMENT.sub("_", name).strip("_")[:_MAX_ARGUMENT] or where
    found, number = base, 2
    if found in taken:
        found = f"{base[: _MAX_ARGUMENT - 12]}_{where}"
    while found in taken:
        found, number = f"{base[: _MAX_ARGUMENT - 12]}_{number}", number + 1
    return found


def _is_argument(name: str) -> bool:
    return 0 < len(name) <= _MAX_ARGUMENT and not _NOT_ARGUMENT.search(name)


def _pruned(schema: JsonObject, depth: int = 3) -> JsonObject:
    """Return a schema without what is below some levels; it accepts at least the same values."""
    found: JsonObject = {}
    for word, value in schema.items():
        if isinstance(value, dict) and word == "properties":
            found[word] = {
                name: _pruned(each, depth - 1) if depth and isinstance(each, dict) else {}
                for name, each in value.items()
            }
        elif isinstance(value, dict):
            found[word] = _pruned(value, depth - 1) if depth else {}
        elif isinstance(value, list) and word in ("anyOf", "allOf", "oneOf", "prefixItems"):
            if depth:
                found[word] = [_pruned(each, depth - 1) if isinstance(each, dict) else each for each in value]
        else:
            found[word] = value
    return found


def declare(
    service: OpenApiService, tool: OperationTool, executor: Executor, *, later: DeferredTool | None = None
) -> DeclaredTool:
    """Return the declaration of a tool; the method counts as a fact only if the service is trusted."""
    operation, facts = tool.operation, tool.facts
    method = operation.method
    is_read_only = facts.read_only if facts.read_only is not None else service.trust and method in READ_METHODS
    is_destructive = facts.destructive if facts.destructive is not None else method == "DELETE" and not is_read_only
    tool_id = ToolId(f"tool_{service.name}.{tool.name}")
    interface_id, execution_id = InterfaceId(f"interface:{tool_id}"), ExecutionProfileId(f"execution:{tool_id}")
    permission_id = PermissionProfileId(f"permission:{tool_id}")
    origin = urlsplit(tool.base_url)
    return DeclaredTool(
        declaration=ToolDeclaration(
            tool_id=tool_id,
            namespace=service.name,
            name=tool.name,
            title=facts.title or plain_text(operation.summary, 100) or None,
            description=facts.description or tool.description,
            search_hint=_search_hint(operation),
            lifecycle=Lifecycle.DEPRECATED if operation.is_deprecated else Lifecycle.AVAILABLE,
            tool_kind=ToolKind.OPENAPI_OPERATION,
            input_contract=InputContract(model_input_schema=tool.schema, runtime_input_schema=tool.schema),
            output_contract=OutputContract(result_shape=operation.result_shape),
            interface_ref=interface_id,
            execution_profile_ref=execution_id,
            permission_profile_ref=permission_id,
            external_mappings=(tool.mapping(operation.schemes),),
            annotations=_annotations(operation),
        ),
        interface=ToolInterface(
            interface_id=interface_id,
            tool_id=tool_id,
            native_ids={"openapi": {"operation": operation.key}},
            is_read_only=is_read_only or None,
            is_destructive=True if is_destructive else False if is_read_only or facts.destructive is False else None,
            is_concurrency_safe=True if is_read_only else None,
            interrupt_behavior=InterruptBehavior.CANCEL,
            timeout_ms=round(service.timeout_s * 1000),
            required_credentials=tool.credentials or None,
        ),
        execution_profile=ExecutionProfile(
            execution_profile_id=execution_id,
            execution_kind=ExecutionKind.HTTP_API,
            supports_progress=True,
            supports_cancel=True,
            supports_timeout=True,
            supports_result_persistence=True,
            retry_semantics={"idempotent": _may_repeat(service, tool)},
        ),
        permission_profile=PermissionProfile(
            permission_profile_id=permission_id,
            risk_level=RiskLevel.HIGH if is_destructive else RiskLevel.LOW if is_read_only else RiskLevel.MEDIUM,
            access_kinds=(AccessKind.NETWORK, AccessKind.EXTERNAL_SEND),
            write_effects=(_effect(is_read_only=bool(is_read_only), is_destructive=bool(is_destructive)),),
            network_scope=f"{origin.scheme}://{origin.netloc.rpartition('@')[2]}",
            approval_required=True if is_destructive else None,
            approval_reason=f"it is a {method} request, which destroys things" if is_destructive else None,
        ),
        executor=executor,
        shared_state=None,  # a service that is reached over HTTP has several clients
        is_trusted=service.trust,
        later=later,
    )


def _may_repeat(service: OpenApiService, tool: OperationTool) -> bool:
    """Return whether the owner states that a request may run twice: by a fact, or by trust in its method."""
    if tool.facts.idempotent is not None:
        return tool.facts.idempotent
    return tool.facts.read_only is True or (service.trust and tool.operation.method in IDEMPOTENT_METHODS)


def _effect(*, is_read_only: bool, is_destructive: bool) -> WriteEffect:
    if is_read_only:
        return WriteEffect.NONE
    return WriteEffect.IRREVERSIBLE if is_destructive else WriteEffect.REMOTE_MUTATION


def _description_of(operation: ApiOperation) -> str:
    """Return the summary and the first sentences of the description."""
    summary = plain_text(operation.summary, 200)
    details = plain_text(operation.description, MAX_DESCRIPTION - len(summary))
    if not summary or details[: len(summary)].lower().startswith(summary.lower().rstrip(".")):
        return details or f"{operation.method} {operation.path}"
    end = "" if summary.endswith((".", "!", "?")) else "."
    return f"{summary}{end} {details}".strip()


def _search_hint(operation: ApiOperation) -> str:
    """Return the tags and the fixed parts of the path, and "read", which summaries seldom say."""
    parts = [part for part in operation.path.split("/") if part and part[0] != "{"]
    verb = ("read",) if operation.method in READ_METHODS else ()
    return " ".join(dict.fromkeys((*verb, *operation.tags, " ".join(parts)))).strip() or operation.key


def _annotations(operation: ApiOperation) -> JsonObject:
    """Return what no record has: the JSON pointer of the operation and its original request schemas."""
    native: JsonObject = {"pointer": operation.pointer, "tags": [*operation.tags]}
    if operation.parameters:
        native["parameters"] = operation.native_parameters
    if operation.body is not None:
        native["request_body"] = {"content_type": operation.body.content_type, "schema": operation.body.schema}
    if operation.security is not None:
        native["security"] = cast("list[Json]", operation.security)
    return {"openapi": native}
