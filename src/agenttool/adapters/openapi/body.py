"""Request bodies: JSON, forms, multipart with files, binary data, and text such as XML."""

import base64
import binascii
import hashlib
from urllib.parse import quote

from agenttool.adapters.openapi.document import object_of
from agenttool.adapters.openapi.operations import FORM, MULTIPART, RequestBody, is_json, media_type
from agenttool.adapters.openapi.parameters import ArgumentError, Style, query_pairs, text_of
from agenttool.codec import write_own
from agenttool.records import Json, JsonObject

_JSON = "application/json"
_BINARY = "application/octet-stream"


def encode_body(body: RequestBody, value: Json) -> tuple[str, bytes]:
    """Return the content type and the bytes of a body.

    Raises:
        ArgumentError: the value cannot be encoded in this media type.
    """
    kind = media_type(body.content_type)
    if kind == FORM:
        return FORM, "&".join(_form_parts(body, _members(value, kind))).replace("%20", "+").encode()
    if kind == MULTIPART:
        return _multipart(body, _members(value, kind))
    if kind == "*/*" or is_json(kind):
        return _JSON if kind == "*/*" else body.content_type, write_own(value)
    content_type = _BINARY if "*" in kind else body.content_type
    if isinstance(value, str | dict):
        data, _, given_type = _file(value)
        return given_type or content_type, data
    return content_type, write_own(value)


def _members(value: Json, kind: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ArgumentError(f"a body of type {kind} is an object, got {type(value).__name__}; write an object")
    return value


def _form_parts(body: RequestBody, members: JsonObject) -> list[str]:
    parts: list[str] = []
    for name, value in members.items():
        encoding = object_of(body.encoding.get(name))
        if "style" in encoding or "explode" in encoding or "allowReserved" in encoding:
            style = str(encoding.get("style") or "form")
            explode = encoding.get("explode")
            reserved = encoding.get("allowReserved") is True
            explodes = explode if isinstance(explode, bool) else style == "form"
            parts += query_pairs(name, value, Style(style, explodes, reserved))
        elif isinstance(value, dict) or "contentType" in encoding:
            parts.append(f"{quote(name, safe='')}={quote(text_of(value), safe='')}")
        else:
            parts += query_pairs(name, value, Style("form", explode=True))
    return parts


def _multipart(body: RequestBody, members: JsonObject) -> tuple[str, bytes]:
    """Encode members as parts. The boundary is a digest of the content, so a retry sends the same bytes."""
    properties = object_of(object_of(body.schema).get("properties"))
    parts: list[tuple[str, bytes]] = []
    for name, value in members.items():
        encoding, schema = object_of(body.encoding.get(name)), object_of(properties.get(name))
        items = value if isinstance(value, list) else [value]
        schema = object_of(schema.get("items")) if isinstance(value, list) and "items" in schema else schema
        parts += [_part(name, each, schema, encoding) for each in items if each is not None]
    digest = hashlib.sha256(b"".join(head.encode() + data for head, data in parts)).hexdigest()
    boundary = f"agenttool-{digest[:40]}"
    blocks = [f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts]
    return f"{MULTIPART}; boundary={boundary}", b"".join((*blocks, f"--{boundary}--\r\n".encode()))


def _part(name: str, value: Json, schema: JsonObject, encoding: JsonObject) -> tuple[str, bytes]:
    wanted = encoding.get("contentType")
    wanted = wanted.partition(",")[0].strip() if isinstance(wanted, str) and wanted.isprintable() else None
    is_file = is_binary(schema) or (isinstance(value, dict) and "base64" in value)
    head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
    if is_file and isinstance(value, str | dict):
        data, filename, content_type = _file(value)
        head += f'; filename="{_quoted(filename or name)}"'
        return f"{head}\r\nContent-Type: {content_type or wanted or _BINARY}", data
    if isinstance(value, dict | list):
        return f"{head}\r\nContent-Type: {wanted or _JSON}", write_own(value)
    return head + (f"\r\nContent-Type: {wanted}" if wanted else ""), text_of(value).encode()


def is_binary(schema: Json) -> bool:
    """Return whether a schema is that of a file or other binary data."""
    found = object_of(schema)
    kind = found.get("type")
    is_text = kind == "string" or (isinstance(kind, list) and "string" in kind)
    media = found.get("contentMediaType")
    encoded = found.get("contentEncoding")
    is_media = isinstance(media, str) and encoded is None and not media.startswith("text/")
    return kind == "file" or (is_text and found.get("format") == "binary") or is_media


def _file(value: str | JsonObject) -> tuple[bytes, str | None, str | None]:
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
    kind = (
        content_type
        if isinstance(content_type, str) and content_type.isascii() and content_type.isprintable()
        else None
    )
    return data, name if isinstance(name, str) else None, kind


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
