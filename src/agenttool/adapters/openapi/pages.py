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
_MAX_LEVELS, _MAX_MEMBERS = 3, 1000
_LINK = re.compile(r'<([^<>]*)>((?:[^<"]|"[^"]*")*)')
_RELATION = re.compile(r'\brel\s*=\s*"?([^",;]+)', re.IGNORECASE)
_OTHER_PAGES = {"prev", "previous", "first", "last"}
_NOT_PLAIN = re.compile("[^a-z0-9]+")

# The names of parameters and members, as `_plain` writes them.
_CURSOR_PARAMETERS = (
    *("cursor", "pagetoken", "nexttoken", "continuationtoken", "nextcursor", "nextpagetoken", "startcursor", "after"),
    *("startingafter", "pagecursor", "pageafter", "continue", "marker"),
)
_PAGE_PARAMETERS = ("page", "pagenumber", "pageno")
_OFFSET_PARAMETERS = ("offset", "skip", "startat", "startindex", "start")
_CURSORS = ("nextcursor", "nextpagetoken", "nexttoken", "nextmarker", "endcursor", "aftercursor", "cursor", "after")
_NEXT = ("next", "nexturl", "nextlink", "odatanextlink", "nextpageurl", "nextpage")
_ADDRESSES = ("href", "url", "uri", "link")
_MORE = ("hasmore", "hasnextpage", "hasnext", "istruncated")
_LAST = ("last", "islast", "islastpage")
_FLAGS = (*_MORE, *_LAST)
_PAGE_TOTALS = ("totalpages", "pagecount", "pages", "lastpage")
_ITEM_TOTALS = ("total", "totalcount", "totalelements", "totalitems", "totalresults")
_PAGE_NUMBERS = ("page", "number", "currentpage", "pagenumber")
_META = ("responsemetadata", "meta", "metadata", "pagination", "paging", "links", "pageinfo", "page", "pages")
_ITEMS = ("items", "results", "data", "content", "value", "values", "records", "entries", "rows")


class UnknownNextPage(AgentToolError):
    """There may be another page, and it is not fetched."""


def _plain(name: str) -> str:
    """Return a name as all spellings of it have it: `page[after]`, `pageAfter` and `page_after` are one."""
    return _NOT_PLAIN.sub("", name.lower())


def has_pages(parameters: Iterable[ApiParameter]) -> bool:
    """Return whether a parameter selects the page of a list."""
    known = {*_CURSOR_PARAMETERS, *_PAGE_PARAMETERS, *_OFFSET_PARAMETERS}
    return any(each.where == "query" and _plain(each.name) in known for each in parameters)


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
        self._parameters = {_plain(each.name): each for each in parameters if each.where == "query"}
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
        if self.pages and value is not None and type(value) is not type(self.pages[0]):
            kind = "list" if isinstance(self.pages[0], list) else "object"
            message = f"page {len(self.pages) + 1} is no {kind} and left out, so there may be more"
            raise UnknownNextPage(message)
        size = len(_items_in(self.pages[0])) if self.pages else None
        self.pages += [] if value is None and self.pages else [value]
        self._bytes_left -= len(response.body)
        links = _links(response)
        if "next" in links:
            following = _resolve(url, links["next"])
        else:
            is_last = self._is_linked or not _OTHER_PAGES.isdisjoint(links)
            following = None if is_last else _next_page(value, url, self._parameters, size)
        self._is_linked = "next" in links
        if following is None or following == url:
            return None
        if len(self.pages) >= self._limit or self._bytes_left < 0:
            raise UnknownNextPage(f"there are more pages than the {len(self.pages)} that were fetched")
        return following

    def joined(self) -> HttpResponse:
        """Return the first response with the items of all pages; unchanged if there are no others."""
        if self._first is None:
            raise ValueError("there is no page; add one first")
        if len(self.pages) < 2:  # noqa: PLR2004 -- one page
            return self._first
        return replace(self._first, body=write_own(_join(self.pages, _items_path(self.pages))))


def _next_page(value: Json, url: str, parameters: Mapping[str, ApiParameter], size: int | None) -> str | None:
    """Return the URL of the next page as the body names it; None if this is the last one.

    Args:
        value: the JSON value of this page.
        url: the URL of this page.
        parameters: the query parameters of the operation, by their plain names.
        size: how many items the first page had; None if this is the first page.

    Raises:
        UnknownNextPage: there may be another page; says why it cannot be fetched.
    """
    items, members = _items_in(value), _members_about_pages(value)
    has_more = _states_more(members)
    found = None if has_more is False else _named_next(members, url, parameters)
    if found is None and has_more is None:
        has_more = _names_more(members, url)
        if has_more is None:
            has_more = _counts_more(members, url, parameters, len(items), size) if items else False
    if found is None and (has_more or (has_more is None and isinstance(value, list))):
        found = _after_items(members, url, parameters, items)
    if found is None and has_more:
        raise UnknownNextPage("the service has more pages, and does not name the next one")
    is_unknown = has_more is None and size is None and (isinstance(value, list) or _numbered(parameters) is not None)
    if found is None and is_unknown:
        raise UnknownNextPage("there may be more pages: the response does not say whether this is the last one")
    return found


