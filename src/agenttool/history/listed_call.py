"""The calls of a journal, in the order in which they ended; open calls come last."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property, lru_cache
from itertools import chain, islice
from typing import NamedTuple, cast

from agenttool.codec import json_bytes, to_json
from agenttool.codec.moments import nanoseconds
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError
from agenttool.history.printable import one_line, printable
from agenttool.history.reader import JournalReader, start_ns
from agenttool.journal import steps
from agenttool.journal.projection import records_of
from agenttool.journal.steps import STEPS
from agenttool.policy.wildcards import fits
from agenttool.ports.evidence import REDACTED, CallCompleted, CallEnded
from agenttool.ports.facts import Fact
from agenttool.records import (
    ID_PREFIXES,
    INVOCATION,
    Cancellation,
    InvocationId,
    InvocationStatus,
    JsonObject,
    PermissionDecision,
    ToolId,
    ToolResult,
    UnsetType,
)
from agenttool.records import is_unresolved as is_unresolved_tool
from agenttool.stores.fact_codec import FactHead
from agenttool.stores.sqlite.fact_rows import FactFilter
from agenttool.stores.sqlite.leases import Ownership
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

MAX_RESULT_CHARS = 200
"""So many characters of a result are listed."""

MAX_EXAMINED = 20_000
"""So many calls are examined for one page; a page may have fewer calls than its limit, and a next page."""

_ANSWERS = (steps.ANSWERED, steps.ANSWERED_NO)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(rf"(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})")
_NAME_PART = re.compile(r"[A-Za-z0-9_.:-]+")
"""The parts of a pattern that are the same in the journal."""

_JSON_PART = re.compile(r"[ !#-\[\]-~]+")
"""The parts of a text that are the same in JSON."""


@lru_cache(maxsize=1000)
def tool_name(tool_id: ToolId | None) -> str:
    """Return the qualified name of a tool; empty without a tool."""
    if tool_id is None:
        return ""
    return printable(tool_id.partition(":")[2] if is_unresolved_tool(tool_id) else tool_id.removeprefix("tool_"))


def owner_text(owner: Ownership) -> str:
    """Return the process that owns an open call, and whether it is alive."""
    if owner.process is None:
        return "none: the process that receives the answer continues it"
    state = "" if owner.is_alive else " (gone)" if owner.is_gone else " (runs without a lease)"
    return printable(f"{owner.process}{state}")


def approver_in(decision: PermissionDecision) -> JsonObject:
    """Return how the approver of a decision is known; empty if that is not recorded."""
    found = ((decision.reason and decision.reason.details) or {}).get("approver")
    return found if isinstance(found, dict) else {}


def approver_name(decision: PermissionDecision) -> str:
    """Return the recorded name of the approver, with the claim beside that of the user."""
    known, name = approver_in(decision), decision.decided_by or ""
    has_claim = "claim" in known and "os_user" in known
    return f"{name} (claims to be {known['claim']})" if has_claim else name


def parse_span(option: str, text: str) -> float:
    """Return a length of time in seconds, such as that of `90s`, `30min`, `2h` or `7d`.

    Raises:
        ConfigError: it is none.
    """
    seconds = _seconds(text)
    if seconds is None:
        raise ConfigError(f"{option} must be a length of time, got {text!r}; write 30min, 2h or 7d")
    return seconds


def _seconds(text: str) -> float | None:
    span = _SPAN.fullmatch(text.strip())
    return None if span is None else float(span[1]) * _UNITS[span[2]]


def parse_time(option: str, text: str | None) -> int | None:
    """Return a time in nanoseconds: so long ago (`90s`, `30min`, `2h`, `7d`), or a date with or without a time.

    Raises:
        ConfigError: it is neither.
    """
    if text is None:
        return None
    if (seconds := _seconds(text)) is not None:
        with suppress(OverflowError):
            return SystemClock().now_ns() - round(seconds * 1e9)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text.strip())
        return nanoseconds(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    raise ConfigError(
        f"{option} must be a time, got {text!r}; write 30min, 2h, 7d, 2026-05-08 or 2026-05-08T14:30 (UTC)"
    )


def check_status(status: str | None) -> None:
    """Reject a status that no call can have.

    Raises:
        ConfigError: names the closest one, or all.
    """
    if status is not None and status not in list(InvocationStatus):
        raise ConfigError(f"unknown status {status!r}; {suggestion(status, [each.value for each in InvocationStatus])}")


@cache
def is_tool(pattern: str, tool_id: ToolId | None) -> bool:
    """Return whether a pattern matches the name, the qualified name or the id of a tool."""
    name = tool_name(tool_id)
    return any(fits(pattern, each) for each in (name, name.rpartition(".")[2], tool_id or ""))


def name_text(pattern: str | None) -> bytes:
    """Return the longest part of a pattern that is in every name that it matches."""
    return max(_NAME_PART.findall(pattern or ""), key=len, default="").encode()


@dataclass(frozen=True)
class ListedCall:
    """One call of the list.

    Attributes:
        facts: all its facts, with their positions.
        owner: the process that runs it; none once it has ended.
    """

    facts: list[tuple[int, Fact]]
    owner: Ownership | None = None

    @cached_property
    def status(self) -> InvocationStatus:
        """Its status."""
        found = (fact.step.last for _, fact in reversed(self.facts) if fact.step.last is not None)
        return next(found, InvocationStatus.PLANNED)

    @property
    def at_ns(self) -> int:
        """When it ended; for an open call, the time of its newest fact."""
        return self.facts[-1][1].at_ns

    @property
    def tool_id(self) -> ToolId | None:
        """Its tool."""
        return self.facts[-1][1].tool_id

    @cached_property
    def fields(self) -> dict[str, object]:
        """The fields of the invocation that its facts set; the last one of each name."""
        data = (fact.data for _, fact in self.facts)
        return {
            name: value
            for each in data
            if each is not None and not isinstance(each, dict)
            for name, value in each.contributes().items()
        }

    @cached_property
    def began_ns(self) -> int:
        """When it began."""
        return start_ns(self.facts)

    @property
    def taken_ns(self) -> int:
        """How long it took; for an open call, how long it has been open."""
        return (self.at_ns if self.owner is None else SystemClock().now_ns()) - self.began_ns

    @property
    def actor(self) -> str | None:
        """The actor that made it."""
        actor = self.fields.get("actor_ref")
        return actor if isinstance(actor, str) else None

    @property
    def actor_roles(self) -> tuple[str, ...] | None:
        """The roles of the actor's key; none if they are not known."""
        roles = self.fields.get("actor_roles")
        return tuple(map(str, cast("list[object]", roles))) if isinstance(roles, list | tuple) else None

    @cached_property
    def result(self) -> ToolResult | None:
        """Its result; none if it is open."""
        data = self.facts[-1][1].data
        if isinstance(data, CallEnded | CallCompleted):
            return data.result
        return next((each for each in records_of((self.facts[-1][1],)) if isinstance(each, ToolResult)), None)

    @cached_property
    def approvals(self) -> list[PermissionDecision]:
        """The decisions that an approver made about it."""
        answers = (fact for _, fact in self.facts if fact.step in _ANSWERS)
        return [each for each in records_of(answers) if isinstance(each, PermissionDecision) and each.decided_by]

    @property
    def canceler(self) -> JsonObject:
        """The person who canceled it, as in the details of an approval; empty if no person did."""
        cancellation = self.fields.get("cancellation")
        return (cancellation.requested_by or {}) if isinstance(cancellation, Cancellation) else {}

    @property
    def canceled_by(self) -> str | None:
        """The name of the person who canceled it; none if no person did."""
        return next(_names(self.canceler), None)

    @property
    def first_line(self) -> str:
        """The first line of its result or error, or all lines if that has no word; for an open call, its process."""
        if self.owner is not None:
            return f"process {owner_text(self.owner)}{_awaited(self.owner)}"
        if self.result is None:
            return ""
        items = self.result.model_facing_content or self.result.content or ()
        texts = (each.text if each.text is not None else _item_text(to_json(each)) for each in items)
        text = next((text for text in texts if text.strip()), "")
        first = text.strip().split("\n", 1)[0]
        if not any(map(str.isalnum, first)):  # such as the bracket that begins a document
            first = " ".join(text[: 4 * MAX_RESULT_CHARS].split())
        return one_line(first[: 4 * MAX_RESULT_CHARS])

    def contains(self, text: str) -> bool:
        """Return whether a text is in its inputs or in its result as they are stored, in any case."""
        inputs = [value for name, value in self.fields.items() if name.endswith("_input")]
        found: list[object] = [value for value in inputs if not isinstance(value, UnsetType)]
        if (result := self.result) is not None:
            document = to_json(result)
            found += [document.get(name) for name in ("content", "model_facing_content", "structured_content", "error")]
        texts = "\n".join(json_bytes(value).decode() for value in found).replace(REDACTED, "").lower()  # pyright: ignore[reportArgumentType] -- all of it is JSON
        return text.lower() in texts or json.dumps(text, ensure_ascii=False)[1:-1].lower() in texts

    def is_by(self, pattern: str) -> bool:
        """Return whether a pattern matches its actor, an approver who answered, or the person who canceled it."""
        approvers = (name for each in self.approvals for name in (each.decided_by or "", *_names(approver_in(each))))
        names = [name for name in (self.actor, *approvers, *_names(self.canceler)) if name]
        return any(fits(pattern, each) for name in names for each in (name, name.rpartition(":")[2]))


