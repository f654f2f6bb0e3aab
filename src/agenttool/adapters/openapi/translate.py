"""Responses as outputs: content by media type, and errors with a remedy."""

import re
from typing import cast

from agenttool.adapters.openapi.http import HttpResponse, mask
from agenttool.adapters.openapi.operations import is_json
from agenttool.codec import parse_value, write_own
from agenttool.errors import RecordError, ToolFailure
from agenttool.ports.output import Media, NativeOutput
from agenttool.records import (
    UNSET,
    ErrorClass,
    Json,
    JsonObject,
    OpenApiMapping,
    RetryGuidance,
    ToolError,
    text_item,
)

MAX_ERROR_CHARS = 2000
"""How much of an error body a message has."""

_TEXTS = ("application/xml", "application/yaml", "application/javascript", "application/x-ndjson", "application/jsonl")
_MESSAGE_WORDS = (
    "detail",
    "message",
    "error_description",
    "error_message",
    "error",
    "title",
    "reason",
    "msg",
    "defaultMessage",
)
_LISTED = (
    "errors",
    "detail",
    "details",
    "violations",
    "invalid-params",
    "invalid_params",
    "fieldErrors",
    "issues",
    "message",
)
_CLASSES = {
    400: (ErrorClass.INVALID_ARGUMENTS, "correct the arguments"),
    401: (ErrorClass.CREDENTIAL_MISSING, "the credentials are missing or not accepted; check security in the settings"),
    403: (ErrorClass.EXECUTION_FAILED, "the credentials do not permit this; another account or scope may"),
    404: (ErrorClass.EXECUTION_FAILED, "there is no such thing; check the ids among the arguments"),
    405: (ErrorClass.EXECUTION_FAILED, "the service does not offer this operation"),
    408: (ErrorClass.DEPENDENCY_UNAVAILABLE, "the service was too slow; try again later"),
    409: (ErrorClass.EXECUTION_FAILED, "it conflicts with the present state; read the state first"),
    410: (ErrorClass.EXECUTION_FAILED, "it does not exist any more"),
    412: (ErrorClass.EXECUTION_FAILED, "it was changed meanwhile; read it again first"),
    413: (ErrorClass.INVALID_ARGUMENTS, "send less"),
    415: (ErrorClass.EXECUTION_FAILED, "the service does not accept this media type"),
    422: (ErrorClass.INVALID_ARGUMENTS, "correct the arguments"),
    429: (ErrorClass.RATE_LIMITED, "too many requests; wait before the next call"),
}
_SERVER_ERROR, _FORBIDDEN, _TOO_MANY = 500, 403, 429


def read_value(response: HttpResponse) -> Json:
    """Return the JSON value of a response; a byte order mark does not count.

    Raises:
        ValueError: the body is not JSON.
    """
    body = response.body.removeprefix(b"\xef\xbb\xbf")
    return parse_value(body) if body.strip() else None


def output_of(response: HttpResponse, mapping: OpenApiMapping, *remarks: str, secrets: tuple[str, ...]) -> NativeOutput:
    """Return the output of a successful response, with remarks about it for the caller.

    Secrets are masked after decoding; the runtime cannot mask fetched tokens.
    """
    kind, notes = response.content_type, [*remarks, *filter(None, [response.note])]
    value: object = UNSET
    content: list[object] = []
    if not response.body:
        location = response.headers.get("location")
        text = f"status {response.status}, no content" + (f", location {location}" if location else "")
        content.append(text_item(mask(text, secrets)))
    elif is_json(kind) or not kind:
        try:
            value = _masked(read_value(response), secrets)
        except RecordError:
            notes.append(f"the response is declared as {kind or 'JSON'} and is not JSON")
            content.append(text_item(mask(_decoded(response), secrets)))
    elif kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXTS:
        content.append(text_item(mask(_decoded(response), secrets)))
    else:
        body = mask(response.body.decode("latin-1"), secrets).encode("latin-1")
        content.append(Media(body, kind))
    if not notes and not content:
        return NativeOutput(value=value, external_mappings=(mapping,))
    items = [text_item(write_own(value).decode())] if value is not UNSET else content
    # The notes come first, because the preview of a long result has only its start.
    items = [*(text_item(f"Note: {mask(each, secrets)}.") for each in notes), *items]
    return NativeOutput(
        content=cast("tuple[Media, ...]", tuple(items)),
        structured_content=value,
        external_mappings=(mapping,),
    )


