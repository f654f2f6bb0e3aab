"""Check the values of one record against each other: its versions, ids, states, results and events."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from agenttool.conformance.validate.finding import Finding, flaw
from agenttool.conformance.validate.foreign_records import ID_MEMBERS, ForeignRecord, ids_at, items_of
from agenttool.conformance.validate.schema_checks import check_examples, check_internal_fields, check_schemas
from agenttool.conformance.validate.secret_checks import check_credentials, check_example_values
from agenttool.conformance.validate.value_checks import (
    check_content_digests,
    check_order,
    check_own_digest,
    check_values,
    is_before,
    whole_number,
)
from agenttool.records import (
    OUTCOMES,
    RECORD_TYPES,
    SCHEMA_VERSION,
    ErrorClass,
    EventType,
    InvocationStatus,
    Json,
    JsonObject,
    ResultStatus,
    may_follow,
)
from agenttool.schema.explain import pointer_of


def check_version(record: ForeignRecord) -> Iterator[Finding]:
    """Check for the literal version (AT-VER-01); a readable older one is a warning (AT-VER-04).

    A missing version is reported by the schema.
    """
    version = record.members.get("schema_version")
    if isinstance(version, str) and version != SCHEMA_VERSION:
        name = "old_version" if version.startswith("0.1.") else "unknown_version"
        requirement = "AT-DECL-02" if record.kind == "tool_declaration" else "AT-VER-01"
        yield flaw(name, "/schema_version", version=SCHEMA_VERSION, requirement=requirement)


def check_nested_versions(record: ForeignRecord) -> Iterator[Finding]:
    """Check the versions of a surface's deferred refs; readers inherit it, so this is a warning."""
    for index, ref in items_of(record.members.get("deferred_tools")):
        if isinstance(ref, dict) and ref.get("schema_version") != SCHEMA_VERSION:
            is_missing = ref.get("schema_version") is None
            problem = "does not say its version" if is_missing else "is of another version"
            pointer = pointer_of(("deferred_tools", index, "schema_version"))
            yield flaw("deferred_ref_version", pointer, problem=problem, version=SCHEMA_VERSION)


def check_own_id(record: ForeignRecord) -> Iterator[Finding]:
    """Check that the id of a record is not empty."""
    member = ID_MEMBERS.get(record.kind)
    if member is not None and record.members.get(member) == "":
        yield flaw("empty_id", f"/{member}")


def check_kin(record: ForeignRecord) -> Iterator[Finding]:
    """Check that a call is not its own parent, dependency or retry."""
    own = record.members.get("invocation_id")
    for member in ("parent_invocation_id", "retry_of", "depends_on"):
        for steps, other in ids_at(record.members, member):
            if other == own:
                yield flaw("own_kin", pointer_of(steps))


_FEWEST, _MOST = 3, 10


def check_search_hint(record: ForeignRecord) -> Iterator[Finding]:
    """Check that a search hint has three to ten words (AT-DECL-07)."""
    hint = record.members.get("search_hint")
    if isinstance(hint, str) and not _FEWEST <= len(hint.split()) <= _MOST:
        yield flaw("search_hint_length", "/search_hint", fewest=_FEWEST, most=_MOST)


def check_sequence(record: ForeignRecord) -> Iterator[Finding]:
    """Check that the sequence is 1 or more; gaps are found by the cross checks."""
    sequence = whole_number(record.members.get("sequence"))
    if sequence is not None and sequence < 1:
        yield flaw("sequence_below_one", "/sequence")


def check_event(record: ForeignRecord) -> Iterator[Finding]:
    """Check that an event about a call names the call and the tool (AT-EVT-02)."""
    event_type = record.members.get("event_type")
    for member in ("invocation_id", "tool_id"):
        if member not in record.members and isinstance(event_type, str) and EventType(event_type).concerns_a_call:
            yield flaw("event_without_call", f"/{member}", member=member)


def check_surface(record: ForeignRecord) -> Iterator[Finding]:
    """Check that `tool_refs` lists every loaded and deferred tool, and no blocked or excluded one."""
    listed = record.members.get("tool_refs")
    if not isinstance(listed, list):
        return
    refs = {each for each in listed if isinstance(each, str)}
    for member in ("loaded_tools", "deferred_tools", "blocked_tools", "excluded_tools"):
        is_offered = member in ("loaded_tools", "deferred_tools")
        for steps, tool_id in ids_at(record.members, member):
            if (tool_id in refs) != is_offered:
                yield flaw("offered_not_listed" if is_offered else "withheld_but_listed", pointer_of(steps))


_NO_ENDS = frozenset(str(status) for status in InvocationStatus if not status.is_terminal)


