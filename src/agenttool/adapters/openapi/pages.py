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
from agenttool.ports.output import MAX_TEXT_CHARS, MAX_VALUES
from agenttool.records import Json, JsonObject
from agenttool.records import replace as replace_record

_MAX_PAGE_DIGITS = 18
_MAX_LEVELS, _MAX_MEMBERS = 3, 1000
_LINK = re.compile(r'<([^<>]*)>((?:[^<"]|"[^"]*")*)')
_RELATION = re.compile(r'\brel\s*=\s*"?([^",;]+)', re.IGNORECASE)
_OTHER_PAGES = {"prev", "previous", "first", "last"}
_NOT_PLAIN = re.compile("[^a-z0-9]+")

# Names of query parameters, as `_plain` returns them.
_CURSOR_PARAMETERS = (
    *("cursor", "pagetoken", "nexttoken", "continuationtoken", "nextcursor", "nextpagetoken", "startcursor", "after"),
    *("startingafter", "pagecursor", "pageafter", "continue", "marker"),
)
_PAGE_PARAMETERS = ("page", "pagenumber", "pageno")
_OFFSET_PARAMETERS = ("offset", "skip", "startat", "startindex", "start")

# Names of members of a response, as `_plain` returns them.
_CURSORS = ("nextcursor", "nextpagetoken", "nexttoken", "nextmarker", "endcursor", "aftercursor", "cursor", "after")
_NEXT_MEMBERS = ("next", "nexturl", "nextlink", "odatanextlink", "nextpageurl", "nextpage")
_URL_MEMBERS = ("href", "url", "uri", "link")
_MORE = ("hasmore", "hasnextpage", "hasnext", "istruncated")
_LAST = ("last", "islast", "islastpage")
_PAGE_TOTALS = ("totalpages", "pagecount", "pages", "lastpage")
_ITEM_TOTALS = ("total", "totalcount", "totalelements", "totalitems", "totalresults")
_PAGE_NUMBERS = ("page", "number", "currentpage", "pagenumber")
_PAGE_OBJECTS = (
    *("responsemetadata", "meta", "metadata", "pagination", "paging", "links", "pageinfo", "page", "pages"),
    *("resultinfo", "cursors"),
)
_ITEMS = ("items", "results", "data", "content", "value", "values", "records", "entries", "rows")


_Members = list[tuple[str, Json]]
"""Members of a response: their names, as `_plain` returns them, and their values."""


class UnknownNextPage(AgentToolError):
    """There may be another page, but it is not fetched; the message says why."""


def _plain(name: str) -> str:
    """Return a name without case and punctuation: `page[after]`, `pageAfter` and `page_after` become `pageafter`."""
    return _NOT_PLAIN.sub("", name.lower())


def has_pages(parameters: Iterable[ApiParameter]) -> bool:
    """Return whether a parameter selects the page of a list."""
    known = {*_CURSOR_PARAMETERS, *_PAGE_PARAMETERS, *_OFFSET_PARAMETERS}
    return any(each.where == "query" and _plain(each.name) in known for each in parameters)


