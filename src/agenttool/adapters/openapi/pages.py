"""Pages of a list: where the next one is, and all of them as one value."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard
from urllib.parse import parse_qsl, quote, urlsplit

from agenttool.adapters.openapi.document import list_of, object_of
from agenttool.adapters.openapi.http import HttpResponse, resolve_in_origin
from agenttool.adapters.openapi.operations import ApiParameter
from agenttool.adapters.openapi.translate import read_value
from agenttool.codec import write_own
from agenttool.errors import AgentToolError, RecordError
from agenttool.records import Json, JsonObject

_MAX_PAGE_DIGITS = 18
_LINK = re.compile(r'<([^<>]*)>((?:[^<"]|"[^"]*")*)')
_RELATION = re.compile(r'\brel\s*=\s*"?([^",;]+)', re.IGNORECASE)
_OTHER_PAGES = {"prev", "previous", "first", "last"}
_CURSORS = (
    *("next_cursor", "nextCursor", "next_page_token", "nextPageToken", "next_token", "nextToken", "cursor", "after"),
)
_CURSOR_PARAMETERS = (
    *("cursor", "page_token", "pagetoken", "next_token", "nexttoken", "after", "starting_after", "page[cursor]"),
    *("page[after]", "continue", "marker"),
)
_NEXT_URLS = ("next", "next_url", "nextLink", "@odata.nextLink", "next_page_url", "next_page", "nextPage")
_PAGE_PARAMETERS = ("page", "pagenumber", "page_number", "page[number]")
_OFFSET_PARAMETERS = ("offset", "skip")
_PAGE_TOTALS = ("total_pages", "totalPages", "page_count", "pages", "last_page")
_ITEM_TOTALS = ("total", "total_count", "totalCount", "totalElements", "total_items", "totalItems", "total_results")
_PAGE_NUMBERS = ("page", "number", "current_page", "currentPage", "pageNumber", "page_number")
_META = ("response_metadata", "meta", "metadata", "pagination", "paging", "links", "_links", "page_info", "page")
_ITEMS = ("items", "results", "data", "content", "value", "values", "records", "entries", "rows")


class UnknownNextPage(AgentToolError):
    """There may be another page, and it is not fetched."""


class FetchedPages:
    """The pages of one call.

    Attributes:
        pages: their JSON values.
        notes: why there may be more.
    """

    def __init__(self, parameters: Iterable[ApiParameter], limit: int, max_bytes: int) -> None:
        """Take the parameters of the operation, and how many pages and bytes a call may have."""
        self.pages: list[Json] = []
        self.notes: list[str] = []
        self._parameters = {each.name.lower(): each for each in parameters if each.where == "query"}
        self._limit = limit
        self._bytes_left = max_bytes
        self._first: HttpResponse | None = None
        self._is_linked = False

    def add(self, response: HttpResponse, url: str) -> str | None:
        """Add a page, and return the URL of the next page to fetch; None if there is none or it is not fetched."""
        self._first = self._first or response
        try:
            return self._add(response, url)
        except UnknownNextPage as error:
            self.notes.append(str(error))
            return None

    def _add(self, response: HttpResponse, url: str) -> str | None:
        try:
            value = read_value(response)
        except RecordError as error:
            if not self.pages:
                return None
            message = f"page {len(self.pages) + 1} is not JSON and left out, so there may be more"
            raise UnknownNextPage(message) from error
        if self.pages and value and value == self.pages[-1]:
            raise UnknownNextPage("the service returned the same page again, so there may be more")
        size = len(_items_in(self.pages[0]) or []) if self.pages else None
        self.pages.append(value)
        self._bytes_left -= len(response.body)
        links, was_linked = _links(response), self._is_linked
        self._is_linked = "next" in links
        if was_linked and not self._is_linked:
            return None  # each page but the last one names the next one
        following = _next_page(links, value, url, self._parameters, size)
        if following is None or following == url:
            return None
        if len(self.pages) >= self._limit or self._bytes_left < 0:
            raise UnknownNextPage(f"there are more pages than the {len(self.pages)} that were fetched")
        return following

    def joined(self) -> HttpResponse:
        """Return the first response with the items of all pages; unchanged if it is not JSON."""
        if self._first is None:
            raise ValueError("there is no page; add one first")
        return replace(self._first, body=write_own(_join(self.pages))) if self.pages else self._first


def _links(response: HttpResponse) -> dict[str, str]:
    """Return the targets of the `Link` header by their relations."""
    found: dict[str, str] = {}
    for target, members in _LINK.findall(response.headers.get("link", "")):
        relation = _RELATION.search(members)
        for name in relation[1].lower().split() if relation else ():
            found.setdefault(name, target)
    return found


def _next_page(
    links: Mapping[str, str], value: Json, url: str, parameters: Mapping[str, ApiParameter], size: int | None
) -> str | None:
    """Return the URL of the next page; None if this is the last one.

    Args:
        links: the targets of its `Link` header.
        value: its JSON value.
        url: the URL of this page.
        parameters: the query parameters of the operation, by their names in lower case.
        size: how many items the first page had; None if this is the first page.

    Raises:
        UnknownNextPage: there may be another page; says why it cannot be fetched.
    """
    if "next" in links:
        return _resolve(url, links["next"])
    if isinstance(value, dict):
        return _next_in_object(value, url, parameters, size)
    if not isinstance(value, list) or not value or links.keys() & _OTHER_PAGES:
        return None
    return _next_number(url, parameters, [], len(value))


def _items_in(value: Json) -> list[Json] | None:
    """Return the items of a page; None if it has no list."""
    if isinstance(value, list):
        return value
    found = object_of(value)
    name = _items_name([found])
    return None if name is None else list_of(found[name])


def _next_in_object(
    value: JsonObject, url: str, parameters: Mapping[str, ApiParameter], size: int | None
) -> str | None:
    """Return the next page by a URL or cursor in the body, the id of its last item, or a number."""
    places = [value, *(each for name in _META if isinstance(each := value.get(name), dict))]
    for place in places:
        found = _next_url(place, url, parameters) or _next_cursor(place, url, parameters)
        if found is not None:
            return found
    items = _items_in(value)
    stated = [each for place in places for name in ("has_more", "hasMore") if isinstance(each := place.get(name), bool)]
    has_more = stated[0] if stated else None
    is_end = has_more is None and any(name in place for place in places for name in (*_NEXT_URLS, *_CURSORS))
    if has_more is False or is_end or items == [] or value.get("last") is True:
        return None
    count = len(items or [])
    if has_more is None:
        has_more = _counts_more(places, url, parameters, count, size)
    last = items[-1] if items else None
    if has_more and "starting_after" in parameters and isinstance(last, dict) and "id" in last:
        return _with_query(url, parameters["starting_after"].name, str(last["id"]))
    if has_more:
        found = _next_number(url, parameters, places, count)
        if found is not None:
            return found
        raise UnknownNextPage("the service has more pages, and does not name the next one")
    if has_more is None and size is None and _numbered(parameters) is not None:
        raise UnknownNextPage("there may be more pages: the response does not say whether this is the last one")
    return None


def _next_url(place: JsonObject, url: str, parameters: Mapping[str, ApiParameter]) -> str | None:
    for name in _NEXT_URLS:
        target = place.get(name)
        target = target.get("href") if isinstance(target, dict) else target
        if isinstance(target, str) and target.startswith(("http://", "https://", "/", "?")):
            return _resolve(url, target)
        page = next((parameters[each] for each in _PAGE_PARAMETERS if each in parameters), None)
        if _is_count(target) and target and page is not None:
            return _with_query(url, page.name, str(target))
    return None


def _next_cursor(place: JsonObject, url: str, parameters: Mapping[str, ApiParameter]) -> str | None:
    known = next((parameters[each] for each in _CURSOR_PARAMETERS if each in parameters), None)
    given = (place.get(name) for name in _CURSORS)
    cursor = next((str(each) for each in given if each and (isinstance(each, str) or _is_count(each))), None)
    if cursor is None:
        return None
    if known is not None:
        return _with_query(url, known.name, cursor)
    if _numbered(parameters) is None:
        raise UnknownNextPage("the service has more pages, and the operation has no parameter for their cursor")
    return None


def _counts_more(
    places: Iterable[JsonObject], url: str, parameters: Mapping[str, ApiParameter], count: int, size: int | None
) -> bool | None:
    """Return whether the totals in the body say that there are pages after this one; None without totals."""
    numbered = _numbered(parameters)
    places = [*places]
    pages, items = _first_count(places, _PAGE_TOTALS), _first_count(places, _ITEM_TOTALS)
    if pages is None and items is None:
        return None
    position = None if numbered is None else _position(url, numbered, places)
    if numbered is None or position is None:
        return None
    if numbered.name.lower() in _OFFSET_PARAMETERS:
        return None if items is None else position + count < items
    before = position - (0 if position == 0 else _start(numbered, 1))
    if pages is not None:
        return before + 1 < pages
    return before * (count if size is None else size) + count < (items or 0)


def _next_number(
    url: str, parameters: Mapping[str, ApiParameter], places: Iterable[JsonObject], count: int
) -> str | None:
    numbered = _numbered(parameters)
    position = None if numbered is None else _position(url, numbered, places)
    if numbered is None or position is None:
        return None
    step = count if numbered.name.lower() in _OFFSET_PARAMETERS else 1
    return _with_query(url, numbered.name, str(position + step)) if step else None


def _numbered(parameters: Mapping[str, ApiParameter]) -> ApiParameter | None:
    """Return the parameter that has the number of the page, or of its first item."""
    return next((parameters[each] for each in (*_PAGE_PARAMETERS, *_OFFSET_PARAMETERS) if each in parameters), None)


def _position(url: str, numbered: ApiParameter, places: Iterable[JsonObject]) -> int | None:
    """Return the number of this page, or of its first item: as sent, declared, or in the response."""
    written = dict(parse_qsl(urlsplit(url).query)).get(numbered.name)
    if written is not None:
        return int(written) if written.isdecimal() and len(written) <= _MAX_PAGE_DIGITS else None
    is_offset = numbered.name.lower() in _OFFSET_PARAMETERS
    stated = None if is_offset else _first_count(places, _PAGE_NUMBERS)
    return _start(numbered, 0 if is_offset else 1 if stated is None else stated)


def _start(numbered: ApiParameter, fallback: int) -> int:
    """Return the number of the first page: the declared default, or a minimum of 0."""
    schema = object_of(numbered.schema)
    default = schema.get("default")
    if _is_count(default):
        return default
    return 0 if schema.get("minimum") == 0 else fallback


def _first_count(places: Iterable[JsonObject], names: Iterable[str]) -> int | None:
    found = (place.get(name) for name in names for place in places)
    return next((each for each in found if _is_count(each)), None)


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _resolve(url: str, target: str) -> str:
    found = resolve_in_origin(url, target)
    if found is None:
        raise UnknownNextPage(f"there are more pages; the next one, {target[:200]!r}, has another scheme or host")
    return found


def _with_query(url: str, name: str, value: str) -> str:
    """Return a URL with another value of one query parameter."""
    head, _, query = url.partition("?")
    label = quote(name, safe="")
    remaining = [each for each in query.split("&") if each and each.partition("=")[0] not in (label, name)]
    return f"{head}?{'&'.join((*remaining, f'{label}={quote(value, safe=chr(45))}'))}"


def _items_name(pages: list[JsonObject]) -> str | None:
    """Return the name of the list that has the items: a usual one, or the one with the most items."""
    lengths: dict[str, int] = {}
    for page in pages:
        for name, each in page.items():
            if isinstance(each, list):
                lengths[name] = lengths.get(name, 0) + len(each)
    usual = next((name for name in _ITEMS if name in lengths), None)
    return usual or max(lengths, key=lambda name: lengths[name], default=None)


def _join(pages: list[Json]) -> Json:
    """Return the pages as one value: lists one after the other, also the lists of objects that differ."""
    first = pages[0]
    if isinstance(first, list):
        return [item for page in pages for item in list_of(page)]
    found = [object_of(page) for page in pages]
    items = _items_name(found)
    if not isinstance(first, dict) or items is None:
        return pages
    joined: JsonObject = {}
    for name in dict.fromkeys(name for page in found for name, each in page.items() if isinstance(each, list)):
        lists = [list_of(page.get(name)) for page in found]
        if name == items or any(each != lists[0] for each in lists):
            joined[name] = [item for each in lists for item in each]
    return {**first, **found[-1], **joined}
