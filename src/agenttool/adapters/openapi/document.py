"""An OpenAPI document: bounded parsing of JSON and YAML, and references within and between documents."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import cast
from urllib.parse import unquote, urljoin, urlsplit

import yaml

from agenttool.codec import parse_value
from agenttool.errors import AgentToolError, RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import value_at

MAX_NODES = 20_000_000
"""How many values a YAML document may have once its aliases are expanded."""

MAX_DEPTH = 300
MAX_EXTERNAL = 200
"""How many other documents one document may refer to."""

_MAX_CHAIN = 50
_MAX_DIGITS = 4000
_EXTERNAL_REF = re.compile(rb"""\$ref["']?\s*:\s*["']?([^#"'\s{][^"'\s]*)""")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, Json] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class DocumentError(AgentToolError):
    """A document, or a part of it, cannot be used; `pointer` is the JSON pointer of the part."""

    def __init__(self, message: str, pointer: str = "") -> None:
        """Take the reason and the place."""
        super().__init__(message)
        self.pointer = pointer


class UnreadableDocument(DocumentError):
    """A document that another one refers to cannot be read; what needs it cannot be used."""


def error_reason(error: Exception) -> str:
    """Return why a file or a document cannot be read, with the name of the file."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}"
    return str(error)


def string_of(value: Json) -> str:
    """Return a value that is a text, and an empty text for any other value."""
    return value if isinstance(value, str) else ""


def place_of(value: Json, pointer: str) -> str:
    """Return the pointer of a value; of a reference within the document, that of its target."""
    reference = value.get("$ref") if isinstance(value, dict) else None
    return reference[1:] if isinstance(reference, str) and reference.startswith("#") else pointer


def origin_of(url: str) -> str:
    """Return the scheme, the host and the port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def absolute_url(base: str, reference: str) -> str:
    """Return the URL that a reference has from a base URL.

    Raises:
        DocumentError: it is no URL that all parsers accept.
    """
    try:
        found = urljoin(base, reference)
        _ = urlsplit(found).port
    except ValueError as error:
        raise DocumentError(f"{reference!r} is not a valid URL ({error}); correct it") from error
    return found


def parse(data: bytes) -> JsonObject:
    """Return the object in a JSON or YAML document.

    Raises:
        DocumentError: it is neither, or exceeds a bound.
    """
    body = data.removeprefix(b"\xef\xbb\xbf")
    start = body.lstrip()[:1]
    if not start:
        raise DocumentError("the document is empty; name another one")
    if start == b"<":
        raise DocumentError("it is HTML or XML; name the JSON or YAML document itself, which such a page often links")
    found: Json = None
    json_fault = ""
    if start in b"{[":
        try:
            found = parse_value(body, what="it")
        except RecordError as error:
            json_fault = str(error)
    if found is None:
        try:
            found = _YamlReader(body.decode(errors="replace")).read()
        except (yaml.YAMLError, RecursionError) as error:
            line = " ".join(str(error).split())[:200] or "it is nested too deeply"
            raise DocumentError(json_fault or f"it is not YAML: {line}; correct it") from error
    if not isinstance(found, dict):
        raise DocumentError(f"it must be an object, got {type(found).__name__}; name an OpenAPI or Swagger document")
    return found


