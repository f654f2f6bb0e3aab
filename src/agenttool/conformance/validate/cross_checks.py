"""Check the records of a whole set of files against each other."""

from collections.abc import Iterator
from functools import cache
from typing import cast

import msgspec

from agenttool.conformance.validate.finding import RecordFlaw, Severity, flaw, shown_id, shown_word
from agenttool.conformance.validate.foreign_records import ID_MEMBERS
from agenttool.conformance.validate.record_index import RESULT, TERMINAL_EVENT, RecordIndex, Value
from agenttool.conformance.validate.secret_checks import FieldNames, name_path
from agenttool.records import OUTCOMES, TERMINAL_STATUSES, InvocationStatus, ResultStatus

NumberedFlaw = tuple[Value, RecordFlaw]
"""A flaw, and the number of its record in the index."""

_SECOND = """
SELECT ends.n, first FROM ends
JOIN (
    SELECT invocation, min(n) AS first FROM ends WHERE thing = ?1 GROUP BY invocation HAVING count(*) > 1
) USING (invocation)
JOIN records AS a ON a.n = ends.n JOIN records AS b ON b.n = first
WHERE thing = ?1 AND a.id IS NOT b.id ORDER BY ends.n
"""
_MISSING = """
SELECT calls.n, calls.status FROM calls
WHERE EXISTS (SELECT 1 FROM ends WHERE thing = ?1)
AND NOT EXISTS (SELECT 1 FROM ends WHERE thing = ?1 AND ends.invocation = calls.id) ORDER BY calls.n
"""
_ENDS = """
SELECT ends.n, calls.status, word FROM ends JOIN calls ON calls.id = ends.invocation WHERE thing = ? ORDER BY ends.n
"""


def check_calls(index: RecordIndex) -> Iterator[NumberedFlaw]:
    """Check that each call has one result and one terminal event, and that both agree with its record."""
    yield from _check_ends(index, RESULT, "/status", ("AT-RES-11", "G-09"))
    yield from _check_ends(index, TERMINAL_EVENT, "/event_type", ("AT-EVT-12", "AT-EVT-12"))


def _check_ends(index: RecordIndex, thing: str, pointer: str, requirements: tuple[str, str]) -> Iterator[NumberedFlaw]:
    one_end, same_outcome = requirements
    for number, first in index.ask(_SECOND, thing):
        place = index.place(first)
        yield number, flaw("second_end", "/invocation_id", thing=thing, first=place, requirement=one_end)
    for number, status in index.ask(_MISSING, thing):
        if status in TERMINAL_STATUSES:
            yield number, flaw("no_end", thing=thing, requirement=one_end)
    for number, status, word in index.ask(_ENDS, thing):
        if status not in _STATUSES or (thing == RESULT and word not in _RESULT_STATUSES):
            continue
        shown, allowed = shown_word(status), _allowed_words(status, thing)
        if not allowed:
            yield number, flaw("not_ended", "/invocation_id", status=shown)
        elif word not in allowed:
            listed = ", ".join(sorted(allowed))
            yield number, flaw("other_end", pointer, status=shown, allowed=listed, requirement=same_outcome)


_STATUSES, _RESULT_STATUSES = frozenset(map(str, InvocationStatus)), frozenset(map(str, ResultStatus))


@cache
def _allowed_words(status: Value, thing: str) -> frozenset[str]:
    """Return the statuses of results, or the types of terminal events, that a call with this status may have."""
    rows = [each for each in OUTCOMES if each.invocation_status == status]
    return frozenset(str(each.result_status if thing == RESULT else each.terminal_event) for each in rows)


_PREPARE_DECISIONS = """
CREATE TABLE ranked AS
SELECT d.n AS n, d.invocation AS invocation, behavior, digest, is_edit,
    rank() OVER (PARTITION BY d.invocation ORDER BY decided_at DESC, place DESC) = 1 AS is_last,
    max(is_edit) OVER (PARTITION BY d.invocation) AS is_edited
FROM decisions AS d LEFT JOIN (SELECT decision, invocation, max(place) AS place FROM listed GROUP BY 1, 2) AS l
ON l.decision = d.id AND l.invocation = d.invocation
WHERE d.invocation IS NOT NULL
"""
_OTHER_INPUT = """
SELECT ranked.n FROM ranked JOIN calls ON calls.id = ranked.invocation
WHERE digest IS NOT NULL AND (is_last OR NOT (is_changed OR is_edited)) AND CASE
    WHEN is_edit THEN call_digest IS NOT NULL AND digest <> call_digest
    WHEN is_edited THEN permission_digest IS NOT NULL AND call_digest IS NOT NULL
        AND digest NOT IN (permission_digest, call_digest)
    ELSE permission_digest IS NOT NULL AND digest <> permission_digest
END ORDER BY ranked.n
"""
_RAN_ANYWAY = """
SELECT calls.n, calls.status FROM calls
JOIN (SELECT invocation FROM ranked WHERE is_last GROUP BY invocation HAVING min(behavior = 'deny')) AS denied
ON denied.invocation = calls.id
WHERE calls.status IN ('approved', 'queued', 'running', 'needs_input', 'partial_result', 'yielded', 'succeeded')
ORDER BY calls.n
"""
_LISTED_ELSEWHERE = """
SELECT listed.n, place FROM listed
WHERE EXISTS (SELECT 1 FROM decisions WHERE decisions.id = listed.decision AND decisions.invocation IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM decisions WHERE decisions.id = listed.decision AND decisions.invocation = listed.invocation
) ORDER BY listed.n, place
"""
_OTHER_TOOL = """
SELECT event_tools.n FROM event_tools JOIN calls ON calls.id = event_tools.invocation
WHERE event_tools.tool <> calls.tool ORDER BY event_tools.n
"""