def check_transitions(record: ForeignRecord) -> Iterator[Finding]:
    """Check that transitions are legal, in order of time, and end in the status of the record."""
    steps = [each if isinstance(each, dict) else {} for _, each in items_of(record.members.get("status_transitions"))]
    statuses, times = [each.get("status") for each in steps], [each.get("at") for each in steps]
    for index, (before, after) in enumerate(pairwise(statuses), start=1):
        pointer = pointer_of(("status_transitions", index))
        if isinstance(before, str) and isinstance(after, str) and not _may_follow(before, after):
            name = "step_after_end" if InvocationStatus(before).is_terminal else "illegal_step"
            yield flaw(name, pointer, before=before, after=after)
        if is_before(times[index], times[index - 1]):
            yield flaw("step_too_early", pointer)
    last, status = (statuses or [None])[-1], record.members.get("status")
    if isinstance(last, str) and isinstance(status, str) and last != status:
        yield flaw("last_step", "/status")


@lru_cache(maxsize=4096)
def _may_follow(before: str, after: str) -> bool:
    return may_follow(InvocationStatus(before), InvocationStatus(after))


def check_end(record: ForeignRecord) -> Iterator[Finding]:
    """Check that a call that has ended has a terminal status (AT-INV-13)."""
    status = record.members.get("status")
    if isinstance(record.members.get("ended_at"), str) and isinstance(status, str) and status in _NO_ENDS:
        yield flaw("ended_without_end", "/status", status=status)


_PAIRS = frozenset((outcome.result_status, each) for outcome in OUTCOMES for each in outcome.error_classes)
_SUCCESS = str(ResultStatus.SUCCEEDED)
_ABORTED = frozenset({ResultStatus.SYNTHETIC_ERROR, ResultStatus.CANCELED})
_WANTED_OF_ERROR = ("error_code", "message", "recoverability")


def check_result(record: ForeignRecord) -> Iterator[Finding]:
    """Check that status, `is_error` and error agree."""
    members = record.members
    status, error = members.get("status"), members.get("error")
    if not isinstance(status, str) or (status == _SUCCESS and error is None and members.get("is_error") is False):
        return
    known = ResultStatus(status)
    yield from _check_flag(members.get("is_error"), known)
    within = error.get("abort_reason") if isinstance(error, dict) else None
    if known in _ABORTED and not members.get("abort_reason") and not within:
        yield flaw("no_abort_reason", "/abort_reason")
    if isinstance(error, dict):
        yield from _check_error(error, known)
    elif known.is_error or members.get("is_error") is True:
        yield flaw("no_error_class", "/error")


def _check_flag(flag: Json, status: ResultStatus) -> Iterator[Finding]:
    truth = status.is_error
    if flag == truth or not (flag is None or isinstance(flag, bool)) or (flag is None and not truth):
        return
    word = str(truth).lower()
    yield flaw(
        "is_error",
        "/is_error",
        problem="is missing" if flag is None else "contradicts the status",
        truth=word,
        status=str(status) if status.is_listed else "an unlisted status",
        advice=f"write {word}" if status.is_listed else "use a listed status, or write true",
        requirement="AT-RES-10" if status.is_listed else "AT-VER-07",
    )


def _check_error(error: JsonObject, status: ResultStatus) -> Iterator[Finding]:
    error_class = error.get("error_class")
    if not isinstance(error_class, str):
        yield flaw("no_error_class", "/error/error_class")
    elif ErrorClass(error_class).is_listed and status.is_listed and (status, error_class) not in _PAIRS:
        words = sorted(each for known, each in _PAIRS if known == status)
        allowed = f"one of {', '.join(words)}" if words else "no error"
        pointer = "/error/error_class"
        yield flaw("class_and_status", pointer, error_class=error_class, status=str(status), allowed=allowed)
    for name in _WANTED_OF_ERROR:
        if not error.get(name):
            yield flaw("short_error", f"/error/{name}", name=name)


Check = Callable[[ForeignRecord], Iterable[Finding]]

_OF_ALL: tuple[Check, ...] = (check_version, check_values, check_own_id, check_own_digest)

_OF_KIND: dict[str, tuple[Check, ...]] = {
    "tool_declaration": (
        check_schemas,
        check_examples,
        check_example_values,
        check_internal_fields,
        check_search_hint,
    ),
    "tool_interface": (check_schemas, check_search_hint, check_credentials),
    "tool_permission_profile": (check_credentials,),
    "tool_surface": (check_nested_versions, check_surface),
    "deferred_tool_ref": (check_search_hint,),
    "tool_invocation": (check_transitions, check_end, check_order, check_kin),
    "tool_hook": (check_order,),
    "tool_permission_decision": (check_content_digests,),
    "tool_progress": (check_sequence,),
    "tool_result": (check_result, check_content_digests),
    "tool_event": (check_event,),
}

_CHECKS = {kind: (*_OF_ALL, *_OF_KIND.get(kind, ())) for kind in RECORD_TYPES}


def flaws_of(record: ForeignRecord) -> Iterator[Finding]:
    """Yield the flaws of a record that need no other record."""
    for check in _CHECKS[record.kind]:
        yield from check(record)
