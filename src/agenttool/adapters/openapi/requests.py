"""The request of one call: its URL, headers and body, from the arguments and the settings.

Parameters become text in the styles of the specification, percent-encoded within URLs. Bodies are JSON, forms,
multipart with files, binary data, and text such as XML.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote

from agenttool.adapters.openapi.declare import PAGES, OperationTool
from agenttool.adapters.openapi.document import DocumentError
from agenttool.adapters.openapi.http import HttpRequest
from agenttool.adapters.openapi.operations import (
    FORM,
    MULTIPART,
    ApiParameter,
    RequestBody,
    is_json,
    media_type,
)
from agenttool.adapters.openapi.security import RequestCredentials
from agenttool.adapters.openapi.settings import OpenApiService
from agenttool.adapters.source_settings import fill_credentials
from agenttool.codec import object_of, write_own
from agenttool.records import Json, JsonObject

_RESERVED = ":/?@!$'()*,;="
"""The reserved characters that a value may have: `#` and `&` would end it, and `+` would be read as a space."""

_DOTS = re.compile(r"(?:^|[/\\])\.+(?:;[^/\\]*)?(?:[/\\]|\Z)")
"""A path segment `.` or `..`; some servers decode a value before they resolve it."""

_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}
_JSON = "application/json"
_OCTETS = "application/octet-stream"
_JSON_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")


class ArgumentError(ValueError):
    """An argument that no request can carry; the message says why, and what to do."""


def text_of(value: Json) -> str:
    """Return a value as text; all but strings and null are written as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return "" if value is None else write_own(value).decode()


def _items(value: Json, parameter: ApiParameter, *, is_quoted: bool = True) -> list[str]:
    """Return the texts of a value: of the items of a list, or of the names and values of an object."""
    safe = _RESERVED if parameter.allows_reserved else ""

    def text(each: Json) -> str:
        return quote(text_of(each), safe=safe) if is_quoted else text_of(each)

    if not isinstance(value, dict):
        return [text(each) for each in (value if isinstance(value, list) else [value])]
    pairs = [(quote(name, safe="") if is_quoted else name, text(each)) for name, each in value.items()]
    return (
        [f"{name}={each}" for name, each in pairs] if parameter.explode else [part for pair in pairs for part in pair]
    )


def path_text(parameter: ApiParameter, value: Json) -> str:
    """Return the text of a path parameter.

    Raises:
        ArgumentError: the text would change the path.
    """
    name, items = parameter.name, _items(value, parameter)
    if parameter.content_type is not None:
        found = quote(_content(value, parameter.content_type), safe="")
    elif parameter.style == "label":
        found = "." + ("." if parameter.explode else ",").join(items)
    elif parameter.style == "matrix" and parameter.explode and isinstance(value, dict | list):
        found = "".join(f";{each}" if isinstance(value, dict) else f";{name}={each}" for each in items)
    elif parameter.style == "matrix":
        text = ",".join(items)
        found = f";{name}={text}" if text else f";{name}"
    else:
        found = ",".join(items)
    if not found or _DOTS.search(unquote(found)):
        raise ArgumentError(f"{name} must not be empty, '.' or '..', got {value!r}; it is a part of the path")
    if parameter.allows_reserved and any(each in text_of(value) for each in "/?#"):
        raise ArgumentError(f"{name} must have no '/', '?' or '#', got {value!r}; it is a part of the path")
    return found


def query_pairs(parameter: ApiParameter, value: Json) -> list[str]:
    """Return the `name=value` parts of a query or a form; null and empty values have none."""
    if value is None or value in ([], {}):
        return []
    label = quote(parameter.name, safe="")
    if parameter.style == "deepObject" and isinstance(value, dict | list):
        return list(_deep(label, value, parameter))
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if each is not None}
    items = _items(value, parameter)
    if parameter.explode:
        return items if isinstance(value, dict) else [f"{label}={each}" for each in items]
    return [f"{label}={quote(_DELIMITERS.get(parameter.style, ','), safe=',').join(items)}"]


