"""The operations of a document: each complete, or listed with the reason why it cannot be used."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

from agenttool.adapters.openapi.document import DocumentError, References, place_of, string_of
from agenttool.adapters.openapi.schemas import file_members
from agenttool.adapters.openapi.shapes import (
    FLAG,
    LIST,
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
from agenttool.codec import list_of, object_of, write_own
from agenttool.http.headers import HEADER_NAME, RESERVED_HEADERS
from agenttool.records import Json, JsonObject, Part

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_ADDITIONAL = "additionalOperations"
_PATH_MEMBERS = frozenset({*METHODS, _ADDITIONAL, "$ref", "summary", "description", "servers", "parameters"})
READ_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE", "QUERY")
IDEMPOTENT_METHODS = (*READ_METHODS, "PUT", "DELETE")
_LOCATIONS = ("path", "query", "header", "cookie", "querystring")
_IGNORED_HEADERS = RESERVED_HEADERS | {
    *("accept", "accept-encoding", "authorization", "content-encoding", "content-type", "proxy-authorization"),
}
"""Header parameters that the specification says to ignore, or that the client writes.

A caller who chose one of the latter could reach another host, or begin a second request.
"""

_Security = list[dict[str, list[str]]]
_T = TypeVar("_T")
_PLACEHOLDER = re.compile(r"\{([^{}]*)")

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
    responses=OBJECT,
)
_PARAMETER = object_with(description=TEXT, required=FLAG, style=TEXT, explode=FLAG, allowReserved=FLAG, content=OBJECTS)
_BODY = object_with(description=TEXT, required=FLAG, content=OBJECT)
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


class ApiOperation(Part, frozen=True, kw_only=True):
    """One operation, with its references followed as far as a request needs.

    Attributes:
        pointer: its place in the document.
        security: the alternatives, each with its schemes and their scopes; None if the document has none.
        native_parameters: its own parameters as the document has them.
        responses: its responses as the document has them, by status.
    """

    method: str
    path: str
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
    native_parameters: list[Json]
    responses: Mapping[str, JsonObject]

    @property
    def key(self) -> str:
        """The method and the path, unique in a document."""
        return f"{self.method} {self.path}"

    @property
    def schemes(self) -> tuple[str, ...]:
        """The names of the security schemes of all alternatives."""
        return tuple(dict.fromkeys(name for each in self.security or () for name in each))


class OperationReader:
    """Reads the operations of one document; parts that several operations have, or refer to, are read once."""

    def __init__(self, references: References) -> None:
        """Take the document."""
        self._references = references
        self._known: dict[tuple[str, bytes], object] = {}
        self.skipped: list[SkippedPart] = []
        self._root = self._fit(_DOCUMENT, references.root, "")
        self.servers = tuple(cast("list[JsonObject]", self._root.get("servers") or ()))
        """The servers of the operations that name none."""

    def _fit(self, shape: Shape, value: Json, pointer: str) -> JsonObject:
        """Return an object without parts that have another shape, which are reported."""
        return object_of(shape.fit(value, pointer, self.skipped.append))

    def _resolve(self, shape: Shape, value: Json, pointer: str) -> tuple[JsonObject, str]:
        """Return what `_fit` returns of an object, or of the target of a reference, and its place."""
        place = place_of(value, pointer)
        return self._fit(shape, self._references.resolve(value, pointer), place), place

    def _ignore(self, pointer: str, reason: str) -> None:
        """Report a part without which an operation is used."""
        self.skipped.append(SkippedPart(pointer, reason, PART_IGNORED))

    def _once(self, read: Callable[[Json, str], _T], value: Json, pointer: str) -> _T:
        """Return what a method reads from a part.

        A part that has the same text is read once, unless something in it must be reported for each.
        """
        key, reports = (read.__name__, write_own(value)), len(self.skipped)
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
            beside: JsonObject = {name: each for name, each in object_of(value).items() if name != "$ref"}
            item = self._fit(_PATH_ITEM, {**self._references.resolve(value, place), **beside}, place)
        except DocumentError as error:
            self.skipped.append(SkippedPart(error.pointer, str(error), PATH_SKIPPED))
            return
        for name in item.keys() - _PATH_MEMBERS:
            if not name.startswith("x-"):
                self._ignore(f"{place}/{escape(name)}", f"a path has no {name!r}; its methods are {', '.join(METHODS)}")
        additional = object_of(item.get(_ADDITIONAL)).items()
        natives = [(f"{place}/{each}", each, item[each]) for each in METHODS if each in item]
        natives += [(f"{place}/{_ADDITIONAL}/{escape(name)}", name, each) for name, each in additional]
        methods: set[str] = set()
        for pointer, name, native in natives:
            method = name.upper()
            if method in methods:
                self.skipped.append(SkippedPart(pointer, f"the path has the method {method} already; remove one"))
                continue
            methods.add(method)
            try:
                yield self._operation(path, method, native, item, pointer)
            except DocumentError as error:
                self.skipped.append(SkippedPart(error.pointer or pointer, str(error)))

    def _operation(self, path: str, method: str, value: Json, item: JsonObject, pointer: str) -> ApiOperation:
        native = self._fit(_OPERATION, self._references.resolve(value, pointer), pointer)
        get = native.get
        servers = cast("list[JsonObject]", get("servers") or item.get("servers") or ())
        own, parameters = self._parameters(item.get("parameters"), get("parameters"), path, pointer)
        body = self._once(self._body, native.get("requestBody"), f"{pointer}/requestBody")
        security = self._root.get("security") if get("security") is None else get("security")
        return ApiOperation(
            method=method,
            path=path,
            pointer=pointer,
            operation_id=string_of(get("operationId")) or None,
            summary=string_of(get("summary")) or string_of(item.get("summary")),
            description=string_of(get("description")) or string_of(item.get("description")),
            tags=tuple(cast("list[str]", get("tags") or ())),
            is_deprecated=get("deprecated") is True,
            parameters=parameters,
            body=body,
            servers=tuple(servers) or self.servers,
            security=_security(security),
            native_parameters=own,
            responses=self._responses(object_of(get("responses")), f"{pointer}/responses"),
        )

    def _parameters(
        self, shared: Json, own: Json, path: str, pointer: str
    ) -> tuple[list[Json], tuple[ApiParameter, ...]]:
        """Return the parameters of an operation as the document has them, and all of them with those of its path."""
        _, found = self._once(self._parameter_list, shared, f"{pointer.rpartition('/')[0]}/parameters")
        natives, listed = self._once(self._parameter_list, own, f"{pointer}/parameters")
        found = found | listed
        for name in _PLACEHOLDER.findall(path):  # many documents do not declare all placeholders
            if ("path", name) not in found:
                found["path", name] = ApiParameter(name=name, where="path", schema={"type": "string"})
        return natives, tuple(found.values())

    def _parameter_list(self, value: Json, pointer: str) -> tuple[list[Json], dict[tuple[str, str], ApiParameter]]:
        """Return the parameters in a list as the document has them, and by place and name."""
        natives = list_of(LIST.fit(value, pointer, self.skipped.append))
        found = (self._once(self._parameter, each, f"{pointer}/{number}") for number, each in enumerate(natives))
        return natives, {(each.where, each.name): each for each in found if each is not None}

    def _responses(self, natives: JsonObject, pointer: str) -> dict[str, JsonObject]:
        """Return the responses of an operation by status; an invalid one is reported and left out."""
        named = ((status, each) for status, each in natives.items() if not status.startswith("x-"))
        found = ((status, self._once(self._response, each, f"{pointer}/{status}")) for status, each in named)
        return {status: each for status, each in found if each is not None}

    def _response(self, value: Json, pointer: str) -> JsonObject | None:
        response = _RESPONSE.fit(value, pointer, self.skipped.append)
        try:
            if isinstance(response, dict):
                self._references.resolve(response, pointer)
                return response
        except DocumentError as error:
            self._ignore(error.pointer, str(error))
        return None

    def _parameter(self, value: Json, pointer: str) -> ApiParameter | None:
        """Return a parameter; None if the specification says to ignore it."""
        native, pointer = self._resolve(_PARAMETER, value, pointer)
        name, where = native.get("name"), native.get("in")
        if not isinstance(name, str) or where not in _LOCATIONS:
            raise DocumentError(f"a parameter needs a name and a place, got {name!r} in {where!r}; correct it", pointer)
        if where == "header" and name.lower() in _IGNORED_HEADERS:
            return None
        if where == "header" and not HEADER_NAME.fullmatch(name):
            raise DocumentError(f"{name!r} is not the name of a header; correct it", pointer)
        default = _STYLES[where][0]
        style = string_of(native.get("style")) or default
        if style not in _STYLES[where]:
            self._ignore(f"{pointer}/style", f"a {where} parameter has no style {style!r}; {default!r} is used")
            style = default
        explode = native.get("explode")
        described, place = native, pointer
        content_type, content = next(iter(object_of(native.get("content")).items()), (None, None))
        if content_type is not None:
            described, place = object_of(content), f"{pointer}/content/{escape(content_type)}"
        return ApiParameter(
            name=name,
            where=where,
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "cookie"),
            is_required=where == "path" or native.get("required") is True,
            allows_reserved=where != "cookie" and native.get("allowReserved") is True,
            schema=described.get("schema", {}),
            description=string_of(native.get("description")),
            content_type=content_type,
            pointer=f"{place}/schema",
        )

    def _body(self, value: Json, pointer: str) -> RequestBody | None:
        """Return the body of a request."""
        if value is None:
            return None
        native, pointer = self._resolve(_BODY, value, pointer)
        content = object_of(native.get("content"))
        if not content:
            self._ignore(pointer, "it has no content, so that no body is sent; describe its content")
            return None
        chosen = min(content, key=_preference)
        media, files = self._media(content, chosen, pointer), JsonObject()
        form = next((each for each in content if media_type(each) == MULTIPART), None)
        if form is not None and self._files_in(media):  # only this media type can carry files
            chosen, media = form, self._media(content, form, pointer)
            files = self._files_in(media)
        items: JsonObject = {"type": "array", "items": media["itemSchema"]} if "itemSchema" in media else {}
        return RequestBody(
            content_type=chosen,
            schema=media.get("schema", items),
            files=files,
            is_required=native.get("required") is True,
            encoding=object_of(media.get("encoding")),
            description=string_of(native.get("description")),
            pointer=f"{pointer}/content/{escape(chosen)}/schema",
        )

    def _media(self, content: JsonObject, kind: str, pointer: str) -> JsonObject:
        return self._resolve(_MEDIA, content[kind] or {}, f"{pointer}/content/{escape(kind)}")[0]

    def _files_in(self, media: JsonObject) -> JsonObject:
        return file_members(media.get("schema", {}), self._references)


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
