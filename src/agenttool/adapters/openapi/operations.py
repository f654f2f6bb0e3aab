"""The operations of a document: each complete, or listed with the reason why it cannot be used."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypedDict, TypeVar, cast

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
    object_with,
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
_Security = list[dict[str, list[str]]]
_NativeOperation = TypedDict(
    "_NativeOperation",
    {
        "operationId": str | None,
        "summary": str | None,
        "description": str | None,
        "tags": list[str] | None,
        "deprecated": bool | None,
        "servers": object,
        "security": _Security | None,
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
_T = TypeVar("_T")

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


_SERVERS = Shape(list, object_with(url=TEXT, variables=OBJECTS))
_SECURITY = Shape(list, Shape(dict, TEXTS))
_DOCUMENT = object_with(servers=_SERVERS, security=_SECURITY, tags=Shape(list, OBJECT))
_PATH_ITEM = object_with(servers=_SERVERS, summary=TEXT, description=TEXT, additionalOperations=OBJECT)
_OPERATION = object_with(
    operationId=TEXT,
    summary=TEXT,
    description=TEXT,
    tags=TEXTS,
    deprecated=FLAG,
    servers=_SERVERS,
    security=_SECURITY,
)
_PARAMETER = object_with(description=TEXT, required=FLAG, style=TEXT, explode=FLAG, allowReserved=FLAG, content=OBJECTS)
_BODY = object_with(description=TEXT, required=FLAG, content=OBJECT)
_LIST = Shape(list)
_MEDIA = object_with(encoding=OBJECTS)
_RESPONSE = object_with(content=OBJECTS)


class ApiParameter(Part, frozen=True, kw_only=True, eq=False):
    """One parameter; operations that refer to the same one share it.

    Attributes:
        where: `path`, `query`, `header`, `cookie`, or `querystring` for the whole query.
        schema: as the document has it.
        content_type: the media type that the value is encoded in; None for a style.
        pointer: the place of its schema.
    """

    name: str
    where: str
    style: str = "simple"
    explode: bool = False
    is_required: bool = True
    allows_reserved: bool = False
    schema: Json
    description: str = ""
    content_type: str | None = None
    pointer: str = ""


class RequestBody(Part, frozen=True, kw_only=True, eq=False):
    """The body of a request in the media type that is sent.

    Attributes:
        encoding: how members of a form are encoded, by name.
        files: the members of a multipart form that are files, each with the schema that a caller sees.
        pointer: the place of its schema.
    """

    content_type: str
    schema: Json
    is_required: bool
    encoding: JsonObject
    description: str
    files: JsonObject
    pointer: str


class ApiResponse(NamedTuple):
    """A response as the document has it, with what is needed of its content, and its schemas by media type."""

    native: JsonObject
    schemas: JsonObject


class ApiOperation(Part, frozen=True, kw_only=True):
    """One operation, with its references followed as far as a request needs.

    Attributes:
        key: method and path, unique in a document.
        pointer: its place in the document.
        security: the alternatives, each with its schemes and their scopes; None if the document has none.
        schemes: the names of the security schemes of all alternatives.
        native_parameters: its own parameters as the document has them.
        responses: its responses by status.
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
    responses: Mapping[str, ApiResponse]


