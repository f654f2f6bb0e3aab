"""Removal of sensitive fields, secret values and stack traces from everything that leaves a call."""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from enum import Enum
from functools import cached_property
from itertools import chain
from typing import TypeVar, cast
from unicodedata import is_normalized, normalize

from agenttool.codec import json_bytes, parse_object
from agenttool.codec.visible_text import may_hide, without_hidden
from agenttool.errors import RecordError
from agenttool.ports.evidence import REDACTED
from agenttool.records import PAYLOAD_SCHEME, Json, JsonObject, Live, Part, replace
from agenttool.results.messages import MAX_MESSAGE_CHARS, clean_message, encodable, ends_of, shorten, without_codes
from agenttool.results.secret_forms import (
    LONGEST_ESCAPE,
    MIN_CHARS,
    forms_of,
    shortest_form,
    unescaped,
)
from agenttool.schema.explain import pointer_of

MARKER = REDACTED
"""Replaces a sensitive value."""

_INDEX = re.compile(r"\[([^\[\]]*)\]")
_WHOLE = ("", "$", "*", "/*")

JSON_IN_JSON = 2
"""How often a text is read as JSON within JSON in the search for a secret."""

MAX_SECRETS = 100
MAX_SECRET_LINES = 1000
MAX_SECRET_CHARS = 100_000
"""A call with more secrets, or lines or characters in them, has texts that may hold one masked as a whole.

The search takes time for each.
"""

# Characters of a text times characters of all forms: about 3 ms, and 30 ms for a text of 100,000 characters.
_MIN_SEARCH, _SEARCH_PER_CHAR = 10_000_000, 1000
# From these sizes on, the search does not become slower with longer forms.
_LONG_TEXT, _LONG_FORM = 2500, 100
_TWO_PARTS = 7

_INNER = frozenset({dict, list})
_OWN_FIELDS = frozenset({"result_id", "invocation_id", "schema_version", "created_at", "digest", "media_type", "phase"})

_CUT = " … (more characters left out) … "

_P = TypeVar("_P", bound=Part)


_Paths = tuple[tuple[str, ...], ...]
"""The remaining steps of each path that leads to a sensitive place below the current value."""


