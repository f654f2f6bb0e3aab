"""Check what one record says: its versions, ids, states, results and events."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from agenttool.conformance.validate.finding import RecordFlaw, Severity
from agenttool.conformance.validate.foreign_records import ID_MEMBERS, ForeignRecord
from agenttool.conformance.validate.record_index import ids_in
from agenttool.conformance.validate.schema_checks import check_examples, check_internal_fields, check_schemas
from agenttool.conformance.validate.secret_checks import check_credentials, check_example_values
from agenttool.conformance.validate.value_checks import (
    check_content_digests,
    check_order,
    check_own_digest,
    check_values,
    is_before,
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


def check_version(record: ForeignRecord) -> Iterable[RecordFlaw]:
    """Check for the literal version (AT-VER-01); a readable older one is a warning (AT-VER-04).

    A missing version is reported by the schema.
    """
    version = record.members.get("schema_version")
    if version == SCHEMA_VERSION or not isinstance(version, str):
        return ()
    is_old = version.startswith("0.1.")
    requirement = "AT-DECL-02" if record.kind == "tool_declaration" else "AT-VER-01"
    flaw = RecordFlaw(
        message="the record is of an older draft" if is_old else "the record is of an unknown version of the draft",
        expected=repr(SCHEMA_VERSION),
        advice=f"rewrite it in version {SCHEMA_VERSION}",
        pointer="/schema_version",
        requirement="AT-VER-04" if is_old else requirement,
        severity=Severity.WARNING if is_old else Severity.ERROR,
    )
    return (flaw,)


def check_nested_versions(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check the versions of a surface's deferred refs; readers inherit it, so this is a warning."""
    deferred = record.members.get("deferred_tools")
    for index, ref in enumerate(deferred if isinstance(deferred, list) else ()):
        if isinstance(ref, dict) and ref.get("schema_version") != SCHEMA_VERSION:
            is_missing = ref.get("schema_version") is None
            yield RecordFlaw(
                message=f"a deferred ref {'does not say its version' if is_missing else 'is of another version'}",
                expected=repr(SCHEMA_VERSION),
                advice=f"add the member with {SCHEMA_VERSION!r}",
                pointer=pointer_of(("deferred_tools", index, "schema_version")),
                requirement="AT-VER-01",
                severity=Severity.WARNING,
            )


