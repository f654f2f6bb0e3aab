"""Responses as outputs: content by media type, the pages of a list as one value, and errors with a remedy."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import parse_qsl, quote, urlsplit

from agenttool.adapters.openapi.http import HttpResponse, mask, resolve_in_origin
from agenttool.adapters.openapi.operations import ApiParameter, is_json
from agenttool.adapters.openapi.settings import OpenApiService, Paging
from agenttool.codec import has_more_values, list_of, object_of, parse_value, write_own
from agenttool.errors import AgentToolError, RecordError, ToolFailure
from agenttool.ports.output import MAX_TEXT_CHARS, MAX_VALUES, Media, NativeOutput
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
_PLACES = ("loc", "field", "path", "pointer", "name", "param")
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


_MAX_LEVELS, _MAX_MEMBERS = 3, 1000
_LINK = re.compile(r'<([^<>]*)>((?:[^<"]|"[^"]*")*)')
_RELATION = re.compile(r'\brel\s*=\s*"?([^",;]+)', re.IGNORECASE)
_OTHER_PAGES = {"prev", "previous", "first", "last"}
_NOT_PLAIN = re.compile("[^a-z0-9]+")

# Names without case and punctuation, as `_plain` returns them.
_PAGE_PARAMETERS = re.compile(
    "page(number|no|token|cursor|after)?|(next|nextpage|continuation)token|(start|next)?cursor|(starting)?after|"
    "offset|skip|start(at|index)?|continue|marker"
)
_NEXT_MEMBERS = ("next", "nexturl", "nextlink", "odatanextlink", "nextpageurl", "nextpage")
_URL_MEMBERS = ("href", "url", "uri", "link")


def output_of(response: HttpResponse, mapping: OpenApiMapping, *remarks: str, secrets: tuple[str, ...]) -> NativeOutput:
    """Return the output of a successful response, with remarks about it for the caller.

    Secrets are masked after decoding; the runtime cannot mask fetched tokens.
    """
    kind, notes = response.content_type, [*remarks, *filter(None, [response.note])]
    value: object = UNSET
    content: object = None
    if not response.body:
        location = response.headers.get("location")
        content = f"status {response.status}, no content" + (f", location {location}" if location else "")
    elif is_json(kind) or not kind:
        try:
            value = _masked(response.value, secrets)
        except RecordError:
            notes.append(f"the response is declared as {kind or 'JSON'} and is not JSON")
            content = _decoded(response)
    elif kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXTS:
        content = _decoded(response)
    else:
        content = Media(mask(response.body.decode("latin-1"), secrets).encode("latin-1"), kind)
    if not notes and content is None:
        return NativeOutput(value=value, external_mappings=(mapping,))
    # The notes come first, because the preview of a long result has only its start.
    texts = [f"Note: {each}." for each in notes]
    texts += [write_own(value).decode()] if content is None else [content] if isinstance(content, str) else []
    items = [text_item(mask(each, secrets)) for each in texts]
    return NativeOutput(
        content=(*items, content) if isinstance(content, Media) else tuple(items),
        structured_content=value,
        external_mappings=(mapping,),
    )


def _masked(value: Json, secrets: tuple[str, ...]) -> Json:
    """Return a JSON value without secrets in its texts and names."""
    if not secrets:
        return value
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
        found = response.value if is_json(response.content_type) else _decoded(response)
        found = _masked(found, secrets)
    except RecordError:
        found = mask(_decoded(response), secrets)
    words = _message_in(found)[:MAX_ERROR_CHARS]
    text = found if isinstance(found, str) else write_own(found).decode()
    shown = found if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS]
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
            native_error_ref={"status": status, "body": shown},
        )
    )


def _message_in(value: Json) -> str:
    """Return the words of an error body: of a problem document, or of one of the usual forms."""
    if isinstance(value, str):
        return " ".join(re.sub(r"<[^>]{0,500}>", " ", value[: 4 * MAX_ERROR_CHARS]).split())
    if isinstance(value, list):
        return "; ".join(filter(None, map(_message_in, value[:5])))
    if not isinstance(value, dict):
        return ""
    texts = (_message_in(value[name]) for name in _MESSAGE_WORDS if isinstance(value.get(name), str | dict))
    words = [*dict.fromkeys(filter(None, texts))][:2]
    details = next((value[name] for name in _LISTED if isinstance(value.get(name), list | dict) and value[name]), None)
    if isinstance(details, dict):
        details = list[Json]({"field": name, "message": each} for name, each in details.items())
    text = ": ".join(filter(None, [*words, _message_in(details)]))
    place = next((value[name] for name in _PLACES if name in value), None)
    place = ".".join(map(str, place)) if isinstance(place, list) else place
    return f"{place}: {text}" if place and text else text or write_own(value).decode()


class UnknownNextPage(AgentToolError):
    """There may be another page, but it is not fetched; the message says why."""


def _plain(name: str) -> str:
    """Return a name without case and punctuation: `page[after]`, `pageAfter` and `page_after` become `pageafter`."""
    return _NOT_PLAIN.sub("", name.lower())


def has_pages(service: OpenApiService, parameters: Iterable[ApiParameter]) -> bool:
    """Return whether a query parameter selects the page of a list."""
    named = service.paging.parameter if service.paging else None
    names = (each.name for each in parameters if each.where == "query")
    return any(name == named or _PAGE_PARAMETERS.fullmatch(_plain(name)) for name in names)


class FetchedPages:
    """The pages of one call.

    Attributes:
        pages: their JSON values.
        notes: why there may be more pages than these.
    """

    def __init__(self, service: OpenApiService, limit: int, first: HttpResponse) -> None:
        """Take the first page, and how many a call may fetch; the limits of a response and a result apply as well."""
        self.pages: list[Json] = []
        self.notes: list[str] = []
        self._paging = service.paging
        self._limit = min(limit, service.max_pages)
        self._chars_left = min(service.max_response_bytes, MAX_TEXT_CHARS)
        self._first = first

    def add(self, response: HttpResponse, url: str) -> str | None:
        """Add a page, and return the URL of the next page to fetch; None if there is none or it is not fetched."""
        try:
            self._append(response)
            following = self._next_page(response, url)
        except UnknownNextPage as error:
            self.notes += filter(None, [str(error)])  # the output itself says that the first page is no JSON
            return None
        if following is None or following == url:
            return None
        if len(self.pages) >= self._limit:
            self.notes.append(f"there are more pages than the {len(self.pages)} that were fetched")
            return None
        return following

    def _append(self, response: HttpResponse) -> None:
        omitted = f"page {len(self.pages) + 1} {{}} and is left out, so there may be more"
        try:
            value = response.value
        except RecordError as error:
            raise UnknownNextPage(omitted.format("is not JSON") if self.pages else "") from error
        if value and value in self.pages:
            raise UnknownNextPage("the service returned the same page again, so there may be more")
        self._chars_left -= len(response.body)
        if self.pages and type(value) is not type(self.pages[0]):
            kind = "a list" if isinstance(self.pages[0], list) else "an object"
            raise UnknownNextPage(omitted.format(f"is not {kind}"))
        if self.pages and (self._chars_left < 0 or has_more_values([*self.pages, value], MAX_VALUES)):
            raise UnknownNextPage(omitted.format("would make the result too large"))
        self.pages.append(value)

    def _next_page(self, response: HttpResponse, url: str) -> str | None:
        """Return the URL of the next page; None if this is the last page.

        Raises:
            UnknownNextPage: the response does not say whether there is another page.
        """
        links, value = _links(response), self.pages[-1]
        if "next" in links:
            return _resolve(url, links["next"])
        if self._paging is not None:
            return _next_by_member(value, url, self._paging)
        stated = list(_next_members(object_of(value), _MAX_LEVELS))
        for each in stated:
            if isinstance(each, str) and ("?" in each or each.startswith(("http://", "https://", "/"))):
                return _resolve(url, each)
        is_last = stated or len(self.pages) > 1 or links.keys() & _OTHER_PAGES or not _has_items(value, _MAX_LEVELS)
        if is_last and not any(stated):
            return None
        raise UnknownNextPage(
            "there may be more pages, but the response has no link to the next one; request another page by its "
            "parameter, or set paging in the settings of the source"
        )

    def joined(self) -> HttpResponse:
        """Return the first response with the items of all pages; unchanged if there is only one page."""
        if len(self.pages) < 2:  # noqa: PLR2004 -- nothing to join
            return self._first
        return replace(self._first, body=write_own(_join(self.pages)))


def _links(response: HttpResponse) -> dict[str, str]:
    """Return the targets of a Link header by their relations."""
    found: dict[str, str] = {}
    for target, attributes in _LINK.findall(response.headers.get("link", "")):
        relation = _RELATION.search(attributes)
        for name in relation[1].lower().split() if relation else ():
            found.setdefault(name, target)
    return found


def _next_members(value: JsonObject, levels: int) -> Iterator[Json]:
    """Yield the values of members that name the next page, such as `next` or `links.next.href`."""
    if len(value) > _MAX_MEMBERS:
        return  # so many members are items
    for name, each in value.items():
        if _plain(name) in _NEXT_MEMBERS:
            urls = [each[key] for key in each if _plain(key) in _URL_MEMBERS] if isinstance(each, dict) else []
            yield urls[0] if urls else each
        elif isinstance(each, dict) and levels:
            yield from _next_members(each, levels - 1)


def _next_by_member(value: Json, url: str, paging: Paging) -> str | None:
    """Return the URL of the next page by the member that the settings name; None if it is empty or unchanged."""
    for step in paging.member.split("."):
        value = object_of(value).get(step)
    if not value or isinstance(value, dict | list | bool):
        return None
    sent = dict(parse_qsl(urlsplit(url).query)).get(paging.parameter)
    if sent == str(value):
        return None
    head, _, query = url.partition("?")
    label = quote(paging.parameter, safe="")
    others = [each for each in query.split("&") if each and each.partition("=")[0] not in (label, paging.parameter)]
    pair = f"{label}={quote(str(value), safe='')}"
    return f"{head}?{'&'.join((*others, pair))}"


def _resolve(url: str, target: str) -> str:
    found = resolve_in_origin(url, target)
    if found is None:
        raise UnknownNextPage(f"there are more pages; the next one, {target[:200]!r}, has another host")
    return found


def _has_items(value: Json, levels: int) -> bool:
    """Return whether any list near the top of a value has an item."""
    if isinstance(value, dict):
        return levels > 0 and any(_has_items(each, levels - 1) for each in value.values())
    return isinstance(value, list) and bool(value)


def _join(pages: list[Json]) -> Json:
    """Join the values of several pages: objects member by member, lists by concatenation, others by the last value.

    A list that is equal on all pages is not repeated.
    """
    if all(isinstance(each, list) for each in pages) and pages[1:] != pages[:-1]:
        return [item for each in pages for item in list_of(each)]
    if not all(isinstance(each, dict) for each in pages):
        return pages[-1]
    names = dict.fromkeys(name for each in pages for name in object_of(each))
    return {name: _join([each[name] for each in map(object_of, pages) if name in each]) for name in names}