def _deep(label: str, value: Json, parameter: ApiParameter) -> Iterable[str]:
    """Yield the leaves of a nested value, each below the names that lead to it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _deep(f"{label}%5B{quote(key, safe='')}%5D", each, parameter)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            place = f"{label}%5B{number}%5D" if isinstance(each, dict | list) else label
            yield from _deep(place, each, parameter)
    elif value is not None:
        yield f"{label}={_items(value, parameter)[0]}"


def query_of(parameter: ApiParameter, value: Json) -> list[str]:
    """Return the parts of the query, or of the header `Cookie`, that a parameter adds."""
    if parameter.content_type is None:
        return query_pairs(parameter, value)
    if parameter.content_type == FORM and isinstance(value, dict):
        return [part for name, each in value.items() for part in query_pairs(_form_member(name), each)]
    text = _content(value, parameter.content_type)
    return [quote(text, safe="") if parameter.where == "querystring" else _pair(parameter.name, text)]


def header_text(parameter: ApiParameter, value: Json) -> str:
    """Return the text of a header.

    Raises:
        ArgumentError: it has characters that a header cannot carry.
    """
    if parameter.content_type is not None:
        text = _content(value, parameter.content_type)
    else:
        text = ",".join(_items(value, parameter, is_quoted=False))
    if not _is_header_text(text):
        raise ArgumentError(f"{parameter.name} must have printable ASCII characters only, got {text!r}; encode it")
    return text


def _is_header_text(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _pair(name: str, text: str) -> str:
    """Return a member of a query or a form."""
    return f"{quote(name, safe='')}={quote(text, safe='')}"


def _content(value: Json, content_type: str) -> str:
    if isinstance(value, str) and not is_json(content_type):
        return value
    return write_own(value).decode()


def encode_body(body: RequestBody, value: Json) -> tuple[str, bytes]:
    """Return the content type and the bytes of a body.

    Raises:
        ArgumentError: the value cannot be encoded in this media type.
    """
    kind = media_type(body.content_type)
    if kind == FORM:
        return FORM, "&".join(_form_parts(body, _form_members(value, kind))).replace("%20", "+").encode()
    if kind == MULTIPART:
        return _multipart(body, _form_members(value, kind))
    if kind == "*/*" or is_json(kind):
        return _JSON if kind == "*/*" else body.content_type, write_own(value)
    if kind in _JSON_LINES and not isinstance(value, str):
        lines = value if isinstance(value, list) else [value]
        return body.content_type, b"".join(write_own(each) + b"\n" for each in lines)
    content_type = _OCTETS if "*" in kind else body.content_type
    data, _, given_type = _file_of(value) if isinstance(value, str | dict) else (write_own(value), None, None)
    return given_type or content_type, data


def _form_members(value: Json, kind: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ArgumentError(f"a body of type {kind} is an object, got {type(value).__name__}; write an object")
    return value


def _form_member(name: str, encoding: JsonObject | None = None) -> ApiParameter:
    """Return a member of a form as a parameter, with the style of its encoding."""
    given = encoding or {}
    style, explode = str(given.get("style") or "form"), given.get("explode")
    return ApiParameter(
        name=name,
        where="query",
        style=style,
        explode=explode if isinstance(explode, bool) else style == "form",
        allows_reserved=given.get("allowReserved") is True,
        schema={},
    )


def _form_parts(body: RequestBody, members: JsonObject) -> list[str]:
    parts: list[str] = []
    for name, value in members.items():
        encoding = object_of(body.encoding.get(name))
        is_styled = not encoding.keys().isdisjoint(("style", "explode", "allowReserved"))
        if not is_styled and (isinstance(value, dict) or "contentType" in encoding):
            parts.append(_pair(name, text_of(value)))
        else:
            parts += query_pairs(_form_member(name, encoding), value)
    return parts


def _multipart(body: RequestBody, members: JsonObject) -> tuple[str, bytes]:
    """Encode members as parts. The boundary is a digest of the content, so a retry sends the same bytes."""
    parts: list[tuple[str, bytes]] = []
    for name, value in members.items():
        encoding, is_file = object_of(body.encoding.get(name)), name in body.files
        items = value if isinstance(value, list) else [value]
        if isinstance(value, list) and encoding.get("explode") is False and not is_file:
            items = [_DELIMITERS.get(str(encoding.get("style")), ",").join(map(text_of, value))]
        parts += [_part(name, each, encoding, is_file=is_file) for each in items if each is not None]
    digest = hashlib.sha256(b"".join(head.encode() + data for head, data in parts)).hexdigest()
    boundary = f"agenttool-{digest[:40]}"
    blocks = [f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts]
    return f"{MULTIPART}; boundary={boundary}", b"".join((*blocks, f"--{boundary}--\r\n".encode()))


def _part(name: str, value: Json, encoding: JsonObject, *, is_file: bool) -> tuple[str, bytes]:
    wanted = encoding.get("contentType")
    wanted = wanted.partition(",")[0].strip() if isinstance(wanted, str) and wanted.isprintable() else None
    is_file = is_file or (isinstance(value, dict) and "base64" in value)
    head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
    if is_file and isinstance(value, str | dict):
        data, filename, content_type = _file_of(value)
        head += f'; filename="{_quoted(filename or name)}"'
        return f"{head}\r\nContent-Type: {content_type or wanted or _OCTETS}", data
    if isinstance(value, dict | list):
        return f"{head}\r\nContent-Type: {wanted or _JSON}", write_own(value)
    return head + (f"\r\nContent-Type: {wanted}" if wanted else ""), text_of(value).encode()


def _file_of(value: str | JsonObject) -> tuple[bytes, str | None, str | None]:
    """Return the bytes, the name and the type of a file argument."""
    if isinstance(value, str):
        return value.encode(), None, None
    encoded, name, content_type = (value.get(key) for key in ("base64", "filename", "content_type"))
    if not isinstance(encoded, str):
        raise ArgumentError('a file is a text, or an object with "base64"; write one of them')
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ArgumentError(f"base64 of a file cannot be decoded: {error}; encode it again") from error
    kind = content_type if isinstance(content_type, str) and _is_header_text(content_type) else None
    return data, name if isinstance(name, str) else None, kind


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def build_request(
    service: OpenApiService,
    tool: OperationTool,
    arguments: JsonObject,
    credentials: RequestCredentials,
    values: Mapping[str, str],
) -> HttpRequest:
    """Return the request of a call. Only arguments that were given are sent.

    Args:
        service: the settings.
        tool: the operation.
        arguments: the input of the call.
        credentials: what security adds.
        values: the values of the credentials that headers and the query of the settings refer to.

    Raises:
        ArgumentError: an argument cannot be sent.
        DocumentError: a credential or a header of the settings cannot be sent.
    """
    operation = tool.operation
    path, query, headers, cookies = operation.path, list[str](), dict[str, str](), list[str]()
    given = [(each, arguments[name]) for name, each in tool.input.parameters.items() if name in arguments]
    for parameter, value in (*tool.input.fixed, *given):
        if parameter.where == "path":
            path = path.replace(f"{{{parameter.name}}}", path_text(parameter, value))
        elif value is None:
            continue
        elif parameter.where == "header":
            headers[parameter.name] = header_text(parameter, value)
        elif parameter.where == "cookie":
            cookies += query_of(parameter, value)
        else:
            query += query_of(parameter, value)
    settings_query = (_pair(name, fill_credentials(text, values)) for name, text in service.query.items())
    fixed_query = (*settings_query, *credentials.query)
    _refuse_same_names(query, fixed_query)
    _refuse_same_names(cookies, credentials.cookies)
    fixed = {name: fill_credentials(text, values) for name, text in service.headers.items()} | credentials.headers
    for name, text in fixed.items():
        if not _is_header_text(text):
            reason = "has characters that a header cannot carry, such as a line break"
            raise DocumentError(f"the value of the header {name} from the settings {reason}; correct its credential")
    content_type, body = _body(tool, arguments)
    own = {
        "Accept": _accepted(operation.responses),
        "Content-Type": content_type,
        "Cookie": "; ".join((*cookies, *credentials.cookies)),
    }
    sent = {name: text for name, text in own.items() if text}
    for each in (headers, fixed):  # later ones replace earlier ones, however their names are written
        lowered = {name.lower() for name in each}
        sent = {name: text for name, text in sent.items() if name.lower() not in lowered} | each
    return HttpRequest(
        method=operation.method,
        url=_url_below(tool.base_url, path, (*query, *fixed_query)),
        headers=sent,
        body=body,
        secrets=(*credentials.secrets, *values.values()),
        fixed_query=fixed_query,
    )


def _url_below(base: str, path: str, query: Iterable[str]) -> str:
    """Return a URL below a base URL; no path of a document can change the host."""
    below, _, own = path.partition("#")[0].partition("?")
    parts = "&".join((*((own,) if own else ()), *query))
    return f"{base}/{below.removeprefix('/')}" + (f"?{parts}" if parts else "")


def _refuse_same_names(pairs: Iterable[str], fixed: Iterable[str]) -> None:
    """Reject arguments with the name of a parameter that the settings or a credential supply."""
    taken = {_name(each) for each in fixed}
    for each in pairs:
        if _name(each) in taken:
            raise ArgumentError(f"{_name(each)} is set by the settings; leave it out")


def _name(pair: str) -> str:
    return unquote(pair.partition("=")[0]).lower()


def _body(tool: OperationTool, arguments: JsonObject) -> tuple[str | None, bytes | None]:
    body = tool.operation.body
    names = (tool.input.body_argument,) if tool.input.members is None else tool.input.members
    given: JsonObject = {name: arguments[name] for name in names if name in arguments}
    if body is None or not (given or (body.is_required and tool.input.members is not None)):
        return None, None
    return encode_body(body, given[names[0]] if tool.input.members is None else given)


def _accepted(responses: Mapping[str, JsonObject]) -> str:
    """Return the media types that a successful response may have, JSON first."""
    found: list[str] = []
    for status, response in responses.items():
        if status.startswith("2") or status == "default":
            found += object_of(response.get("content"))
    kinds = sorted(dict.fromkeys(found), key=lambda each: not is_json(each))
    return ", ".join(kinds[:4]) or "application/json, */*;q=0.5"


def arguments_of(tool: OperationTool, arguments: JsonObject) -> tuple[JsonObject, int]:
    """Return the arguments of the request, and how many pages to fetch."""
    if not tool.input.is_paged:
        return arguments, 1
    pages = arguments.get(PAGES)
    rest: JsonObject = {name: value for name, value in arguments.items() if name != PAGES}
    return rest, int(pages) if isinstance(pages, int | float) else 1