def _awaited(owner: Ownership) -> str:
    if owner.waits_for_tool:
        return ", waits for a process that has its tool"
    return f", waits for {owner.waits_for}" if owner.waits_for else ""


def _item_text(item: JsonObject) -> str:
    """Return a content item without text: its kind, its name or media type."""
    about = (item.get(name) for name in ("type", "name", "media_type"))
    return " ".join(str(each) for each in about if each is not None)


def _names(person: JsonObject) -> Iterator[str]:
    """Yield the names of a person who answered or canceled: the subject of a key, the claim, and the system's user."""
    principal, user = person.get("principal"), person.get("os_user")
    subject = principal.get("subject") if isinstance(principal, dict) else None
    for name in (subject, person.get("claim"), user.get("name") if isinstance(user, dict) else None):
        if isinstance(name, str):
            yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls are wanted.

    Attributes:
        tool: the name of a tool, with wildcards.
        since_ns, until_ns: the time at which it ended, or the time of its newest fact.
        by: the name of an actor, of an approver, or of a person who canceled, with wildcards.
        containing: text in the inputs or the result, in any case.
        id_part: the beginning or the end of the id of a call, or the beginning of the id of one of its records.
        owner: the actor whose calls alone are wanted; a page does not depend on what the calls of others contain.
    """

    tool: str | None = None
    status: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    by: str | None = None
    containing: str | None = None
    is_open: bool = False
    id_part: str | None = None
    owner: str | None = None

    @property
    def includes_open(self) -> bool:
        """Whether an open call can match."""
        return self.status is None or not InvocationStatus(self.status).is_terminal

    @property
    def includes_ended(self) -> bool:
        """Whether an ended call can match."""
        return not self.is_open and (self.status is None or InvocationStatus(self.status).is_terminal)

    def matches(self, call: ListedCall) -> bool:
        """Return whether a call is wanted."""
        return (
            (self.owner is None or call.actor == self.owner)
            and (self.tool is None or is_tool(self.tool, call.tool_id))
            and (self.status is None or call.status == self.status)
            and (not self.is_open or not call.status.is_terminal)
            and (self.since_ns is None or call.at_ns >= self.since_ns)
            and (self.until_ns is None or call.at_ns < self.until_ns)
            and (self.by is None or call.is_by(self.by))
            and (self.containing is None or call.contains(self.containing))
        )

    @property
    def facts(self) -> FactFilter:
        """Selects a fact of every ended call that matches: one with the text, else the one that ended it."""
        if self.owner is not None:  # the end of a page must not depend on how many calls of others match
            return FactFilter(tuple(step.name for step in STEPS.values() if step.ends))
        if self.containing is not None and (parts := _JSON_PART.findall(self.containing.lower())):
            return FactFilter((), self._accepts_head, max(parts, key=len).encode(), any_case=True)
        if self.by is not None and (name := name_text(self.by)):
            return FactFilter((), self._accepts_head, name)
        wanted = [step.name for step in STEPS.values() if step.ends and self.status in (None, step.last)]
        # Fewer names are quicker to look for than all of them.
        return FactFilter(tuple(wanted), self._accepts_ended, name_text(self.tool))

    def _accepts_head(self, head: FactHead) -> bool:
        """Return whether the call of a fact can match; the fact is older than the end of its call, or equal."""
        is_early = self.until_ns is None or head.at_ns < self.until_ns
        return is_early and (self.tool is None or is_tool(self.tool, head.tool_id))

    def _accepts_ended(self, head: FactHead) -> bool:
        return (self.since_ns is None or head.at_ns >= self.since_ns) and self._accepts_head(head)


def listed_calls(reader: SqliteReader, wanted: CallFilter, limit: int | None) -> Iterator[ListedCall]:
    """Yield the calls that match, or the newest of them: in the order in which they ended, then the open ones.

    Memory grows with open calls, the limit, and the ids of the calls that a text or a name selects.
    """
    still_open = open_matches(reader, wanted)
    if limit is None:
        yield from (call for _, call in _ended_calls(reader, wanted) if call is not None)
    else:
        still_open = still_open[-limit:]
        ended = (call for _, call in _ended_calls(reader, wanted, newest_first=True) if call is not None)
        yield from reversed(list(islice(ended, limit - len(still_open))))
    yield from still_open


def calls_like(reader: JournalReader, part: str, limit: int) -> list[InvocationId]:
    """Return the calls whose ids begin with a text, the newest first; if there are none, those whose ids end with it.

    The beginning may also be that of the id of a record of the call.
    """
    return reader.calls_beginning(_id_prefix(part), limit) or reader.calls_ending(part, limit)


def _id_prefix(part: str) -> str:
    """Return the prefix of a call's id for the prefix of any of its records' ids: `dec_01a…-2` → `inv_01a…`."""
    kind, separator, rest = part.partition("_")
    if not separator:
        return INVOCATION.compose(part)
    return INVOCATION.compose(rest.partition("-")[0]) if kind in ID_PREFIXES else part


def open_matches(reader: JournalReader, wanted: CallFilter) -> list[ListedCall]:
    """Return the open calls that match, in the order of their newest facts."""
    return [call for call in open_calls(reader) if wanted.matches(call)] if wanted.includes_open else []


def _ended_calls(
    reader: JournalReader, wanted: CallFilter, *, newest_first: bool = False, before: int | None = None
) -> Iterator[tuple[int, ListedCall | None]]:
    """Yield the position of each examined call, with the call if it has ended and matches."""
    if wanted.includes_ended:
        for place, facts in reader.calls(wanted.facts, newest_first=newest_first, before=before):
            call = ListedCall(facts)
            yield place, call if call.status.is_terminal and wanted.matches(call) else None


class CallPage(NamedTuple):
    """A page of calls, and the cursor of the next page; none after the last."""

    calls: list[ListedCall]
    cursor: str | None


def page_of_calls(reader: JournalReader, wanted: CallFilter, limit: int, cursor: str | None = None) -> CallPage:
    """Return at most `limit` of the calls that match: the open ones, newest first, then the ended ones by their ends.

    The cursor is the last call that was examined: the id of an open call, or the position at which another call ended.
    A call that ends between two pages is listed again with its end. With `id_part` there is one page, newest first.
    """
    if wanted.id_part is not None:
        now = SystemClock().moment()
        like = (
            ListedCall(facts, reader.ownership(each, now))
            for each in calls_like(reader, wanted.id_part, MAX_EXAMINED)
            if (facts := [*reader.facts_of(each)])
        )
        return CallPage([*islice(filter(wanted.matches, like), limit)], None)
    calls: list[ListedCall] = []
    is_past_open = cursor is not None and cursor.isdecimal()
    opened = () if is_past_open else _open_before(reader, wanted, cursor)
    ended = _ended_calls(reader, wanted, newest_first=True, before=int(cursor) if is_past_open and cursor else None)
    for examined, (place, call) in enumerate(chain(opened, ended), 1):
        calls += [] if call is None else [call]
        if len(calls) == limit or examined == MAX_EXAMINED:
            return CallPage(calls, str(place))
    return CallPage(calls, None)


def _open_before(
    reader: JournalReader, wanted: CallFilter, before: str | None
) -> Iterator[tuple[str, ListedCall | None]]:
    """Yield the id of each open call that began before another one, newest first, with the call if it matches."""
    owned = dict(reader.open_owners(SystemClock().moment())) if wanted.includes_open else {}
    for invocation_id in sorted(owned, reverse=True):
        if before is None or invocation_id < before:
            call = ListedCall([*reader.facts_of(invocation_id)], owned[invocation_id])
            is_open = call.facts and not call.status.is_terminal  # it may have ended since
            yield invocation_id, call if is_open and wanted.matches(call) else None


def open_calls(reader: JournalReader) -> Iterator[ListedCall]:
    """Yield the open calls of all processes, in the order of their newest facts."""
    owned = reader.open_owners(SystemClock().moment())
    found = [ListedCall(facts, owner) for call, owner in owned if (facts := list(reader.facts_of(call)))]
    yield from sorted(found, key=lambda call: call.facts[-1][0])


def check_tool(reader: SqliteReader, tool: str | None) -> None:
    """Reject a tool that has no call in the journal.

    Raises:
        ConfigError: it has none; it suggests another.
    """
    if tool is None:
        return
    known = {head.tool_id: None for head, _ in reader.sizes(0) if head.tool_id is not None}
    if any(is_tool(tool, each) for each in known):
        return
    names = {name: None for each in known for name in (tool_name(each), tool_name(each).rpartition(".")[2])}
    advice = suggestion(tool, names) if names else "it holds no calls"
    raise ConfigError(f"no call in {str(reader.path)!r} is of a tool like {tool!r}; {advice}")