def check_own_id(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that the id of a record is not empty."""
    member = ID_MEMBERS.get(record.kind)
    if member is not None and record.members.get(member) == "":
        yield RecordFlaw(
            message="the id of the record is empty",
            expected="a name that no other record of its kind has",
            advice="give it one",
            pointer=f"/{member}",
            requirement="AT-MODEL-01",
        )


def check_kin(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that a call is not its own parent, dependency or retry."""
    own = record.members.get("invocation_id")
    if not isinstance(own, str):
        return
    others = [((member,), record.members.get(member)) for member in ("parent_invocation_id", "retry_of")]
    others += [(("depends_on", index), each) for index, each in ids_in(record.members.get("depends_on"))]
    for steps, other in others:
        if other == own:
            yield RecordFlaw(
                message="the call leads to itself",
                expected="the id of another call",
                advice="name the other call, or leave it out",
                pointer=pointer_of(steps),
                requirement="AT-MODEL-01",
            )


_FEWEST, _MOST = 3, 10


def check_search_hint(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that a search hint has three to ten words (AT-DECL-07)."""
    hint = record.members.get("search_hint")
    if isinstance(hint, str) and not _FEWEST <= len(hint.split()) <= _MOST:
        yield RecordFlaw(
            message="the search hint is too short or too long",
            expected=f"a phrase of {_FEWEST} to {_MOST} words",
            advice="say what the tool is good for, in words that a model would search for",
            pointer="/search_hint",
            requirement="AT-DECL-07",
            severity=Severity.WARNING,
        )


_FARTHEST = (1 << 63) - 1


def whole_number(value: Json) -> int | None:
    """Return a whole number; 1.0 counts as 1, and a huge number is clamped."""
    if isinstance(value, float) and not value.is_integer():
        return None
    return max(-_FARTHEST, min(int(value), _FARTHEST)) if isinstance(value, int | float) else None


def check_sequence(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that the sequence is 1 or more; gaps are found by the cross checks."""
    sequence = whole_number(record.members.get("sequence"))
    if sequence is not None and sequence < 1:
        yield RecordFlaw(
            message="progress counts from one",
            expected="1 or more",
            advice="number the progress of a call 1, 2, 3, without gaps",
            pointer="/sequence",
            requirement="AT-PROG-04",
        )


def check_event(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that an event about a call names the call and the tool (AT-EVT-02)."""
    event_type = record.members.get("event_type")
    for member in ("invocation_id", "tool_id"):
        if member not in record.members and isinstance(event_type, str) and EventType(event_type).concerns_a_call:
            yield RecordFlaw(
                message="an event about a call does not say which",
                expected=f"a member {member!r}",
                advice=f"add {member!r}",
                pointer=f"/{member}",
                requirement="AT-EVT-02",
                severity=Severity.WARNING,
            )


def check_surface(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that `tool_refs` lists every loaded and deferred tool, and no blocked or excluded one."""
    listed = record.members.get("tool_refs")
    if not isinstance(listed, list):
        return
    refs = {each for each in listed if isinstance(each, str)}
    for member in ("loaded_tools", "deferred_tools", "blocked_tools", "excluded_tools"):
        is_offered = member in ("loaded_tools", "deferred_tools")
        for index, tool_id in ids_in(record.members.get(member)):
            if (tool_id in refs) != is_offered:
                yield RecordFlaw(
                    message=f"the tool is {'not among tool_refs' if is_offered else 'among tool_refs too'}",
                    expected=f"a tool that tool_refs {'lists' if is_offered else 'does not list'}",
                    advice="make tool_refs the loaded and the deferred tools, and no others",
                    pointer=pointer_of((member, index)),
                    requirement="AT-SURF-06",
                )


_NO_ENDS = frozenset(str(status) for status in InvocationStatus if not status.is_terminal)


def check_transitions(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that transitions are legal, in order of time, and end in the status of the record."""
    transitions = record.members.get("status_transitions")
    if not isinstance(transitions, list):
        return
    steps = [each if isinstance(each, dict) else {} for each in transitions]
    statuses, times = [each.get("status") for each in steps], [each.get("at") for each in steps]
    for index, (before, after) in enumerate(pairwise(statuses), start=1):
        if isinstance(before, str) and isinstance(after, str) and not _may_follow(before, after):
            yield _illegal(InvocationStatus(before), InvocationStatus(after), index)
        if is_before(times[index], times[index - 1]):
            yield RecordFlaw(
                message="the step is earlier than the one before it",
                expected="times in the order of the steps",
                advice="sort the steps by time, or take their times from one clock",
                pointer=pointer_of(("status_transitions", index)),
                requirement="AT-INV-09",
            )
    last, status = (statuses or [None])[-1], record.members.get("status")
    if isinstance(last, str) and isinstance(status, str) and last != status:
        yield RecordFlaw(
            message="the last step is not the status of the record",
            expected="the status that the last step led to",
            advice="add the missing step, or correct the status",
            pointer="/status",
            requirement="AT-INV-13",
        )


@lru_cache(maxsize=4096)
def _may_follow(before: str, after: str) -> bool:
    return may_follow(InvocationStatus(before), InvocationStatus(after))


def check_end(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that a call that has ended has a terminal status (AT-INV-13)."""
    status = record.members.get("status")
    if isinstance(record.members.get("ended_at"), str) and isinstance(status, str) and status in _NO_ENDS:
        yield RecordFlaw(
            message=f"the call has ended, but {status!r} is no end",
            expected="one of the eight last statuses",
            advice="write the status it ended with, or leave ended_at out while it runs",
            pointer="/status",
            requirement="AT-INV-13",
        )


def _illegal(before: InvocationStatus, after: InvocationStatus, index: int) -> RecordFlaw:
    if before.is_terminal:
        message, expected = f"nothing follows {str(before)!r}, which is an end", "one end, and it last"
        advice, requirement = "leave out what came after the end", "AT-INV-13"
    else:
        message, expected = f"{str(after)!r} cannot follow {str(before)!r}", "the order of the pipeline"
        advice, requirement = "skip states that did not occur, but do not turn their order round", "AT-INV-08"
    pointer = pointer_of(("status_transitions", index))
    return RecordFlaw(message=message, expected=expected, advice=advice, pointer=pointer, requirement=requirement)


_PAIRS = frozenset((outcome.result_status, each) for outcome in OUTCOMES for each in outcome.error_classes)
_SUCCESS = str(ResultStatus.SUCCEEDED)
_ABORTED = frozenset({ResultStatus.SYNTHETIC_ERROR, ResultStatus.CANCELED})
_WANTED_OF_ERROR = ("error_code", "message", "recoverability")


def check_result(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that status, `is_error` and error agree."""
    status, error = record.members.get("status"), record.members.get("error")
    if not isinstance(status, str) or (
        status == _SUCCESS and error is None and record.members.get("is_error") is False
    ):
        return
    known = ResultStatus(status)
    yield from _check_flag(record.members, known)
    if known in _ABORTED:
        yield from _check_abort_reason(record.members)
    if isinstance(error, dict):
        yield from _check_error(error, known)
    elif known.is_error or record.members.get("is_error") is True:
        yield _missing_class("/error")


def _check_flag(members: JsonObject, status: ResultStatus) -> Iterator[RecordFlaw]:
    flag = members.get("is_error")
    truth = status.is_error
    if flag == truth or not (flag is None or isinstance(flag, bool)) or (flag is None and not truth):
        return
    named = str(status) if status.is_listed else "an unlisted status"
    yield RecordFlaw(
        message=f"is_error {'is missing' if flag is None else 'contradicts the status'}",
        expected=f"{str(truth).lower()}, because the status is {named}",
        advice=f"write {str(truth).lower()}" if status.is_listed else "use a listed status, or write true",
        pointer="/is_error",
        requirement="AT-RES-10" if status.is_listed else "AT-VER-07",
    )


def _check_abort_reason(members: JsonObject) -> Iterator[RecordFlaw]:
    error = members.get("error")
    within = error.get("abort_reason") if isinstance(error, dict) else None
    if not members.get("abort_reason") and not within:
        yield RecordFlaw(
            message="a result made up for a call that was ended from outside does not say why",
            expected="user_interruption, sibling_error, timeout, fallback or runtime_shutdown",
            advice="add abort_reason",
            pointer="/abort_reason",
            requirement="AT-RES-07",
        )


def _check_error(error: JsonObject, status: ResultStatus) -> Iterator[RecordFlaw]:
    error_class = error.get("error_class")
    if not isinstance(error_class, str):
        yield _missing_class("/error/error_class")
    elif ErrorClass(error_class).is_listed and status.is_listed and (status, error_class) not in _PAIRS:
        allowed = sorted(each for known, each in _PAIRS if known == status)
        yield RecordFlaw(
            message=f"{error_class!r} does not go with the status {str(status)!r}",
            expected=f"one of {', '.join(allowed)}" if allowed else "no error",
            advice="see the table of outcomes: a status and an error class name one way to end",
            pointer="/error/error_class",
            requirement="G-09",
            severity=Severity.WARNING,
        )
    for name in _WANTED_OF_ERROR:
        if not error.get(name):
            yield RecordFlaw(
                message="the error does not say enough to act on it",
                expected=f"a member {name!r}",
                advice=f"add {name!r}",
                pointer=f"/error/{name}",
                requirement="AT-ERR-01",
                severity=Severity.WARNING,
            )


def _missing_class(pointer: str) -> RecordFlaw:
    return RecordFlaw(
        message="an error result does not name its error class",
        expected="a member 'error' with an 'error_class'",
        advice="add it, so that programs can react to it",
        pointer=pointer,
        requirement="AT-RES-10",
    )


Check = Callable[[ForeignRecord], Iterable[RecordFlaw]]

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


def flaws_of(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Yield the flaws of a record that need no other record."""
    for check in _CHECKS[record.kind]:
        if found := check(record):
            yield from found