class FetchedPages:
    """The pages of one call.

    Attributes:
        pages: their JSON values.
        notes: why there may be more pages than these.
    """

    def __init__(self, parameters: Iterable[ApiParameter], limit: int, max_bytes: int) -> None:
        """Take the parameters of the operation, and how many pages and bytes a call may fetch.

        The limits of a result, on characters and values, apply as well.
        """
        self.pages: list[Json] = []
        self.notes: list[str] = []
        self._parameters = {_plain(each.name): each for each in parameters if each.where == "query"}
        self._limit = limit
        self._chars_left, self._values_left = min(max_bytes, MAX_TEXT_CHARS), MAX_VALUES
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
            raise self._omitted("is not JSON") from error
        size = len(_items_in(self.pages[0])) if self.pages else None
        if not self.pages or (value is not None and self._is_new(value, url)):
            self._append(value, len(response.body))
        links, members = _links(response), _members_about_pages(value)
        link = links.get("next") or _link_in_body(members)
        if link is not None:
            following = _resolve(url, link)
        else:
            is_last = self._is_linked or not _OTHER_PAGES.isdisjoint(links)
            following = None if is_last else _next_page(value, members, url, self._parameters, size)
        self._is_linked = link is not None
        if following is None or following == url:
            return None
        if len(self.pages) >= self._limit:
            raise UnknownNextPage(f"there are more pages than the {len(self.pages)} that were fetched")
        return following

    def _is_new(self, value: Json, url: str) -> bool:
        """Return whether a page must be added; False if the service returned the first page again for page 1.

        Raises:
            UnknownNextPage: the service returned any other page again.
        """
        if len(self.pages) == 1 and self._is_first_again(value, url):
            return False
        # Two pages without items may be equal, unless one follows the other.
        if value and value in (self.pages if _items_in(value) else self.pages[-1:]):
            raise UnknownNextPage("the service returned the same page again, so there may be more")
        return True

    def _append(self, value: Json, chars: int) -> None:
        values = _count_values(value)
        if self.pages and type(value) is not type(self.pages[0]):
            raise self._omitted(f"is not {'a list' if isinstance(self.pages[0], list) else 'an object'}")
        if self.pages and (chars > self._chars_left or values > self._values_left):
            raise self._omitted("would make the result too large")
        self.pages.append(value)
        self._chars_left -= chars
        self._values_left -= values

    def _omitted(self, reason: str) -> UnknownNextPage:
        return UnknownNextPage(f"page {len(self.pages) + 1} {reason} and is left out, so there may be more")

    def _is_first_again(self, value: Json, url: str) -> bool:
        """Return whether page 1 is the first page, not the second; stores from which number the service counts."""
        numbered = _number_parameter(self._parameters)
        if (
            numbered is None
            or _plain(numbered.name) not in _PAGE_PARAMETERS
            or _query_of(url).get(numbered.name) != "1"
        ):
            return False
        first = self.pages[0]
        is_first = (_items_in(value) or value) == (_items_in(first) or first)
        self._parameters[_plain(numbered.name)] = replace_record(numbered, schema={"default": int(is_first)})
        return is_first

    def joined(self) -> HttpResponse:
        """Return the first response with the items of all pages; unchanged if there is only one page."""
        if self._first is None:
            raise ValueError("there is no page; add one first")
        if len(self.pages) < 2:  # noqa: PLR2004 -- nothing to join
            return self._first
        return replace(self._first, body=write_own(_join(self.pages, _items_path(self.pages))))


def _next_page(
    value: Json, members: _Members, url: str, parameters: Mapping[str, ApiParameter], size: int | None
) -> str | None:
    """Return the URL of the next page by what the body says about pages; None if this is the last page.

    Args:
        value: the JSON value of this page.
        members: its members about pages.
        url: the URL of this page.
        parameters: the query parameters of the operation, by their plain names.
        size: how many items the first page had; None if this is the first page.

    Raises:
        UnknownNextPage: there may be another page, but the response does not say where.
    """
    items, has_more = _items_in(value), _more_by_flag(members)
    found = None if has_more is False else _next_by_cursor(members, url, parameters)
    if found is not None:
        return found
    if has_more is None:
        has_more = _more_by_cursor(members, url)
    if has_more is None:
        has_more = _more_by_total(members, url, parameters, len(items), size)
    if has_more is None and not items:
        return None
    if has_more or (has_more is None and isinstance(value, list)):
        found = _next_by_position(members, url, parameters, items)
    if found is None and has_more:
        raise UnknownNextPage("the service has more pages, but does not name the next one")
    is_paged = isinstance(value, list) or _number_parameter(parameters) is not None
    if found is None and has_more is None and size is None and is_paged:
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


def _members_about_pages(value: Json) -> _Members:
    """Return the members that may name the next page: those beside the items, and those of objects about pages."""
    found: _Members = []
    for step in (*_items_path([value]), ""):
        place = object_of(value)
        found += _members_of(place, _MAX_LEVELS)
        value = place.get(step)
    return found