def _links(response: HttpResponse) -> dict[str, str]:
    """Return the targets of a Link header by their relations."""
    found: dict[str, str] = {}
    for target, attributes in _LINK.findall(response.headers.get("link", "")):
        relation = _RELATION.search(attributes)
        for name in relation[1].lower().split() if relation else ():
            found.setdefault(name, target)
    return found


_Members = list[tuple[str, Json]]


def _members_about_pages(value: Json) -> _Members:
    """Return the members that may name the next page: around the items, and in objects about pages."""
    found: _Members = []
    for step in (*_items_path([value]), ""):
        place = object_of(value)
        found += _members_of(place, _MAX_LEVELS)
        value = place.get(step)
    return found


def _members_of(value: JsonObject, levels: int) -> _Members:
    if len(value) > _MAX_MEMBERS:
        return []  # its members are items
    found = [(_plain(name), each) for name, each in value.items()]
    for name, each in tuple(found):
        if name in (*_META, *_NEXT) and isinstance(each, dict) and levels:
            below = _members_of(each, levels - 1)
            found += [(name if key in _ADDRESSES else key, text) for key, text in below]
    return found


def _states_more(members: _Members) -> bool | None:
    """Return whether a flag says that there are more pages; None without one."""
    flags = (each is (name in _MORE) for name, each in members if name in _FLAGS and isinstance(each, bool))
    return next(flags, None)


def _names_more(members: _Members, url: str) -> bool | None:
    """Return whether there is a next page by its cursor, which may be empty; None without one."""
    sent = {text for _, text in parse_qsl(urlsplit(url).query)}
    named = [each for name, each in members if name in _NEXT or name in _CURSORS]
    return any(_is_given(each) and str(each) not in sent for each in named) if named else None


def _named_next(members: _Members, url: str, parameters: Mapping[str, ApiParameter]) -> str | None:
    """Return the next page by a URL, a cursor or a number in the body."""
    for name, each in members:
        if name in _NEXT and isinstance(each, str) and ("?" in each or each.startswith(("http://", "https://", "/"))):
            return _resolve(url, each)
    cursors = [each for each in _CURSOR_PARAMETERS if each in parameters]
    numbered = [each for each in (*_PAGE_PARAMETERS, *_OFFSET_PARAMETERS) if each in parameters]
    wanted = [(f"{word}{each}", each) for each in (*cursors, *numbered) for word in ("next", "nextpage")]
    wanted += [(each, each) for each in cursors] + [(each, cursors[0]) for each in _CURSORS if cursors]
    wanted += [(each, parameter) for each in _NEXT for parameter in (*cursors, *numbered)[:1]]
    sent = dict(parse_qsl(urlsplit(url).query))
    for member, parameter in wanted:
        label = parameters[parameter].name
        for name, each in members:
            if (
                name == member
                and _is_given(each)
                and not isinstance(each, dict | list)
                and sent.get(label) != str(each)
            ):
                return _with_query(url, label, str(each))
    return None


def _after_items(members: _Members, url: str, parameters: Mapping[str, ApiParameter], items: list[Json]) -> str | None:
    """Return the page after the last item, or with the next number."""
    last, after = items[-1] if items else None, parameters.get("startingafter")
    if after is not None and isinstance(last, dict) and "id" in last:
        return _with_query(url, after.name, str(last["id"]))
    numbered = _numbered(parameters)
    position = None if numbered is None else _position(url, numbered, members)
    if numbered is None or position is None:
        return None
    step = len(items) if _plain(numbered.name) in _OFFSET_PARAMETERS else 1
    return _with_query(url, numbered.name, str(position + step)) if step else None


def _counts_more(
    members: _Members, url: str, parameters: Mapping[str, ApiParameter], count: int, size: int | None
) -> bool | None:
    """Return whether the totals in the body say that there are pages after this one; None without totals."""
    numbered = _numbered(parameters)
    pages, items = _first_count(members, _PAGE_TOTALS), _first_count(members, _ITEM_TOTALS)
    position = None if numbered is None else _position(url, numbered, members)
    if numbered is None or position is None or (pages is None and items is None):
        return None
    name = _plain(numbered.name)
    if name in _OFFSET_PARAMETERS:
        position -= name == "startindex"  # it counts from one, or else one request more is sent
        return None if items is None else position + count < items
    before = position - (0 if position == 0 else _start(numbered, 1))
    if pages is not None:
        return before + 1 < pages
    return before * (count if size is None else size) + count < (items or 0)


