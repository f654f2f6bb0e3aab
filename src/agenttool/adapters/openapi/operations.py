"""The operations of a document: each complete, or listed with the reason why it cannot be used."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypedDict, cast

from agenttool.adapters.openapi.document import DocumentError, References, decoded, list_of, object_of, place_of
from agenttool.adapters.openapi.schemas import file_members
from agenttool.adapters.openapi.shapes import (
    FLAG,
    OBJECT,
    OBJECTS,
    PART_IGNORED,
    PATH_SKIPPED,
    TEXT,
    TEXTS,
    Shape,
    SkippedPart,
    escape,
)
from agenttool.codec import RawJson, parse_items, read_own
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject, Part

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_METHODS_BEFORE_3_2 = METHODS[:-1]
_ADDITIONAL = "additionalOperations"
_PATH_MEMBERS = frozenset({"$ref", "summary", "description", "servers", "parameters"})
READ_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE", "QUERY")
IDEMPOTENT_METHODS = (*READ_METHODS, "PUT", "DELETE")
_LOCATIONS = ("path", "query", "header", "cookie", "querystring")
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that the specification says to ignore."""

_CLIENT_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "content-encoding", "accept-encoding", "connection", "keep-alive"}
    | {"te", "trailer", "upgrade", "expect", "proxy-authorization", "proxy-connection"}
)
"""Headers that the client writes: a caller who chose one could reach another host, or begin a second request."""

_RAW_MEMBERS = frozenset({*METHODS, "parameters"})
_NativeOperation = TypedDict(
    "_NativeOperation",
    {
        "operationId": str | None,
        "summary": str | None,
        "description": str | None,
        "tags": list[str] | None,
        "deprecated": bool | None,
        "servers": object,
        "security": list[dict[str, list[str]]] | None,
        "parameters": RawJson,
        "requestBody": RawJson,
        "responses": dict[str, RawJson] | None,
        "$ref": object,
    },
    total=False,
)
"""The members of an operation that are needed; the longest ones stay JSON texts."""


class _NativeMedia(TypedDict, total=False):
    schema: object


_NativeResponse = TypedDict("_NativeResponse", {"$ref": str, "content": dict[str, _NativeMedia] | None}, total=False)
_Security = list[dict[str, list[str]]]
_Response = tuple[JsonObject, JsonObject]
_Parameters = tuple[list[Json], tuple["ApiParameter", ...]]

_PLACEHOLDER = re.compile(r"\{([^{}]*)")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
    "querystring": ("form",),
}
"""The styles of each place; the first one is the default."""

_JSON_TYPES = ("application/json", "text/json")
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


_SERVERS = Shape(list, Shape(dict, members={"url": TEXT, "variables": OBJECTS}))
_SECURITY = Shape(list, Shape(dict, TEXTS))
_DOCUMENT = Shape(dict, members={"servers": _SERVERS, "security": _SECURITY, "tags": Shape(list, OBJECT)})
_PATH_ITEM = Shape(
    dict, members={"servers": _SERVERS, "summary": TEXT, "description": TEXT, "additionalOperations": OBJECT}
)
_OPERATION = Shape(
    dict,
    members={
        "operationId": TEXT,
        "summary": TEXT,
        "description": TEXT,
        "tags": TEXTS,
        "deprecated": FLAG,
        "servers": _SERVERS,
        "security": _SECURITY,
    },
)
_PARAMETER = Shape(
    dict,
    members={
        "description": TEXT,
        "required": FLAG,
        "style": TEXT,
        "explode": FLAG,
        "allowReserved": FLAG,
        "content": OBJECTS,
    },
)
_BODY = Shape(dict, members={"description": TEXT, "required": FLAG, "content": OBJECT})
_MEDIA = Shape(dict, members={"encoding": OBJECTS})
_RESPONSE = Shape(dict, members={"content": OBJECTS})


class ApiParameter(Part, frozen=True, kw_only=True):
    """One parameter.

    Attributes:
        where: `path`, `query`, `header`, `cookie`, or `querystring` for the whole query.
        schema: as the document has it.
        content_type: the media type that the value is encoded in; None for a style.
        pointer: the place of its schema.
    """

    name: str
    where: str
    style: str
    explode: bool
    is_required: bool
    allows_reserved: bool
    schema: Json
    description: str
    content_type: str | None = None
    pointer: str = ""