class OperationReader:
    """Reads the operations of one document; parts that several operations have, or refer to, are read once."""

    def __init__(self, references: References) -> None:
        """Take the document."""
        self._references = references
        self._version = str(references.root.get("openapi"))[:3]
        self._known: dict[tuple[str, str | bytes], object] = {}
        self._lists: dict[tuple[ApiParameter, ...], tuple[ApiParameter, ...]] = {}
        self.skipped: list[SkippedPart] = []
        self._root = self._fit(_DOCUMENT, references.root, "")
        self._security = _security(self._root.get("security"))

    def _fit(self, shape: Shape, value: Json, pointer: str) -> JsonObject:
        """Return an object without parts that have another shape, which are reported."""
        return object_of(shape.fit(value, pointer, self.skipped.append))

    def _ignore(self, pointer: str, reason: str) -> None:
        """Report a part without which an operation is used."""
        self.skipped.append(SkippedPart(pointer, reason, PART_IGNORED))

    def _once(self, read: Callable[[Json | RawJson, str], _T], value: Json | RawJson, pointer: str) -> _T:
        """Return what a method reads from a part.

        One with the same text or reference is read once, unless a part of it must be reported for each.
        """
        text = bytes(value) if isinstance(value, RawJson) else object_of(value).get("$ref")
        if not isinstance(text, str | bytes):
            return read(value, pointer)
        key, reports = (read.__name__, text), len(self.skipped)
        if key in self._known:
            return cast("_T", self._known[key])
        found = read(value, pointer)
        if len(self.skipped) == reports:
            self._known[key] = found
        return found

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
        return [each for path, item in paths.items() if not path.startswith("x-") for each in self._path(path, item)]

    def _path(self, path: str, value: Json) -> Iterator[ApiOperation]:
        place = f"/paths/{escape(path)}"
        try:
            item = self._references.resolve(value, place)
            if item is not value:
                item = {**item, **{k: v for k, v in object_of(value).items() if k != "$ref"}}
            if not item.keys() <= _RAW_MEMBERS:
                item = {name: each if name in _RAW_MEMBERS else decoded(each, place) for name, each in item.items()}
                item = self._fit(_PATH_ITEM, item, place)
        except DocumentError as error:
            self.skipped.append(SkippedPart(error.pointer, str(error), PATH_SKIPPED))
            return
        for pointer, method, native in self._methods_of(item, place):
            try:
                yield self._operation(path, method.upper(), self._native_operation(native, pointer), item, pointer)
            except DocumentError as error:
                self.skipped.append(SkippedPart(error.pointer or pointer, str(error)))

    def _methods_of(self, item: JsonObject, place: str) -> list[tuple[str, str, Json]]:
        """Return the operations of a path, each with its pointer and method; unknown members are reported."""
        is_3_2 = self._version >= "3.2"
        known = METHODS if is_3_2 else _METHODS_BEFORE_3_2
        found = [(f"{place}/{each}", each, item[each]) for each in known if each in item]
        if len(found) == len(item):
            return found
        for name in item.keys() - _PATH_MEMBERS.union(known):
            if not name.startswith("x-") and not (is_3_2 and name == _ADDITIONAL):
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

    def _native_operation(self, value: Json | RawJson, pointer: str) -> _NativeOperation:
        """Return the members of an operation; those with another shape are reported, and left out.

        Raises:
            DocumentError: it is no object, or cannot be used.
        """
        found = _shaped(value, _NativeOperation)
        if found is not None and "$ref" not in found:
            if "servers" in found:
                found["servers"] = _SERVERS.fit(
                    cast("Json", found["servers"]), f"{pointer}/servers", self.skipped.append
                )
            return found
        native = self._references.resolve(decoded(value, pointer), pointer)
        fault = native.get("x-agenttool-error")
        if isinstance(fault, str):
            raise DocumentError(fault, pointer)
        native = self._fit(_OPERATION, native, pointer)
        return cast("_NativeOperation", {**native, "security": _security(native.get("security"))})

    @property
    def servers(self) -> tuple[JsonObject, ...]:
        """The servers of the operations that name none."""
        return tuple(cast("list[JsonObject]", self._root.get("servers") or ()))

    def _operation(
        self, path: str, method: str, native: _NativeOperation, item: JsonObject, pointer: str
    ) -> ApiOperation:
        get = native.get
        security = get("security")
        security = self._security if security is None else security
        servers = cast("list[JsonObject]", get("servers") or item.get("servers") or ())
        own, parameters = self._parameters(item.get("parameters"), get("parameters"), path, pointer)
        return ApiOperation(
            method=method,
            path=path,
            key=f"{method} {path}",
            pointer=pointer,
            operation_id=get("operationId") or None,
            summary=get("summary") or _text(item.get("summary")),
            description=get("description") or _text(item.get("description")),
            tags=tuple(get("tags") or ()),
            is_deprecated=get("deprecated") is True,
            parameters=parameters,
            body=self._once(self._body, native["requestBody"], f"{pointer}/requestBody")
            if "requestBody" in native
            else None,
            servers=tuple(servers) or self.servers,
            security=security,
            schemes=tuple(dict.fromkeys(name for each in security for name in each)) if security else (),
            native_parameters=own,
            responses=self._responses(cast("Json", get("responses")), f"{pointer}/responses"),
        )

    def _parameters(
        self, shared: Json | RawJson, own: Json | RawJson, path: str, pointer: str
    ) -> tuple[list[Json], tuple[ApiParameter, ...]]:
        """Return the parameters of an operation as the document has them, and all of them with those of its path.

        Operations with the same parameters share one tuple.
        """
        found: dict[tuple[str, str], ApiParameter] = {}
        natives: list[Json] = []
        if shared is not None:
            found |= self._once(self._parameter_list, shared, f"{pointer.rpartition('/')[0]}/parameters")[1]
        if own is not None:
            natives, listed = self._once(self._parameter_list, own, f"{pointer}/parameters")
            found |= listed
        if "{" in path:  # many documents do not declare all placeholders
            for name in _PLACEHOLDER.findall(path):
                if ("path", name) not in found:
                    found["path", name] = ApiParameter(name=name, where="path", schema={"type": "string"})
        parameters = tuple(found.values())
        return natives, self._lists.setdefault(parameters, parameters)

    def _parameter_list(
        self, value: Json | RawJson, pointer: str
    ) -> tuple[list[Json], dict[tuple[str, str], ApiParameter]]:
        """Return the parameters in a list as the document has them, and by place and name."""
        items: Sequence[Json | RawJson] | None = None
        if isinstance(value, RawJson):
            with suppress(RecordError):
                items = parse_items(value)
        if items is None:
            items = list_of(_LIST.fit(decoded(value, pointer), pointer, self.skipped.append))
        pairs = [self._once(self._parameter, each, f"{pointer}/{number}") for number, each in enumerate(items)]
        return [native for native, _ in pairs], {(each.where, each.name): each for _, each in pairs if each is not None}

    def _responses(self, value: Json | RawJson, pointer: str) -> dict[str, ApiResponse]:
        """Return the responses of an operation by status; an invalid one is reported and left out."""
        items = self._fit(OBJECT, decoded(value, pointer), pointer).items()
        named = ((status, each) for status, each in items if not status.startswith("x-"))
        found = ((status, self._once(self._response, each, f"{pointer}/{status}")) for status, each in named)
        return {status: each for status, each in found if each is not None}

    def _response(self, value: Json | RawJson, pointer: str) -> ApiResponse | None:
        try:
            response = cast("Json", _shaped(value, _NativeResponse))
            if response is None:
                response = _RESPONSE.fit(decoded(value, pointer), pointer, self.skipped.append)
            if isinstance(response, dict):
                self._references.resolve(response, pointer)
                return ApiResponse(response, _schemas_of(response))
        except DocumentError as error:
            self._ignore(error.pointer, str(error))
        return None

    def _parameter(self, value: Json | RawJson, pointer: str) -> tuple[Json, ApiParameter | None]:
        """Return a parameter as the document has it, and as it is read; None if the specification says to ignore it."""
        written = decoded(value, pointer)
        native = self._references.resolve(written, pointer)
        pointer = place_of(written, pointer)
        native = self._fit(_PARAMETER, native, pointer)
        name, where = native.get("name"), native.get("in")
        if not isinstance(name, str) or where not in _LOCATIONS:
            raise DocumentError(f"a parameter needs a name and a place, got {name!r} in {where!r}; correct it", pointer)
        if where == "header" and name.lower() in _IGNORED_HEADERS | _CLIENT_HEADERS:
            return written, None
        if where == "header" and not _HEADER_NAME.fullmatch(name):
            raise DocumentError(f"{name!r} is not the name of a header; correct it", pointer)
        default, style = _STYLES[where][0], _text(native.get("style"))
        if style and style not in _STYLES[where]:
            self._ignore(f"{pointer}/style", f"a {where} parameter has no style {style!r}; {default!r} is used")
            style = default
        style = style or default
        explode = native.get("explode")
        described, place = native, pointer
        content_type, content = next(iter(object_of(native.get("content")).items()), (None, None))
        if content_type is not None:
            described, place = object_of(content), f"{pointer}/content/{escape(content_type)}"
        return written, ApiParameter(
            name=name,
            where=where,
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "cookie"),
            is_required=where == "path" or native.get("required") is True,
            allows_reserved=where != "cookie" and native.get("allowReserved") is True,
            schema=described.get("schema", {}),
            description=_text(native.get("description")),
            content_type=content_type,
            pointer=f"{place}/schema",
        )

    def _body(self, value: Json | RawJson, pointer: str) -> RequestBody | None:
        """Return the body of a request."""
        written = decoded(value, pointer)
        if written is None:
            return None
        native = self._references.resolve(written, pointer)
        pointer = place_of(written, pointer)
        native = self._fit(_BODY, native, pointer)
        content = object_of(native.get("content"))
        if not content:
            self._ignore(pointer, "it has no content, so that no body is sent; describe its content")
            return None
        chosen = min(content, key=_preference)
        form = next((each for each in content if media_type(each) == MULTIPART), None)
        if form is not None and self._files(content, chosen, pointer):
            chosen = form  # only this media type can carry files
        media = self._media(content, chosen, pointer)
        items: JsonObject = {"type": "array", "items": media["itemSchema"]} if "itemSchema" in media else {}
        return RequestBody(
            content_type=chosen,
            schema=media.get("schema", items),
            files=self._files(content, chosen, pointer) if chosen == form else {},
            is_required=native.get("required") is True,
            encoding=object_of(media.get("encoding")),
            description=_text(native.get("description")),
            pointer=f"{pointer}/content/{escape(chosen)}/schema",
        )

    def _media(self, content: JsonObject, kind: str, pointer: str) -> JsonObject:
        place = f"{pointer}/content/{escape(kind)}"
        return self._fit(_MEDIA, self._references.resolve(content[kind] or {}, place), place)

    def _files(self, content: JsonObject, kind: str, pointer: str) -> JsonObject:
        return file_members(self._media(content, kind, pointer).get("schema", {}), self._references)


def _schemas_of(response: JsonObject) -> JsonObject:
    """Return the schemas of a response by media type; references stay."""
    content = response.get("content")
    if isinstance(content, dict):
        return {kind: each.get("schema", {}) for kind, each in content.items() if isinstance(each, dict)}
    return {"$ref": response["$ref"]} if "$ref" in response else {}


def _shaped(value: Json | RawJson, kind: type[_T]) -> _T | None:
    """Return the members of a JSON text that a typed dictionary names; None if one has another shape.

    The decoder checks shapes much faster than `Shape`, which finds what to report.
    """
    if not isinstance(value, RawJson):
        return None
    try:
        return read_own(value, kind)
    except RecordError:
        return None


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
    """Return the alternatives of a security requirement that has its shape; a scheme may have null for no scopes."""
    found = cast("list[dict[str, list[str] | None]] | None", value)
    return None if found is None else [{name: scopes or [] for name, scopes in each.items()} for each in found]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