def _numbered(parameters: Mapping[str, ApiParameter]) -> ApiParameter | None:
    """Return the parameter that has the number of the page, or of its first item."""
    return next((parameters[each] for each in (*_PAGE_PARAMETERS, *_OFFSET_PARAMETERS) if each in parameters), None)


def _position(url: str, numbered: ApiParameter, members: _Members) -> int | None:
    """Return the number of this page, or of its first item: as sent, declared, or in the response."""
    written = dict(parse_qsl(urlsplit(url).query)).get(numbered.name)
    if written is not None:
        return int(written) if written.isdecimal() and len(written) <= _MAX_PAGE_DIGITS else None
    name = _plain(numbered.name)
    is_offset = name in _OFFSET_PARAMETERS
    stated = _first_count(members, (name,) if is_offset else (name, *_PAGE_NUMBERS))
    return _start(numbered, stated if stated is not None else 0 if is_offset else 1)


def _start(numbered: ApiParameter, fallback: int) -> int:
    """Return the number of the first page: the declared default, or a minimum of 0."""
    schema = object_of(numbered.schema)
    default = schema.get("default")
    if _is_count(default):
        return default
    return 0 if schema.get("minimum") == 0 else fallback


def _first_count(members: _Members, names: Iterable[str]) -> int | None:
    return next((each for name in names for key, each in members if key == name and _is_count(each)), None)


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_given(value: Json) -> bool:
    """Return whether a member names something: neither empty, nor a flag, nor a number below one."""
    if isinstance(value, dict):
        return any(map(_is_given, value.values()))
    return value > 0 if _is_count(value) else bool(value) and isinstance(value, str | list)


def _resolve(url: str, target: str) -> str:
    found = resolve_in_origin(url, target)
    if found is None:
        raise UnknownNextPage(f"there are more pages; the next one, {target[:200]!r}, has another host")
    return found


def _with_query(url: str, name: str, value: str) -> str:
    """Return a URL with another value of one query parameter."""
    head, _, query = url.partition("?")
    label = quote(name, safe="")
    pairs = [each for each in query.split("&") if each and each.partition("=")[0] not in (label, name)]
    return f"{head}?{'&'.join((*pairs, '='.join((label, quote(value, safe='')))))}"


def _items_path(pages: list[Json], levels: int = _MAX_LEVELS) -> tuple[str, ...]:
    """Return the names that lead to the list with the items: a usual one, or the longest; none if a page is a list."""
    found = [object_of(each) for each in pages]
    lengths: dict[str, int] = {}
    for page in found:
        for name, each in page.items():
            if isinstance(each, list):
                lengths[name] = lengths.get(name, 0) + len(each)
    usual = next((name for name in _ITEMS if name in lengths), None) or max(
        lengths, key=lengths.__getitem__, default=None
    )
    if usual is not None:
        return (usual,)
    names = [name for name, each in found[0].items() if isinstance(each, dict)] if levels else []
    names = names if len(names) <= _MAX_MEMBERS else []  # they are items
    steps = ((name, _items_path([each.get(name) for each in found], levels - 1)) for name in names)
    paths = [(name, *below) for name, below in steps if below]
    return max(paths, key=lambda path: sum(len(_list_at(each, path)) for each in pages), default=())


def _list_at(value: Json, path: tuple[str, ...]) -> list[Json]:
    for step in path:
        value = object_of(value).get(step)
    return list_of(value)


def _items_in(value: Json) -> list[Json]:
    return _list_at(value, _items_path([value]))


def _join(pages: list[Json], path: tuple[str, ...] | None) -> Json:
    """Return values of several pages as one: objects by member, the items and lists that differ one after the other.

    Args:
        pages: the values at one place of each page.
        path: what leads from there to the items; None if nothing does.
    """
    last = pages[-1]
    if all(isinstance(each, list) for each in pages):
        return [item for each in pages for item in list_of(each)] if path == () or pages[1:] != pages[:-1] else last
    if not all(isinstance(each, dict) for each in pages):
        return last
    found = [object_of(each) for each in pages]
    names = dict.fromkeys(name for each in found for name in each)
    return {
        name: _join([each[name] for each in found if name in each], path[1:] if path and path[0] == name else None)
        for name in names
    }