class RequestBody(Part, frozen=True, kw_only=True):
    """The body of a request in the media type that is sent.

    Attributes:
        encoding: how members of a form are encoded, by name.
        files: the members of a multipart form that are files, each with the schema that a caller sees.
        others: the other media types that the operation accepts.
        pointer: the place of its schema.
    """

    content_type: str
    schema: Json
    is_required: bool
    encoding: JsonObject
    description: str
    files: JsonObject
    others: tuple[str, ...] = ()
    pointer: str = ""


class ApiOperation(Part, frozen=True, kw_only=True):
    """One operation, with its references followed as far as a request needs.

    Attributes:
        key: method and path, unique in a document.
        pointer: its place in the document.
        security: the alternatives, each with its schemes and their scopes; None if the document has none.
        schemes: the names of the security schemes of all alternatives.
        native_parameters: its own parameters as the document has them.
        responses: its responses by status, as the document has them, with what is needed of their content.
        result_shape: for each status, the schemas of its responses by media type, as the document has them.
    """

    method: str
    path: str
    key: str
    pointer: str
    operation_id: str | None
    summary: str
    description: str
    tags: tuple[str, ...]
    is_deprecated: bool
    parameters: tuple[ApiParameter, ...]
    body: RequestBody | None
    servers: tuple[JsonObject, ...]
    security: _Security | None
    schemes: tuple[str, ...]
    native_parameters: list[Json]
    responses: Mapping[str, JsonObject]
    result_shape: JsonObject

    @property
    def server(self) -> JsonObject | None:
        """The server that requests go to; operations of a document mostly share one."""
        return self.servers[0] if self.servers else None