def check_decisions_and_tools(index: RecordIndex) -> Iterator[NumberedFlaw]:
    """Compare decisions with their calls, and the tools of events; the last of several decisions counts."""
    list(index.ask(_PREPARE_DECISIONS))
    for (number,) in index.ask(_OTHER_INPUT):
        yield number, flaw("other_input", "/input_digest")
    for number, status in index.ask(_RAN_ANYWAY):
        yield number, flaw("ran_anyway", "/status", status=shown_word(status))
    for number, place in index.ask(_LISTED_ELSEWHERE):
        yield number, flaw("listed_elsewhere", f"/permission_decision_refs/{place}")
    for (number,) in index.ask(_OTHER_TOOL):
        yield number, flaw("other_tool", "/tool_id")


_PROGRESS_GAPS = """
SELECT n, before, sequence = step_before FROM (
    SELECT progress.n AS n, invocation, sequence, records.id AS id,
        lag(progress.n) OVER calls AS before,
        lag(sequence, 1, 0) OVER calls AS step_before,
        lag(records.id) OVER calls AS id_before
    FROM progress JOIN records ON records.n = progress.n
    WHERE invocation IS NOT NULL AND sequence >= 1
    WINDOW calls AS (PARTITION BY invocation ORDER BY sequence, progress.n)
)
WHERE sequence <> step_before + 1 AND NOT (sequence = step_before AND id IS id_before)
ORDER BY n
"""


def check_progress(index: RecordIndex) -> Iterator[NumberedFlaw]:
    """Report each progress record whose number does not follow the one before it (AT-PROG-04)."""
    for number, before, is_repeated in index.ask(_PROGRESS_GAPS):
        expected = "the number 1" if before is None else f"the number after that of {index.place(before)}"
        yield number, flaw("same_sequence" if is_repeated else "missing_progress", "/sequence", expected=expected)


_DANGLING = """
SELECT n, kind, id, pointer, requirement FROM refs
WHERE kind IN (SELECT DISTINCT kind FROM records)
AND NOT EXISTS (SELECT 1 FROM records WHERE records.kind = refs.kind AND records.id = refs.id)
ORDER BY n
"""


def check_references(index: RecordIndex, *, unreadable: int) -> Iterator[NumberedFlaw]:
    """Report references without a target; a warning if unreadable documents may hold the targets.

    A kind of reference is checked only if the set holds a record of the target kind.
    """
    severity = Severity.WARNING if unreadable else Severity.ERROR
    hint = f"; it may be among the documents that could not be read ({unreadable})" if unreadable else ""
    for number, kind, record_id, pointer, requirement in index.ask(_DANGLING):
        named = f" {shown!r}" if (shown := shown_id(record_id)) else ""
        found = flaw("dangling", str(pointer), kind=kind, named=named, unreadable=hint, requirement=requirement)
        yield number, msgspec.structs.replace(found, severity=severity)


_REPEATED = """
SELECT later.n, first.n, later.kind
FROM (
    SELECT kind, id, min(n) AS n FROM records
    WHERE id IS NOT NULL AND kind <> 'deferred_tool_ref' GROUP BY kind, id HAVING min(content) <> max(content)
) AS twice
JOIN records AS first ON first.n = twice.n
JOIN records AS later ON later.kind = twice.kind AND later.id = twice.id AND later.content <> first.content
ORDER BY later.n
"""

_PROFILES = ("tool_execution_profile", "tool_permission_profile", "tool_scheduler_policy")
_MAY_CHANGE = frozenset({"tool_namespace", "tool_declaration", "tool_interface", "tool_surface", *_PROFILES})
"""Kinds that describe the catalog: they may differ between two exports."""


def check_repeats(index: RecordIndex) -> Iterator[NumberedFlaw]:
    """Report each record that has the id of an earlier record of its kind but other content.

    Identical records are allowed, and so are several deferred refs of one tool.
    """
    for number, first, kind in index.ask(_REPEATED):
        name = "changed_record" if kind in _MAY_CHANGE else "repeated_id"
        yield number, flaw(name, f"/{ID_MEMBERS[str(kind)]}", kind=kind, first=index.place(first))


_STORED = """
SELECT n, pointers, tool FROM (
    SELECT inputs.n AS n, pointers, coalesce(inputs.tool, calls.tool) AS tool
    FROM inputs LEFT JOIN calls ON inputs.tool IS NULL AND calls.id = inputs.invocation
)
WHERE tool IN (SELECT tool FROM sensitive) ORDER BY tool, n
"""
_NAMES = "SELECT names FROM sensitive WHERE tool = ? ORDER BY rowid DESC LIMIT 1"


def check_stored_inputs(index: RecordIndex) -> Iterator[NumberedFlaw]:
    """Check the inputs of calls for values of sensitive fields, now that every declaration is known (AT-IO-06)."""
    tool, fields = None, FieldNames(())
    for number, pointers, owner in index.ask(_STORED):
        if owner != tool:
            tool = owner
            names = next(index.ask(_NAMES, tool))[0]
            fields = FieldNames(msgspec.json.decode(cast("str", names), type=tuple[str, ...]))
        for pointer in msgspec.json.decode(cast("str", pointers), type=list[str]):
            if fields.are_passed_by(name_path(pointer)[1:]):
                yield number, flaw("open_secret", pointer)