class Redactor:
    """Replaces the values at sensitive places of JSON values; the rest is shared with the input, not copied."""

    def __init__(self, paths: Iterable[str], declared: frozenset[str] = frozenset()) -> None:
        """Compile paths; see `compile_redactor`."""
        self._paths = tuple(paths)
        self.declared = declared
        self._names: set[str] = set()
        self._start: _Paths = ()
        self.is_whole = False
        for path in self._paths:
            self._add(path)
        top = {path[0] for path in self._start if len(path) == 1}
        has_star = any(path[0] == "*" for path in self._start)
        self._top_level = None if self.is_whole or has_star else frozenset(self._names | top)
        """The sensitive members of an object without inner objects; none if a path can match any member."""

    def _add(self, path: str) -> None:
        if path in _WHOLE:
            self.is_whole = True
        elif path.startswith("/"):
            steps = [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
            self._start = (*self._start, tuple(steps))
        else:
            self._names.add(path)
            steps = [step for step in _INDEX.sub(r".\1", path).removeprefix("$").split(".") if step]
            if len(steps) > 1:
                self._start = (*self._start, tuple(steps))
            else:
                self._names.update(steps)

    def with_paths(self, paths: Iterable[str]) -> "Redactor":
        """Return a redactor for these paths and its own."""
        return Redactor((*self._paths, *paths), self.declared)

    def redact(self, value: Json) -> Json:
        """Return the value with the marker at every sensitive place, or the same object if there is none.

        A value that is nested too deeply to be searched is replaced as a whole.
        """
        return self._split(value)[0]

    def find(self, value: Json) -> list[Json]:
        """Return the values at sensitive places, unchanged."""
        names = self._top_level
        if names is None or type(value) is not dict or not _INNER.isdisjoint(map(type, value.values())):
            return self._split(value)[1]
        return [value[name] for name in value if name in names]

    def _split(self, value: Json) -> tuple[Json, list[Json]]:
        """Return the redacted value, and the values that were removed from it."""
        if self.is_whole:
            return MARKER, [value]
        found: list[Json] = []
        searched = value
        if isinstance(value, dict):
            # A large member without a sensitive name is common, and need not be searched step by step.
            searched = {name: item for name, item in value.items() if self._may_be_in(name, item)}
        try:
            redacted = self._redacted(searched, self._start, found)
        except RecursionError:
            return MARKER, [value]
        if redacted is searched:
            return value, found
        return {**value, **redacted} if isinstance(value, dict) and isinstance(redacted, dict) else redacted, found

    def _may_be_in(self, name: str, item: Json) -> bool:
        """Return whether a member of the root is sensitive, or may have a sensitive place in it."""
        if self._inner(name, self._start, through=False) != ():
            return True
        level = [item]
        while outers := [each for each in level if isinstance(each, dict | list)]:
            if any(isinstance(outer, dict) and not self._names.isdisjoint(outer) for outer in outers):
                return True
            level = [*chain.from_iterable(map(_values, outers))]
        return False

    def _redacted(self, value: Json, paths: _Paths, found: list[Json]) -> Json:
        if not isinstance(value, dict | list):
            return value
        is_list = isinstance(value, list)
        changed: dict[str, Json] = {}
        for step, item in ((str(at), item) for at, item in enumerate(value)) if is_list else value.items():
            inner = self._inner(step, paths, through=is_list)
            if inner is None:
                found.append(item)
            new = MARKER if inner is None else self._redacted(item, inner, found)
            if new is not item:
                changed[step] = new
        if not changed:
            return value
        return [changed.get(str(at), item) for at, item in enumerate(value)] if is_list else {**value, **changed}

    def _inner(self, step: str, paths: _Paths, *, through: bool) -> _Paths | None:
        """Return the paths one step down, or none where one ends; a path passes through lists it does not name."""
        if not through and step in self._names:
            return None
        if not paths:
            return paths
        inner = tuple(path[1:] for path in paths if path[0] in (step, "*"))
        if () in inner:
            return None
        return (*inner, *paths) if through else inner


def compile_redactor(paths: Iterable[str] | None, declared: Iterable[str] = ()) -> Redactor | None:
    """Compile the sensitive places of one tool; return none if there are none.

    A place is a name (`password`, on any level), a dotted path (`user.token`, `keys[*].secret`) or a JSON pointer
    (`/user/token`), both from the root. `*` is any item or member, and the empty path is everything. A name with a
    dot is read both as a name and as a path. `declared` are the names of members that are no secrets.
    """
    listed = list(paths or ())
    return Redactor(listed, frozenset(declared)) if listed else None


def restore_redacted(after: Json, before: Json, shown: Json) -> Json:
    """Return an edited value in which everything that is as it was shown is replaced by the original at its place."""
    # A marker may also be part of a text, or in the name of a member.
    if after == shown and any(MARKER in text for text in texts_of(after, declared=())):
        return before
    if isinstance(after, dict) and isinstance(before, dict) and isinstance(shown, dict):
        return {name: restore_redacted(value, before.get(name), shown.get(name)) for name, value in after.items()}
    lists = [each for each in (after, before, shown) if isinstance(each, list)]
    if len(lists) == 3 and len({*map(len, lists)}) == 1:  # noqa: PLR2004 -- all of them are lists
        return [restore_redacted(*each) for each in zip(*lists, strict=True)]
    return after


def reject_moved_markers(after: Json, shown: Json) -> None:
    """Reject an edited value with a marker, also as part of a text, at a place where it was not shown so.

    A value that is not JSON is ignored here; the code that reads it reports the error.

    Raises:
        RecordError: names the first such place.
    """
    try:
        own = parse_object(json_bytes(after))
    except RecordError:
        return
    for steps in _moved_markers(own, shown, ()):
        message = "a redacted value cannot be moved; leave the marker where it was shown, or write a value there"
        raise RecordError(message, pointer=pointer_of(steps))


def _moved_markers(after: Json, shown: Json, steps: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(after, str):
        if MARKER in after and after != shown:
            yield steps
    elif isinstance(after, dict):
        known = shown if isinstance(shown, dict) else {}
        if any(MARKER in name for name in after) and after != shown:
            yield steps
        for name, value in after.items():
            yield from _moved_markers(value, known.get(name), (*steps, name))
    elif isinstance(after, list):
        # The items of a list that grew or shrank cannot be matched with the original items.
        known = shown if isinstance(shown, list) and len(shown) == len(after) else [None] * len(after)
        for place, value in enumerate(after):
            yield from _moved_markers(value, known[place], (*steps, place))


def map_json(
    value: Json,
    leaf: Callable[[Json, JsonObject | None], Json],
    name: Callable[[str], str],
    inside: JsonObject | None = None,
) -> Json:
    """Apply functions to every leaf and every member name; return the same object if nothing changes.

    `leaf` also receives the innermost object that holds the leaf, which starts as `inside`.
    """
    if isinstance(value, list):
        items = [map_json(item, leaf, name, inside) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        members = [(name(key), map_json(item, leaf, name, value)) for key, item in value.items()]
        pairs = zip(members, value.items(), strict=True)
        return value if all(new[0] is old[0] and new[1] is old[1] for new, old in pairs) else dict(members)
    return leaf(value, inside)


class Scrubber:
    """Masks the secrets of one call, in all forms of `secret_forms`.

    The forms are computed for the first text that is long enough to hold one: most results are not.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        """Take the secrets; see `compile_scrubber`."""
        self.secrets = frozenset(secrets)
        self._shortest = min([shortest_form(each) for each in self.secrets])

    @cached_property
    def _masks_all(self) -> bool:
        """Whether the secrets are too many to be searched."""
        lines = sum(each.count("\n") for each in self.secrets)
        chars = sum(map(len, self.secrets))
        return len(self.secrets) > MAX_SECRETS or chars > MAX_SECRET_CHARS or lines > MAX_SECRET_LINES

    @cached_property
    def _forms(self) -> list[str]:
        forms = {each for secret in self.secrets for each in forms_of(secret) if _is_searchable(each)}
        # The longest first, so that no part of a longer form remains.
        return sorted(forms, key=lambda each: (-len(each), each))

    @property
    def _longest(self) -> int:
        """The length of the longest form of a secret."""
        return max(len(self._forms[0]), LONGEST_ESCAPE * max(map(len, self.secrets)))

    def merged_with(self, other: "Scrubber | None") -> "Scrubber":
        """Return a scrubber for the secrets of both."""
        return self if other is None else Scrubber(self.secrets | other.secrets)

    @cached_property
    def _is_ascii(self) -> bool:
        return all(map(str.isascii, self.secrets))

    def text(self, text: str) -> str:
        """Mask every secret in a text; return the same object if there is none.

        If a secret is spelled with other code points, or characters that are not seen divide it, the text is returned
        without such characters.
        """
        if len(text) < self._shortest:
            return text
        masked = self._masked(text)
        plain = self._plain(masked)
        if plain is masked:
            return masked
        found = self._masked(plain)
        return masked if found is plain else normalize("NFC", found)

    def message(self, text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
        """Return a message without controls and secrets that can be encoded, in about `limit` characters.

        Only the two ends of a long message are read. Controls and hidden characters are removed first: they could
        divide a secret. Then the message is cut, so that the search is short. A secret that a cut divides is removed
        with what is beside it.
        """
        if len(text) < self._shortest:
            return scrubbed_message(text, None, limit)
        if self._masks_all:
            return MARKER
        if len(text) > limit:
            half, margin = limit // 2, self._longest
            ends = ends_of(text, 2 * limit + margin)
            head, tail = (without_hidden(without_codes(each)) for each in ends)
            if len(head) > limit or len(ends[0]) < len(text):
                head = self.text(encodable(head[: half + margin]))
                tail = self.text(encodable(tail[-half - margin :]))
                head = f"{head[: max(len(head) - margin, 0)]}{_CUT}{tail[margin:]}"
            text = head
        return shorten(self.text(encodable(without_codes(text))), limit)

    def _masked(self, text: str, mask: Callable[[str], str] = lambda _: MARKER) -> str:
        found = None if self._masks_all else _occurring(self._forms, text)
        if found is None:
            return mask(text)
        for form in found:
            text = text.replace(form, mask(form))
        return self._without_escaped(text, mask) if "\\" in text else text

    def _without_escaped(self, text: str, mask: Callable[[str], str]) -> str:
        """Mask every secret that is spelled with escapes of JSON, also of JSON within JSON.

        A text with such a secret is returned without its escapes; any other is returned unchanged.
        """
        plain = text
        for _ in range(JSON_IN_JSON):
            plain = unescaped(plain)
            found = _occurring(self._forms, plain)
            if found is None:
                return mask(text)
            if found:
                return self._masked(plain, mask)
        return text

    def _plain(self, text: str) -> str:
        """Return a text without hidden characters and, if a secret has marks, with decomposed ones; often the same."""
        if may_hide(text):
            text = without_hidden(text)
        if self._is_ascii or text.isascii() or is_normalized("NFD", text):
            return text
        return normalize("NFD", text)

    def data(self, data: bytes) -> bytes:
        """Mask every secret in bytes without moving any other byte; return the same object if there is none."""
        text = data.decode(errors="surrogateescape")
        masked = self._masked(text, _stars)
        written = data if masked is text else masked.encode(errors="surrogateescape")
        return written if len(written) == len(data) else b"*" * len(data)

    def value(self, value: Json) -> Json:
        """Mask every secret in a JSON value, names and numbers included; return the same object if there is none.

        A value that is nested too deeply to be searched is masked as a whole.
        """
        within = self.within(value)
        try:
            return value if within is None else map_json(value, lambda leaf, _: within.leaf(leaf), within.text)
        except RecursionError:
            return MARKER

    def within(self, value: Json) -> "Scrubber | None":
        """Return a scrubber for what occurs in the texts of one value, which searches many texts faster.

        It is none if no secret occurs there.
        """
        found = None
        if not self._masks_all:
            texts = ["\n".join(texts_of(value, declared=()))]
            for _ in range(JSON_IN_JSON if "\\" in texts[0] else 0):
                texts.append(unescaped(texts[-1]))
            plain = [each for text in texts if (each := self._plain(text)) is not text]
            found = _occurring(self._forms, "\n".join([*texts, *plain]))
        if found == []:
            return None
        narrowed = Scrubber(self.secrets)
        narrowed._masks_all = found is None
        narrowed._forms = found or []
        return narrowed

    def leaf(self, value: Json) -> Json:
        """Mask every secret in one text or number."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            spelled = repr(value)
            return value if self.text(spelled) is spelled else MARKER
        return value

    def part(self, part: _P) -> _P:
        """Mask every secret in the free text of a record; ids, times, digests and enum values stay."""
        changed: dict[str, object] = {}
        for name in part.__struct_fields__:
            before = cast("object", getattr(part, name))
            after = before if name in _OWN_FIELDS else self._member(before)
            if after is not before:
                changed[name] = after
        return replace(part, **changed) if changed else part

    def _member(self, member: object) -> object:
        if isinstance(member, str):
            is_own = isinstance(member, Enum) or member.startswith(PAYLOAD_SCHEME)
            return member if is_own else self.text(member)
        if isinstance(member, Part):
            return self.part(member)
        if isinstance(member, tuple):
            items = cast("tuple[object, ...]", member)
            scrubbed = tuple(self._member(item) for item in items)
            return scrubbed if any(new is not item for new, item in zip(scrubbed, items, strict=True)) else items
        if isinstance(member, dict | list):
            return self.value(cast("Json", member))
        return member


class InputMask(Live, eq=False):
    """Redacts the inputs of one call: the sensitive fields of its tool, then its secrets wherever they occur.

    A nested call has the secrets of the call that made it, also if its own tool has no sensitive fields.
    """

    redactor: Redactor | None = None
    scrubber: Scrubber | None = None

    def redact(self, value: Json) -> Json:
        """Return the value without sensitive fields and secrets; the same object if there are none."""
        if self.redactor is not None:
            value = self.redactor.redact(value)
        return value if self.scrubber is None else self.scrubber.value(value)


def _stars(piece: str) -> str:
    return "*" * len(piece.encode(errors="surrogateescape"))


def compile_scrubber(secrets: Iterable[Json], declared: Container[str] | None = None) -> Scrubber | None:
    """Compile the values of sensitive fields; return none if no value is long enough to search for.

    If the names that a schema declares are given, other names of members inside the values are secrets, too.
    """
    leaves: set[str] = set()
    for secret in secrets:
        leaves.update((secret,) if type(secret) is str else texts_of(secret, declared))
    odd = [each for each in leaves if not (each.isascii() and each.isprintable() and each.strip() == each)]
    if odd and sum(map(len, leaves)) <= MAX_SECRET_CHARS:
        leaves.update(*map(_spellings, odd))
    texts = [each for each in leaves if _is_searchable(each)]
    return Scrubber(texts) if texts else None


def _is_searchable(text: str) -> bool:
    # A part of the marker occurs in every marker.
    return len(text) >= MIN_CHARS and text not in MARKER and not text.isspace()


def _spellings(text: str) -> tuple[str, ...]:
    """Return a secret as `clean_message` writes it, and as `Scrubber` compares it."""
    return clean_message(text, limit=len(text) + 1), normalize("NFD", without_hidden(text))


def _occurring(forms: list[str], text: str) -> list[str] | None:
    """Return the forms that occur in a text, in their order; none if they are too many to be searched one by one.

    The time of a search grows with the text and, in the worst case, with the form. Many forms are excluded first: the
    text is divided into parts of four characters, and a form in it holds one of them at one of its first four places.
    """
    size = len(text)
    budget = max(_MIN_SEARCH, _SEARCH_PER_CHAR * size)
    if size * sum(map(len, forms)) > budget:
        parts = {text[at : at + 4] for at in range(0, size, 4)}
        forms = [each for each in forms if len(each) < _TWO_PARTS or _is_in(each, parts)]
        cap = size if size < _LONG_TEXT else _LONG_FORM
        if size * sum(min(len(each), cap) for each in forms) > budget:
            return None
    return [each for each in forms if each in text]


def _is_in(form: str, parts: set[str]) -> bool:
    """Return whether parts of four characters occur at the start and at the end of a form."""
    starts = form[:4] in parts or form[1:5] in parts or form[2:6] in parts or form[3:7] in parts
    return starts and (form[-4:] in parts or form[-5:-1] in parts or form[-6:-2] in parts or form[-7:-3] in parts)


def texts_of(value: Json, declared: Container[str] | None = None) -> list[str]:
    """Return every text and number inside a value; with `declared`, also the names of members that are not in it."""
    found: list[str] = []
    level: list[Json] = [value]
    while level:
        found += [each for each in level if isinstance(each, str)]
        found += [repr(each) for each in level if isinstance(each, int | float) and not isinstance(each, bool)]
        outers = [each for each in level if isinstance(each, dict | list)]
        if declared is not None:
            names = chain.from_iterable(outer for outer in outers if isinstance(outer, dict))
            found += [name for name in names if name not in declared]
        level = [*chain.from_iterable(map(_values, outers))]
    return found


def _values(outer: JsonObject | list[Json]) -> Iterable[Json]:
    return outer.values() if isinstance(outer, dict) else outer


def scrubbed_message(text: str, scrubber: Scrubber | None, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return a message without controls and secrets that can be encoded, in about `limit` characters."""
    if scrubber is not None:
        return scrubber.message(text, limit)
    return encodable(shorten(without_codes(shorten(text, 2 * limit)), limit))