class OperationReader:
    """Reads the operations of one document; parts that several operations have, or refer to, are read once."""

    def __init__(self, references: References) -> None:
        """Take the document."""
        self._references = references
        self._version = str(references.root.get("openapi"))[:3]
        self._parameters: dict[bytes | str, tuple[Json, ApiParameter | None]] = {}
        self._lists: dict[tuple[bytes | None, bytes | None], _Parameters] = {}
        self._bodies: dict[bytes, RequestBody | None] = {}
        self._responses: dict[bytes, _Response] = {}
        self.skipped: list[SkippedPart] = []
        self._root = self._fit(_DOCUMENT, references.root, "")
        self._security = _security(self._root.get("security"))

    def _fit(self, shape: Shape, value: Json, pointer: str) -> JsonObject:
        """Return an object without parts that have another shape, which are reported."""
        return object_of(shape.fit(value, pointer, self.skipped.append))

    def _ignore(self, pointer: str, reason: str) -> None:
        """Report a part without which an operation is used."""
        self.skipped.append(SkippedPart(pointer, reason, PART_IGNORED))

    def read(self) -> list[ApiOperation]:
        """Return all usable operations; `skipped` has the others.

        Raises:
            DocumentError: the document has no paths.
        """
        paths = self._root.get("paths")
        if not isinstance(paths, dict):
            if paths is None and ("webhooks" in self._root or "components" in self._root):
                return []
            raise DocumentError("the document has no paths; name an OpenAPI or Swagger document", "/paths")
        found: list[ApiOperation] = []
        for path, item in paths.items():
            if path.startswith("x-"):
                continue
            found += self._path(path, item)
        return found

    def _path(self, path: str, value: Json) -> list[ApiOperation]:
        place = f"/paths/{escape(path)}"
        try:
            item = self._references.resolve(decoded(value, place), place)
            if item is not value:
                item = {**item, **{k: v for k, v in cast("JsonObject", value).items() if k != "$ref"}}
            if not item.keys() <= _RAW_MEMBERS:
                item = {name: each if name in _RAW_MEMBERS else decoded(each, place) for name, each in item.items()}
                item = self._fit(_PATH_ITEM, item, place)
        except DocumentError as error:
            self.skipped.append(SkippedPart(error.pointer, str(error), PATH_SKIPPED))
            return []
        found: list[ApiOperation] = []
        for pointer, method, native in self._methods_of(item, place):
            try:
                found.append(self._operation(path, method, self._native_operation(native, pointer), item, pointer))
            except DocumentError as error:
                self.skipped.append(SkippedPart(error.pointer or pointer, str(error)))
        return found

    def _methods_of(self, item: JsonObject, place: str) -> list[tuple[str, str, Json]]:
        """Return the operations of a path, each with its pointer and method; unknown members are reported."""
        is_3_2 = self._version >= "3.2"
        known = METHODS if is_3_2 else _METHODS_BEFORE_3_2
        found = [(f"{place}/{each}", each, item[each]) for each in known if each in item]
        if len(found) == len(item):
            return found
        for name in item.keys() - _PATH_MEMBERS:
            if name not in known and not name.startswith("x-") and not (is_3_2 and name == _ADDITIONAL):
                reason = f"a path of OpenAPI {self._version} has no {name!r}; its methods are {', '.join(known)}"
                self._ignore(f"{place}/{escape(name)}", reason)
        methods = {name.upper() for _, name, _ in found}
        for name, each in object_of(item.get(_ADDITIONAL)).items() if is_3_2 else ():
            pointer = f"{place}/{_ADDITIONAL}/{escape(name)}"
            if name.upper() in methods:
                self.skipped.append(SkippedPart(pointer, f"the path has the method {name.upper()} already; remove one"))
            else:
                methods.add(name.upper())
                found.append((pointer, name, each))
        return found

    def _native_operation(self, value: Json | RawJson, pointer: str) -> JsonObject:
        """Return the members of an operation; those with another shape are reported, and left out.

        Raises:
            DocumentError: it is no object, or cannot be used.
        """
        found = _shaped(value, _NativeOperation)
        if found is not None and "$ref" not in found:
            if "servers" in found:
                found["servers"] = _SERVERS.fit(found["servers"], f"{pointer}/servers", self.skipped.append)
            return found
        native = self._references.resolve(decoded(value, pointer), pointer)
        fault = native.get("x-agenttool-error")
        if isinstance(fault, str):
            raise DocumentError(fault, pointer)
        native = self._fit(_OPERATION, native, pointer)
        return {**native, "security": cast("Json", _security(native.get("security")))}

    def _operation(self, path: str, method: str, native: JsonObject, item: JsonObject, pointer: str) -> ApiOperation:
        get = native.get
        method = method.upper()
        security = cast("_Security | None", get("security"))
        security = self._security if security is None else security
        servers = get("servers") or item.get("servers") or self._root.get("servers")
        own, parameters = self._all_parameters(item.get("parameters"), get("parameters"), pointer)
        undeclared = _undeclared(path, parameters)
        responses, result_shape = self._all_responses(get("responses"), f"{pointer}/responses")
        return ApiOperation(
            method=method,
            path=path,
            key=f"{method} {path}",
            pointer=pointer,
            operation_id=_text(get("operationId")) or None,
            summary=_text(get("summary") or item.get("summary")),
            description=_text(get("description") or item.get("description")),
            tags=cast("tuple[str, ...]", tuple(list_of(get("tags")))),
            is_deprecated=get("deprecated") is True,
            parameters=(*parameters, *undeclared) if undeclared else parameters,
            body=self._body(get("requestBody"), f"{pointer}/requestBody"),
            servers=cast("tuple[JsonObject, ...]", tuple(list_of(servers))),
            security=security,
            schemes=tuple(dict.fromkeys(name for each in security for name in each)) if security else (),
            native_parameters=own,
            responses=responses,
            result_shape=result_shape,
        )

    def _all_parameters(self, shared: Json | RawJson, own: Json | RawJson, pointer: str) -> _Parameters:
        """Return the parameters of an operation as the document has them, and with those of its path.

        Lists with the same text are read once, unless a part must be reported for each.
        """
        if not isinstance(shared, RawJson | None) or not isinstance(own, RawJson | None):
            return self._read_parameters(shared, own, pointer)
        texts = None if shared is None else bytes(shared), None if own is None else bytes(own)
        known = self._lists.get(texts)
        if known is None:
            reports = len(self.skipped)
            known = self._read_parameters(shared, own, pointer)
            if len(self.skipped) == reports:
                self._lists[texts] = known
        return known

    def _read_parameters(self, shared: Json | RawJson, own: Json | RawJson, pointer: str) -> _Parameters:
        found: dict[tuple[str, str], ApiParameter] = {}
        natives: list[Json] = []
        for values, parent in ((shared, pointer.rpartition("/")[0]), (own, pointer)):
            listed = self._items(values, place := f"{parent}/parameters")
            pairs = [self._parameter_once(each, place, number) for number, each in enumerate(listed)]
            natives = [native for native, _ in pairs]
            found |= {(each.where, each.name): each for _, each in pairs if each is not None}
        return natives, tuple(found.values())

    def _items(self, value: Json | RawJson, pointer: str) -> Sequence[Json | RawJson]:
        """Return the items of a list; another value is reported, and has none."""
        if isinstance(value, RawJson):
            with suppress(RecordError):
                return parse_items(value)
        found = decoded(value, pointer)
        if found is not None and not isinstance(found, list):
            self._ignore(pointer, f"it must be a list, got {type(found).__name__}")
        return list_of(found)

    def _all_responses(self, value: Json | RawJson, pointer: str) -> tuple[dict[str, JsonObject], JsonObject]:
        """Return the responses of an operation by status, and their schemas; an invalid one is reported, and left out.

        One with the same text is read once, unless it must be reported for each operation.
        """
        found: dict[str, JsonObject] = {}
        schemas: JsonObject = {}
        known = self._responses
        natives = cast("Mapping[str, Json | RawJson]", self._fit(OBJECT, decoded(value, pointer), pointer))
        for status, each in natives.items():
            text = bytes(each) if isinstance(each, RawJson) else None
            response = None if text is None else known.get(text)
            if response is None:
                if status.startswith("x-"):
                    continue
                reports = len(self.skipped)
                response = self._response(each, f"{pointer}/{status}")
                if response is None:
                    continue
                if text is not None and len(self.skipped) == reports:
                    known[text] = response
            found[status], schemas[status] = response
        return found, schemas

    def _response(self, value: Json | RawJson, pointer: str) -> _Response | None:
        try:
            response: Json = _shaped(value, _NativeResponse)
            if response is None:
                response = _RESPONSE.fit(decoded(value, pointer), pointer, self.skipped.append)
            if isinstance(response, dict):
                self._references.resolve(response, pointer)
                return response, _schemas_of(response)
        except DocumentError as error:
            self._ignore(error.pointer, str(error))
        return None

    def _parameter_once(self, value: Json | RawJson, place: str, number: int) -> tuple[Json, ApiParameter | None]:
        """Return a parameter as the document has it, and as it is read; one with the same text is read once."""
        text = bytes(value) if isinstance(value, RawJson) else value.get("$ref") if isinstance(value, dict) else None
        known = self._parameters.get(text) if isinstance(text, str | bytes) else None
        if known is None:
            native = decoded(value, pointer := f"{place}/{number}")
            known = native, self._parameter(native, pointer)
            if isinstance(text, str | bytes):
                self._parameters[text] = known
        return known

    def _parameter(self, value: Json, pointer: str) -> ApiParameter | None:
        """Return a parameter; None if the specification says to ignore it."""
        native = self._references.resolve(value, pointer)
        pointer = place_of(value, pointer)
        native = self._fit(_PARAMETER, native, pointer)
        name, where = native.get("name"), native.get("in")
        if not isinstance(name, str) or where not in _LOCATIONS:
            raise DocumentError(f"a parameter needs a name and a place, got {name!r} in {where!r}; correct it", pointer)
        if where == "header" and name.lower() in _IGNORED_HEADERS | _CLIENT_HEADERS:
            return None
        if where == "header" and not _HEADER_NAME.fullmatch(name):
            raise DocumentError(f"{name!r} is not the name of a header; correct it", pointer)
        style = _text(native.get("style")) or _STYLES[where][0]
        if style not in _STYLES[where]:
            self._ignore(
                f"{pointer}/style", f"a {where} parameter has no style {style!r}; {_STYLES[where][0]!r} is used"
            )
            style = _STYLES[where][0]
        explode = native.get("explode")
        content = object_of(native.get("content"))
        content_type = next(iter(content), None)
        media = object_of(content.get(content_type)) if content_type is not None else {}
        place = f"{pointer}/content/{escape(content_type)}" if content_type is not None else pointer
        return ApiParameter(
            name=name,
            where=where,
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "cookie"),
            is_required=where == "path" or native.get("required") is True,
            allows_reserved=native.get("allowReserved") is True,
            schema=media.get("schema", {}) if content_type is not None else native.get("schema", {}),
            description=_text(native.get("description")),
            content_type=content_type,
            pointer=f"{place}/schema",
        )

    def _body(self, value: Json | RawJson, pointer: str) -> RequestBody | None:
        """Return the body of a request; one with the same text is read once."""
        if not isinstance(value, RawJson):
            return self._read_body(value, pointer)
        text = bytes(value)
        if text not in self._bodies:
            self._bodies[text] = self._read_body(decoded(value, pointer), pointer)
        return self._bodies[text]

    def _read_body(self, value: Json, pointer: str) -> RequestBody | None:
        if value is None:
            return None
        native = self._references.resolve(value, pointer)
        pointer = place_of(value, pointer)
        native = self._fit(_BODY, native, pointer)
        content = object_of(native.get("content"))
        if not content:
            self._ignore(pointer, "it has no content, so that no body is sent; describe its content")
            return None
        chosen = min(content, key=_preference)
        form = next((each for each in content if media_type(each) == MULTIPART), None)
        if form is not None and chosen != form and self._files(self._media(content, chosen, pointer)):
            chosen = form  # only this media type can carry files
        media = self._media(content, chosen, pointer)
        place = f"{pointer}/content/{escape(chosen)}"
        items: JsonObject = {"type": "array", "items": media["itemSchema"]} if "itemSchema" in media else {}
        return RequestBody(
            content_type=chosen,
            schema=media.get("schema", items),
            files=self._files(media) if chosen == form else {},
            is_required=native.get("required") is True,
            encoding=object_of(media.get("encoding")),
            description=_text(native.get("description")),
            others=tuple(each for each in content if each != chosen),
            pointer=f"{place}/schema",
        )

    def _media(self, content: JsonObject, kind: str, pointer: str) -> JsonObject:
        place = f"{pointer}/content/{escape(kind)}"
        return self._fit(_MEDIA, self._references.resolve(content[kind] or {}, place), place)

    def _files(self, media: JsonObject) -> JsonObject:
        return file_members(media.get("schema", {}), self._references)