def _members_of(value: JsonObject, levels: int) -> _Members:
    if len(value) > _MAX_MEMBERS:
        return []  # so many members are items
    found = [(_plain(name), each) for name, each in value.items()]
    for name, each in tuple(found):
        if name in (*_PAGE_OBJECTS, *_NEXT_MEMBERS) and isinstance(each, dict) and levels:
            below = _members_of(each, levels - 1)
            # The URL in `{"next": {"href": URL}}` counts as the member `next`.
            found += [(name if key in _URL_MEMBERS else key, inner) for key, inner in below]
    return found


def _more_by_flag(members: _Members) -> bool | None:
    """Return whether a flag says that there are more pages; None without a flag."""
    known = (*_MORE, *_LAST)
    flags = (each is (name in _MORE) for name, each in members if name in known and isinstance(each, bool))
    return next(flags, None)


def _more_by_cursor(members: _Members, url: str) -> bool | None:
    """Return whether a cursor has a value other than the one that was sent; None without a cursor."""
    sent = _query_of(url).values()
    named = [each for name, each in members if name in _NEXT_MEMBERS or name in _CURSORS]
    return any(_is_set(each) and str(each) not in sent for each in named) if named else None


def _link_in_body(members: _Members) -> str | None:
    """Return the URL of the next page in the body; None without one, or if a flag says that this is the last page."""
    texts = [each for name, each in members if name in _NEXT_MEMBERS and isinstance(each, str)]
    links = [each for each in texts if "?" in each or each.startswith(("http://", "https://", "/"))]
    return links[0] if links and _more_by_flag(members) is not False else None


def _next_by_cursor(members: _Members, url: str, parameters: Mapping[str, ApiParameter]) -> str | None:
    """Return the URL of the next page by a cursor or a page number in the body; None without one."""
    # The pairs of a member and the parameter that it fills, the most specific ones first.
    cursors = [each for each in _CURSOR_PARAMETERS if each in parameters]
    numbered = [each for each in (*_PAGE_PARAMETERS, *_OFFSET_PARAMETERS) if each in parameters]
    wanted = [(f"{word}{each}", each) for each in (*cursors, *numbered) for word in ("next", "nextpage")]
    wanted += [(each, each) for each in cursors] + [(each, cursors[0]) for each in _CURSORS if cursors]
    wanted += [(each, parameter) for each in _NEXT_MEMBERS for parameter in (*cursors, *numbered)[:1]]
    given = [(name, str(each)) for name, each in members if _is_set(each) and not isinstance(each, dict | list)]
    sent = _query_of(url)
    for member, parameter in wanted:
        label = parameters[parameter].name
        for name, cursor in given:
            if name == member and sent.get(label) != cursor:
                return _with_query(url, label, cursor)
    return None


def _next_by_position(
    members: _Members, url: str, parameters: Mapping[str, ApiParameter], items: list[Json]
) -> str | None:
    """Return the URL of the page after the last item, or of the next page number; None if neither is known."""
    last, after = items[-1] if items else None, parameters.get("startingafter")
    if after is not None and isinstance(last, dict) and "id" in last:
        return _with_query(url, after.name, str(last["id"]))
    numbered = _number_parameter(parameters)
    position = None if numbered is None else _position(url, numbered, members)
    if numbered is None or position is None:
        return None
    step = len(items) if _plain(numbered.name) in _OFFSET_PARAMETERS else 1
    return _with_query(url, numbered.name, str(position + step)) if step else None


def _more_by_total(
    members: _Members, url: str, parameters: Mapping[str, ApiParameter], count: int, size: int | None
) -> bool | None:
    """Return whether the totals in the body say that there are pages after this one; None without totals."""
    numbered = _number_parameter(parameters)
    pages, items = _first_count(members, _PAGE_TOTALS), _first_count(members, _ITEM_TOTALS)
    position = None if numbered is None else _position(url, numbered, members)
    if numbered is None or position is None or (pages is None and items is None):
        return None
    name = _plain(numbered.name)
    if name in _OFFSET_PARAMETERS:
        position -= name == "startindex"  # SCIM counts from one; a service that counts from zero gets one more request
        return None if items is None else position + count < items
    before = position - (0 if position == 0 else _start(numbered, 1))
    if pages is not None:
        return before + 1 < pages
    return before * (count if size is None else size) + count < (items or 0)