def _masked(value: Json, secrets: tuple[str, ...]) -> Json:
    """Return a JSON value without secrets in its texts and names."""
    text = write_own(value).decode()
    masked = mask(text, (write_own(each).decode()[1:-1] for each in secrets))
    return value if masked == text else parse_value(masked.encode())


def _decoded(response: HttpResponse) -> str:
    charset = re.search(r"charset=\"?([\w.-]+)", response.headers.get("content-type", ""))
    try:
        return response.body.decode(charset[1] if charset else "utf-8", errors="replace")
    except (LookupError, UnicodeError):  # the codec is unknown, or is none for texts
        return response.body.decode("utf-8", errors="replace")


def failure_of(response: HttpResponse, *, service: str, is_safe: bool, secrets: tuple[str, ...]) -> ToolFailure:
    """Return the failure of a response with an error status."""
    status = response.status
    default = ErrorClass.DEPENDENCY_UNAVAILABLE if status >= _SERVER_ERROR else ErrorClass.EXECUTION_FAILED
    advice = "the service failed; try again later" if status >= _SERVER_ERROR else "read its message"
    wait = response.retry_after_s
    is_limited = status == _FORBIDDEN and wait is not None  # some services answer so instead of 429
    error_class, advice = _CLASSES.get(_TOO_MANY if is_limited else status, (default, advice))
    try:
        found = read_value(response) if is_json(response.content_type) else _decoded(response)
        found = _masked(found, secrets)
    except RecordError:
        found = mask(_decoded(response), secrets)
    words = _message_in(found)[:MAX_ERROR_CHARS]
    native: JsonObject = {"status": status, "body": _shortened(found)}
    message = f"{service!r} answered {status}" + (f": {words.rstrip('.')}" if words else "") + f"; {advice}"
    if wait:
        message += f", at least {wait:.0f} s"
    must_change = error_class is ErrorClass.INVALID_ARGUMENTS
    return ToolFailure(
        ToolError(
            error_class=error_class,
            error_code=f"http_{status}",
            message=message,
            retry=RetryGuidance(safe=is_safe, arguments_must_change=must_change or None),
            retry_after=UNSET if wait is None else wait,
            native_error_ref=native,
        )
    )


def _shortened(value: Json) -> Json:
    text = value if isinstance(value, str) else write_own(value).decode()
    return value if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS]


def _message_in(value: Json) -> str:
    """Return the words of an error body: of a problem document, or of one of the usual forms."""
    if isinstance(value, str):
        return " ".join(re.sub(r"<[^>]{0,500}>", " ", value[: 4 * MAX_ERROR_CHARS]).split())
    if isinstance(value, list):
        return "; ".join(filter(None, map(_message_in, value[:5])))
    if not isinstance(value, dict):
        return ""
    words: list[str] = []
    for name in _MESSAGE_WORDS:
        each = value.get(name)
        text = each if isinstance(each, str) else _message_in(each) if isinstance(each, dict) else ""
        if text and text not in words:
            words.append(text)
            if len(words) > 1:
                break
    for name in _LISTED:
        entries = value.get(name)
        if isinstance(entries, list | dict) and entries:
            words.append(_entries(entries))
            break
    return ": ".join(words) or write_own(value).decode()


def _entries(entries: list[Json] | JsonObject) -> str:
    if isinstance(entries, dict):
        return "; ".join(f"{name}: {_message_in(each) or each}" for name, each in list(entries.items())[:5])
    found: list[str] = []
    for each in entries[:5]:
        place = (
            next((each[key] for key in ("loc", "field", "path", "pointer", "name", "param") if key in each), None)
            if isinstance(each, dict)
            else None
        )
        where = ".".join(map(str, place)) if isinstance(place, list) else place
        found.append(f"{where}: {_message_in(each)}" if where else _message_in(each) or str(each))
    return "; ".join(found)