def _schemas_of(response: JsonObject) -> JsonObject:
    """Return the schemas of a response by media type; references stay."""
    content = response.get("content")
    if isinstance(content, dict):
        return {kind: each.get("schema", {}) for kind, each in content.items() if isinstance(each, dict)}
    return {"$ref": response["$ref"]} if "$ref" in response else {}


def _shaped(value: Json | RawJson, kind: type[object]) -> JsonObject | None:
    """Return the members of a JSON text that a typed dictionary names; None if one has another shape.

    The decoder checks shapes much faster than `Shape`, which finds what to report.
    """
    if not isinstance(value, RawJson):
        return None
    try:
        return cast("JsonObject", read_own(value, kind))
    except RecordError:
        return None


def _undeclared(path: str, parameters: tuple[ApiParameter, ...]) -> list[ApiParameter]:
    """Return parameters for placeholders that the document does not declare; many documents omit some."""
    if "{" not in path:
        return []
    known = {each.name for each in parameters if each.where == "path"}
    names = _PLACEHOLDER.findall(path)
    if known.issuperset(names):
        return []
    return [
        ApiParameter(
            name=name,
            where="path",
            style="simple",
            explode=False,
            is_required=True,
            allows_reserved=False,
            schema={"type": "string"},
            description="",
        )
        for name in dict.fromkeys(names)
        if name not in known
    ]


def media_type(content_type: str) -> str:
    """Return the media type of a `Content-Type`, without parameters and in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Return whether a media type is JSON."""
    kind = media_type(content_type)
    return kind in _JSON_TYPES or kind.endswith("+json")


def _preference(content_type: str) -> int:
    """Return the rank of a media type; the body with the lowest one is sent, as models write it best."""
    kind = media_type(content_type)
    if is_json(kind):
        return 0 if kind in _JSON_TYPES else 2 if "patch" in kind else 1
    return {"*/*": 3, FORM: 4, MULTIPART: 5}.get(kind, 6)


def _security(value: Json) -> _Security | None:
    if not isinstance(value, list):
        return None
    return [
        {name: [str(scope) for scope in list_of(scopes)] for name, scopes in each.items()}
        for each in value
        if isinstance(each, dict)
    ]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