def _number_parameter(parameters: Mapping[str, ApiParameter]) -> ApiParameter | None:
    """Return the parameter for the number of a page, or of its first item."""
    return next((parameters[each] for each in (*_PAGE_PARAMETERS, *_OFFSET_PARAMETERS) if each in parameters), None)


def _position(url: str, numbered: ApiParameter, members: _Members) -> int | None:
    """Return the number of this page, or of its first item: as sent, declared, or in the response.

    If the number of the first page is not known, it is taken as 0. A service that counts from 1 then returns the first
    page again for page 1; see `_is_first_again`.
    """
    written = _query_of(url).get(numbered.name)
    if written is not None:
        return int(written) if written.isdecimal() and len(written) <= _MAX_PAGE_DIGITS else None
    name = _plain(numbered.name)
    is_offset = name in _OFFSET_PARAMETERS
    stated = _first_count(members, (name,) if is_offset else (name, *_PAGE_NUMBERS))
    return _start(numbered, stated or 0)


def _start(numbered: ApiParameter, fallback: int) -> int:
    """Return the number of the first page: the declared default, or a declared minimum of 0 or 1."""
    schema = object_of(numbered.schema)
    default, minimum = schema.get("default"), schema.get("minimum")
    if _is_count(default):
        return default
    return minimum if _is_count(minimum) and minimum <= 1 else fallback


def _first_count(members: _Members, names: Iterable[str]) -> int | None:
    return next((each for name in names for key, each in members if key == name and _is_count(each)), None)


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_set(value: Json) -> bool:
    """Return whether a value can be a cursor: not empty, not a boolean, and not a number below one."""
    if isinstance(value, dict):
        return any(map(_is_set, value.values()))
    return value > 0 if _is_count(value) else bool(value) and isinstance(value, str | list)


def _query_of(url: str) -> dict[str, str]:
    """Return the query parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query))


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
    """Return the path to the list of items: a member with a usual name, or the longest list; empty for a list."""
    found = [object_of(each) for each in pages]
    lengths: dict[str, int] = {}
    for page in found:
        for name, each in page.items():
            if isinstance(each, list):
                lengths[name] = lengths.get(name, 0) + len(each)
    if lengths:
        usual = [name for each in _ITEMS for name in lengths if _plain(name) == each]
        return (usual[0] if usual else max(lengths, key=lengths.__getitem__),)
    names = [name for name, each in found[0].items() if isinstance(each, dict)] if levels else []
    names = names if len(names) <= _MAX_MEMBERS else []  # so many members are items
    steps = ((name, _items_path([each.get(name) for each in found], levels - 1)) for name in names)
    paths = [(name, *below) for name, below in steps if below]
    return max(paths, key=lambda path: sum(len(_list_at(each, path)) for each in pages), default=())


def _list_at(value: Json, path: tuple[str, ...]) -> list[Json]:
    for step in path:
        value = object_of(value).get(step)
    return list_of(value)


def _items_in(value: Json) -> list[Json]:
    return _list_at(value, _items_path([value]))


def _count_values(value: Json) -> int:
    """Return how many values are inside a value, at any depth."""
    count, level = 0, [value]
    while level:
        outers = [each for each in level if isinstance(each, dict | list)]
        level = [item for each in outers for item in (each.values() if isinstance(each, dict) else each)]
        count += len(level)
    return count


def _join(pages: list[Json], path: tuple[str, ...] | None) -> Json:
    """Join the values of several pages: objects member by member, lists by concatenation, others by the last value.

    A list that is equal on all pages is not repeated, unless it has the items.

    Args:
        pages: the values at one place of each page.
        path: the path from there to the items; None if the items are elsewhere.
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
