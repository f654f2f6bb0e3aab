"""The conversion of operations to declared tools: names, texts, input schemas and facts."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast
from urllib.parse import urlsplit

from agenttool.adapters.openapi.document import DocumentError, absolute_url, origin_of
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
from agenttool.adapters.openapi.schemas import (
    FILE_SCHEMA,
    MAX_NOTE,
    MAX_SCHEMA_BYTES,
    Converted,
    SchemaConverter,
    is_binary,
    measured,
    plain_text,
    pruned,
)
from agenttool.adapters.openapi.security import SchemeUse, SecuritySchemes
from agenttool.adapters.openapi.settings import SERVER, SERVER_ADVICE, OpenApiService, ToolFacts
from agenttool.adapters.openapi.translate import has_pages
from agenttool.adapters.remote_tool import network_scope, remote_tool
from agenttool.adapters.source_settings import credentials_in
from agenttool.codec import list_of, object_of
from agenttool.config.table import members_of
from agenttool.ports.deferred import DeferredTool
from agenttool.ports.executor import Executor
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    ExecutionKind,
    InputContract,
    InterfaceId,
    InterruptBehavior,
    Json,
    JsonObject,
    Lifecycle,
    OpenApiMapping,
    OutputContract,
    Part,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
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
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_COMPOSED = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "$ref", "const", "enum"})
_NO_FACTS = ToolFacts()
_VARIABLE = re.compile(r"\{([^{}]+)\}")


@dataclass(slots=True, kw_only=True, eq=False)
class ToolInput:
    """The input of a tool, and where each argument belongs in a request.

    Attributes:
        parameters: the parameters by the names of arguments.
        fixed: parameters with a single possible value, and that value.
        members: the members of the body that are arguments; None if the body is one argument.
        body_argument: the name of that argument.
        is_paged: whether the argument `pages` follows pages.
    """

    schema: JsonObject = field(default_factory=dict[str, Json])
    parameters: dict[str, ApiParameter] = field(default_factory=dict[str, ApiParameter])
    fixed: list[tuple[ApiParameter, Json]] = field(default_factory=list[tuple[ApiParameter, Json]])
    members: tuple[str, ...] | None = None
    body_argument: str = BODY
    is_paged: bool = False

    def add(self, name: str, schema: Json, *, is_required: bool) -> None:
        """Add an argument."""
        object_of(self.schema["properties"])[name] = schema
        if is_required:
            list_of(self.schema.setdefault("required", [])).append(name)


class OperationTool(Part, frozen=True, kw_only=True):
    """One operation as a tool.

    Attributes:
        credentials: the names of the credentials that requests need.
        missing: security schemes that the operation needs and the settings do not have.
    """

    operation: ApiOperation
    name: str
    base_url: str
    input: ToolInput
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
    found = _NO_FACTS
    for pattern, facts in service.tools.items():
        if matches(pattern, operation, name):
            stated = {key: value for key, value in members_of(facts).items() if value is not None}
            found = replace_record(found, **stated)
    return found


def base_url(service: OpenApiService, servers: Sequence[JsonObject], place: str) -> str:
    """Return the URL to which the paths of operations are appended, of the first server, or else of the document.

    Raises:
        DocumentError: the document and the settings name no host.
    """
    if service.server is not None:
        return service.server.rstrip("/")
    server: JsonObject = servers[0] if servers else {}
    variables = object_of(server.get("variables")).items()
    defaults = {name: object_of(each).get("default") for name, each in variables}
    values = {name: "" if each is None else str(each) for name, each in defaults.items()} | service.variables
    url = _VARIABLE.sub(lambda each: values.get(each[1], each[0]), str(server.get("url") or "/"))
    found = absolute_url(place if "://" in place else "https:", url).rstrip("/")
    if "@" in urlsplit(found).netloc:  # its text may have a password
        raise DocumentError(f"its server has a user name, but it {SERVER_ADVICE}")
    if not SERVER.fullmatch(found):
        raise DocumentError(f"its server {url!r} {SERVER_ADVICE}")
    return found


class ToolMaker:
    """Makes tools of the operations of one document."""

    def __init__(
        self,
        service: OpenApiService,
        place: str,
        schemas: SchemaConverter,
        security: SecuritySchemes,
        servers: Sequence[JsonObject],
    ) -> None:
        """Take the settings, the place of the document, its converted parts, and the servers of all operations."""
        self._service = service
        self._place = place
        self._schemas = schemas
        self._security = security
        texts = (*service.headers.values(), *service.query.values())
        self._credentials = {name for text in texts for name in credentials_in(text)}
        self._converted: dict[ApiParameter, Converted] = {}
        self._own_url: str | None = None
        with suppress(DocumentError):
            self._own_url = base_url(service, servers, place)

    def make(self, operation: ApiOperation, name: str) -> OperationTool:
        """Return the tool of an operation.

        Raises:
            DocumentError: no request can be made for it.
        """
        url = base_url(self._service, operation.servers, self._place)
        uses, missing = self._security.choose(operation, url)
        credentials = self._credentials.union(name for each in uses for name in each.credentials)
        self._check_server(url, is_secret=bool(credentials or uses))
        facts = facts_of(self._service, operation, name)
        return OperationTool(
            operation=operation,
            name=facts.name or name,
            base_url=url,
            input=self._input_of(operation),
            uses=uses,
            credentials=tuple(sorted(credentials)),
            missing=missing,
            facts=facts,
            description=_description_of(operation),
        )

    def _input_of(self, operation: ApiOperation) -> ToolInput:
        if (count := len(operation.parameters)) > MAX_PARAMETERS:
            raise DocumentError(f"it has {count} parameters, more than {MAX_PARAMETERS}; exclude it")
        properties: JsonObject = {}
        found = ToolInput(schema={"type": "object", "properties": properties, "additionalProperties": False})
        parts: list[Converted] = []
        supplied = self._security.supplied(operation)
        for parameter in operation.parameters:
            if (parameter.where, parameter.name.lower()) in supplied:
                continue
            converted = self._convert(parameter)
            choices = list_of(converted.schema.get("enum"))
            constant = choices[0] if len(choices) == 1 else converted.schema.get("const")
            if parameter.is_required and constant is not None:
                found.fixed.append((parameter, constant))
                continue
            name = _argument_name(parameter.name, parameter.where, properties)
            found.add(name, converted.schema, is_required=parameter.is_required)
            found.parameters[name] = parameter
            parts.append(converted)
        found.body_argument = _argument_name(BODY, "json", properties)
        if operation.body is not None:
            parts.append(self._add_body(operation.body, found))
        has_several = operation.method == "GET" and has_pages(self._service, operation.parameters)
        if has_several and PAGES not in properties:
            found.is_paged, limit = True, self._service.max_pages
            note = f"How many pages to fetch and join, at most {limit}."
            properties[PAGES] = {"type": "integer", "minimum": 1, "maximum": limit, "description": note}
        names = [name for each in parts for name in each.names]
        if names:
            found.schema["$defs"] = self._schemas.definitions(names, sum(each.size for each in parts))
        return found

    def _convert(self, parameter: ApiParameter) -> Converted:
        if parameter not in self._converted:
            schema = self._schemas.convert(parameter.schema, parameter.pointer, parameter.description)
            self._converted[parameter] = schema
        return self._converted[parameter]

    def _check_server(self, url: str, *, is_secret: bool) -> None:
        """Check that credentials, headers and query parameters of the settings go only to the document's server.

        If the document names no server for all operations, that is the server of its first operation.

        Raises:
            DocumentError: they would go to another server.
        """
        self._own_url = self._own_url or url
        is_secret = is_secret or bool(self._service.headers or self._service.query)
        if is_secret and origin_of(url) != origin_of(self._own_url):
            raise DocumentError(
                f"its server {url!r} is not that of the document, {self._own_url!r}, which alone gets the credentials; "
                "for these operations add another source with include and server"
            )

    def _add_body(self, body: RequestBody, found: ToolInput) -> Converted:
        """Add the arguments of the body, and return its schema.

        The members of a simple object become arguments, and any other body is one argument.
        """
        converted = measured(self._body_schema(body))
        if converted.size > MAX_SCHEMA_BYTES:
            converted = Converted(pruned(converted.schema), MAX_SCHEMA_BYTES // 2, converted.names)
        schema, properties = converted.schema, object_of(found.schema["properties"])
        own, needed = object_of(schema.get("properties")), list_of(schema.get("required"))
        is_simple = own and not _COMPOSED & schema.keys() and len(own) <= MAX_MEMBERS
        is_open = schema.get("additionalProperties", False) is not False
        is_free = own.keys().isdisjoint((*properties, PAGES)) and all(map(_ARGUMENT.fullmatch, own))
        if is_simple and not is_open and is_free and (body.is_required or not needed):
            for name, each in own.items():
                found.add(name, each, is_required=name in needed)
            found.members = tuple(own)
        else:
            note = plain_text(body.description or str(schema.get("description", "")), MAX_NOTE)
            shown = {**schema, "description": note} if note else schema
            found.add(found.body_argument, shown, is_required=body.is_required)
        return converted

    def _body_schema(self, body: RequestBody) -> JsonObject:
        kind = media_type(body.content_type)
        if kind != MULTIPART and (is_binary(body.schema) or kind == "application/octet-stream"):
            return FILE_SCHEMA
        if kind not in (MULTIPART, FORM, "*/*") and "json" not in kind:
            return {"type": "string", "description": f"The body as text of type {kind}."}
        schema = self._schemas.convert(body.schema, body.pointer).schema
        schema = self._schemas.join(schema) if kind == MULTIPART else self._schemas.inline(schema)
        own = object_of(schema.get("properties"))
        shown = {name: body.files[name] for name in own if name in body.files}
        return {**schema, "properties": {**own, **shown}} if shown else schema


def _argument_name(name: str, where: str, taken: Mapping[str, object]) -> str:
    """Return the name of an argument that providers of models accept, and that no other argument has."""
    base = _NOT_ARGUMENT.sub("_", name).strip("_")[:_MAX_ARGUMENT] or where
    found, number = base, 2
    if found in taken:
        found = f"{base[: _MAX_ARGUMENT - 12]}_{where}"
    while found in taken:
        found, number = f"{base[: _MAX_ARGUMENT - 12]}_{number}", number + 1
    return found


def declare(
    service: OpenApiService, tool: OperationTool, executor: Executor, *, later: DeferredTool | None = None
) -> DeclaredTool:
    """Return the declaration of a tool; the method counts as a fact only if the service is trusted."""
    operation, facts = tool.operation, tool.facts
    method = operation.method
    is_read_only = facts.read_only if facts.read_only is not None else service.trust and method in READ_METHODS
    is_destructive = facts.destructive if facts.destructive is not None else method == "DELETE" and not is_read_only
    is_trusted_to_repeat = service.trust and method in IDEMPOTENT_METHODS
    tool_id = ToolId(f"tool_{service.name}.{tool.name}")
    schema = tool.input.schema
    return remote_tool(
        ToolDeclaration(
            tool_id=tool_id,
            namespace=service.name,
            name=tool.name,
            title=facts.title or plain_text(operation.summary, 100) or None,
            description=facts.description or tool.description,
            search_hint=_search_hint(operation),
            lifecycle=Lifecycle.DEPRECATED if operation.is_deprecated else Lifecycle.AVAILABLE,
            tool_kind=ToolKind.OPENAPI_OPERATION,
            input_contract=InputContract(model_input_schema=schema, runtime_input_schema=schema),
            output_contract=OutputContract(
                result_shape={status: _schemas_of(each) for status, each in operation.responses.items()}
            ),
            external_mappings=(tool.mapping(operation.schemes),),
            annotations=_annotations(operation),
        ),
        ToolInterface(
            interface_id=InterfaceId(f"interface:{tool_id}"),
            tool_id=tool_id,
            native_ids={"openapi": {"operation": operation.key}},
            is_read_only=is_read_only or None,
            is_destructive=True if is_destructive else False if is_read_only or facts.destructive is False else None,
            is_concurrency_safe=True if is_read_only else None,
            interrupt_behavior=InterruptBehavior.CANCEL,
            timeout_ms=round(service.timeout_s * 1000),
            required_credentials=tool.credentials or None,
        ),
        executor,
        kind=ExecutionKind.HTTP_API,
        is_idempotent=(facts.read_only is True or is_trusted_to_repeat)
        if facts.idempotent is None
        else facts.idempotent,
        network_scope=network_scope(tool.base_url),
        approval_reason=f"it is a {method} request, which destroys things",
        is_trusted=service.trust,
        later=later,
    )


def _schemas_of(response: JsonObject) -> JsonObject:
    """Return the schemas of a response by media type; references stay."""
    if "content" not in response and "$ref" in response:
        return {"$ref": response["$ref"]}
    content = object_of(response.get("content"))
    return {kind: each.get("schema", {}) for kind, each in content.items() if isinstance(each, dict)}


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