class _YamlReader:
    """Reads YAML 1.2 with the core schema: a date, `yes` and `on` are texts, and keys are texts."""

    def __init__(self, text: str) -> None:
        loader = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        read = cast("Callable[..., Iterator[yaml.Event]]", yaml.parse)
        self._events = read(text, Loader=loader)
        self._anchors: dict[str, tuple[Json, int]] = {}
        self._count = 0

    def read(self) -> Json:
        """Return the first document of the stream."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                return self._value(next(self._events), 0)
        return None

    def _value(self, event: yaml.Event, depth: int) -> Json:
        started = self._count
        self._add(1)
        if depth > MAX_DEPTH:
            raise DocumentError(f"the document is nested more than {MAX_DEPTH} levels deep; simplify it")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise DocumentError(f"the alias {event.anchor!r} refers to nothing before it; correct the document")
            value, count = self._anchors[event.anchor]
            self._add(count)
            return value
        value: Json
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(each := next(self._events), yaml.SequenceEndEvent):
                value.append(self._value(each, depth + 1))
        else:
            value = self._mapping(depth)
        anchor = cast("str | None", getattr(event, "anchor", None))
        if anchor is not None:
            self._anchors[anchor] = value, self._count - started
        return value

    def _mapping(self, depth: int) -> JsonObject:
        found: JsonObject = {}
        merged: list[Json] = []
        while not isinstance(each := next(self._events), yaml.MappingEndEvent):
            is_merge = isinstance(each, yaml.ScalarEvent) and each.value == "<<"
            name = each.value if isinstance(each, yaml.ScalarEvent) else str(self._value(each, depth + 1))
            value = self._value(next(self._events), depth + 1)
            if is_merge:
                merged += value if isinstance(value, list) else [value]
            else:
                found[str(name)] = value
        for each in merged:
            found = {**each, **found} if isinstance(each, dict) else found
        return found

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > MAX_NODES:
            raise DocumentError(f"the document has more than {MAX_NODES} values with its aliases; remove some")


def _scalar(event: yaml.ScalarEvent) -> Json:
    text = str(event.value)
    implicit = cast("tuple[bool, bool]", event.implicit)
    if not implicit[0]:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) <= _MAX_DIGITS and _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def external_references(data: bytes) -> set[str]:
    """Return the documents that a document refers to, as they are written."""
    return {each.decode(errors="replace").partition("#")[0] for each in _EXTERNAL_REF.findall(data)} - {""}


class References:
    """Resolves `$ref` in a document, and in the documents that it may refer to."""

    def __init__(self, root: JsonObject, place: str, documents: Mapping[str, JsonObject | UnreadableDocument]) -> None:
        """Take the document, its place, and other documents by their places, or why they cannot be read."""
        self.root = root
        self._place = place
        self._documents = documents
        self._targets: dict[str, Json] = {}

    def target(self, reference: str) -> Json:
        """Return what a reference leads to.

        Raises:
            DocumentError: it leads to nothing, or to a document that is not allowed.
        """
        if reference not in self._targets:
            self._targets[reference] = self._find(reference)
        return self._targets[reference]

    def _find(self, reference: str) -> Json:
        place, _, fragment = reference.partition("#")
        found: Json = self.root
        if place:
            where = absolute_url(self._place, place)
            if where not in self._documents and where != self._place:
                raise DocumentError(f"the document may not refer to {place!r}; add it to references if you trust it")
            other = self._documents.get(where, self.root)
            if isinstance(other, UnreadableDocument):
                raise UnreadableDocument(str(other))
            found = other
        if fragment and not fragment.startswith("/"):
            raise DocumentError(f"the reference {reference!r} is not a JSON pointer; write '#/components/…'")
        # A step with %2F names a member with a slash, as paths and some schemas of real documents have.
        found = value_at(found, "/".join(unquote(each).replace("/", "~1") for each in fragment.split("/")))
        if found is None:
            raise DocumentError(f"the reference {reference!r} leads to nothing; correct it")
        return found

    def resolve(self, value: Json, pointer: str) -> JsonObject:
        """Return an object, with a reference in its place followed.

        Raises:
            DocumentError: it is not an object, or its reference leads nowhere or in a circle.
        """
        for _ in range(_MAX_CHAIN):
            if not isinstance(value, dict):
                raise DocumentError(f"an object is expected, got {type(value).__name__}; correct it", pointer)
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            try:
                value = self.target(reference)
            except DocumentError as error:
                raise type(error)(str(error), pointer) from error
        raise DocumentError("its references lead in a circle; correct them", pointer)


async def load_external(
    data: bytes, place: str, is_allowed: Callable[[str], bool], fetch: Callable[[str], Awaitable[bytes]]
) -> dict[str, JsonObject | UnreadableDocument]:
    """Return the documents that a document refers to and that are allowed, with absolute references.

    One that cannot be read is an error that names it.

    Raises:
        DocumentError: there are too many.
    """
    found: dict[str, JsonObject | UnreadableDocument] = {}
    waiting = _places(place, data)
    while waiting:
        where = waiting.pop()
        if where in found or where == place or not is_allowed(where):
            continue
        if len(found) >= MAX_EXTERNAL:
            raise DocumentError(f"the document refers to more than {MAX_EXTERNAL} other documents; bundle them")
        try:
            body = await fetch(where)
            found[where] = cast("JsonObject", _absolute(parse(body), where))
            waiting += _places(where, body)
        except (AgentToolError, OSError) as error:
            reason = error_reason(error)
            found[where] = UnreadableDocument(f"the document {where!r} that it refers to cannot be read: {reason}")
    return found


def _places(base: str, data: bytes) -> list[str]:
    return [_or_same(base, each) for each in external_references(data)]


def _or_same(base: str, reference: str) -> str:
    """Return an absolute reference; one that is no URL stays as it is, and is reported where it is used."""
    try:
        return absolute_url(base, reference)
    except DocumentError:
        return reference


def _absolute(value: Json, place: str) -> Json:
    """Return a value in which references start at no particular document."""
    if isinstance(value, list):
        return [_absolute(each, place) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _or_same(place, each) if name == "$ref" and isinstance(each, str) else _absolute(each, place)
        for name, each in value.items()
    }
