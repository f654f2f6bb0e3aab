"""Check the records of a whole set of files against each other."""

from collections.abc import Iterator
from typing import cast

from msgspec.structs import replace

from agenttool.conformance.validate.finding import RecordFlaw, Severity, shown_id, shown_word
from agenttool.conformance.validate.foreign_records import ID_MEMBERS
from agenttool.conformance.validate.record_index import RecordIndex
from agenttool.records import OUTCOMES, TERMINAL_STATUSES, InvocationStatus, ResultStatus

_SECOND_RESULT = """
SELECT results.n, first FROM results
JOIN (SELECT invocation, min(n) AS first FROM results GROUP BY invocation HAVING count(*) > 1) USING (invocation)
JOIN records AS a ON a.n = results.n JOIN records AS b ON b.n = first
WHERE a.id IS NOT b.id ORDER BY results.n
"""
_SECOND_END = _SECOND_RESULT.replace("results", "ends")

_NO_RESULT = """
SELECT calls.n FROM calls JOIN statuses USING (status)
WHERE is_end AND EXISTS (SELECT 1 FROM results)
AND NOT EXISTS (SELECT 1 FROM results WHERE results.invocation = calls.id) ORDER BY calls.n
"""
_NO_END = _NO_RESULT.replace("results", "ends")

_OTHER_RESULT = """
SELECT results.n, calls.status, is_end FROM results
JOIN calls ON calls.id = results.invocation
JOIN statuses ON statuses.status = calls.status
JOIN result_statuses ON result_statuses.status = results.status
WHERE NOT EXISTS (
    SELECT 1 FROM outcomes WHERE outcomes.invocation = calls.status AND outcomes.result = results.status
) ORDER BY results.n
"""
_OTHER_END = """
SELECT ends.n, calls.status, is_end FROM ends
JOIN calls ON calls.id = ends.invocation
JOIN statuses ON statuses.status = calls.status
WHERE NOT EXISTS (
    SELECT 1 FROM outcomes WHERE outcomes.invocation = calls.status AND outcomes.event_type = ends.event_type
) ORDER BY ends.n
"""


def check_calls(index: RecordIndex) -> Iterator[tuple[int, RecordFlaw]]:
    """Check that each call has one result and one terminal event, and that both agree with its record."""
    for each in OUTCOMES:
        index.add("outcomes", (str(each.invocation_status), str(each.result_status), str(each.terminal_event)))
    for status in InvocationStatus:
        index.add("statuses", (str(status), status in TERMINAL_STATUSES))
    for status in ResultStatus:
        index.add("result_statuses", (str(status),))
    for second, missing, other, thing, pointer, requirements in (
        (_SECOND_RESULT, _NO_RESULT, _OTHER_RESULT, "result", "/status", ("AT-RES-11", "G-09")),
        (_SECOND_END, _NO_END, _OTHER_END, "terminal event", "/event_type", ("AT-EVT-12", "AT-EVT-12")),
    ):
        for number, first in index.ask(second):
            place = index.origin(first)
            flaw = RecordFlaw(
                message=f"the call has another {thing} already",
                expected=f"one {thing} for each call; the first is {place.file}:{place.line}",
                advice="keep one; a retry is a call of its own, with retry_of",
                pointer="/invocation_id",
                requirement=requirements[0],
            )
            yield cast("int", number), flaw
        for (number,) in index.ask(missing):
            flaw = RecordFlaw(
                message=f"the call has ended, but the set holds no {thing} for it",
                expected=f"one {thing} for each finished call",
                advice=f"export the {thing} too; a call without one must be given one",
                requirement=requirements[0],
            )
            yield cast("int", number), flaw
        for number, status, is_end in index.ask(other):
            flaw = _contradiction(cast("str", status), pointer, requirements[1], is_end=bool(is_end))
            yield cast("int", number), flaw


def _contradiction(status: str, pointer: str, requirement: str, *, is_end: bool) -> RecordFlaw:
    if not is_end:
        return RecordFlaw(
            message=f"the call has ended here, but its record says {shown_word(status)!r}",
            expected="a call whose status is an end",
            advice="export the call in its last state",
            pointer="/invocation_id",
            requirement="AT-INV-13",
            severity=Severity.WARNING,
        )
    rows = [each for each in OUTCOMES if each.invocation_status == status]
    allowed = {each.result_status if pointer == "/status" else each.terminal_event for each in rows}
    return RecordFlaw(
        message=f"it contradicts the record of the call, which says {shown_word(status)!r}",
        expected=f"one of {', '.join(sorted(allowed))}",
        advice="see the table of outcomes: status, result and event must name one outcome",
        pointer=pointer,
        requirement=requirement,
    )


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


def check_decisions_and_tools(index: RecordIndex) -> Iterator[tuple[int, RecordFlaw]]:
    """Compare decisions with their calls, and the tools of events; the last of several decisions counts."""
    list(index.ask(_PREPARE_DECISIONS))
    for (number,) in index.ask(_OTHER_INPUT):
        yield cast("int", number), OTHER_INPUT
    for number, status in index.ask(_RAN_ANYWAY):
        message = f"the last decision about the call is a denial, but its record says {shown_word(status)!r}"
        yield cast("int", number), replace(RAN_ANYWAY, message=message)
    for number, place in index.ask(_LISTED_ELSEWHERE):
        yield cast("int", number), replace(LISTED_ELSEWHERE, pointer=f"/permission_decision_refs/{place}")
    for (number,) in index.ask(_OTHER_TOOL):
        yield cast("int", number), OTHER_TOOL


OTHER_INPUT = RecordFlaw(
    message="the decision is about another input than its call has",
    expected="the digest of the canonical JSON of permission_input, or of call_input where a person edited it",
    advice="find out which of the two was changed: an approval holds for one input only",
    pointer="/input_digest",
    requirement="AT-PERM-14",
)
RAN_ANYWAY = RecordFlaw(
    message="the last decision about the call is a denial",
    expected="a call that did not run, such as 'denied'",
    advice="find out whether it ran; add the decision that allowed it, if there was one",
    pointer="/status",
    requirement="AT-PERM-17",
)
LISTED_ELSEWHERE = RecordFlaw(
    message="the decision is about another call",
    expected="a decision whose invocation_id is that of this call",
    advice="list a decision at the call that it is about",
    requirement="AT-PERM-27",
)
OTHER_TOOL = RecordFlaw(
    message="the event names another tool than its call does",
    expected="the tool_id of the call",
    advice="correct the tool, or the call",
    pointer="/tool_id",
    requirement="AT-EVT-02",
)


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


def check_progress(index: RecordIndex) -> Iterator[tuple[int, RecordFlaw]]:
    """Report each progress record whose number does not follow the one before it (AT-PROG-04)."""
    for number, before, is_repeated in index.ask(_PROGRESS_GAPS):
        place = index.origin(before) if before is not None else None
        flaw = RecordFlaw(
            message="two updates of one call have the same number"
            if is_repeated
            else "an update is missing before this one",
            expected=f"the number after that of {place.file}:{place.line}" if place else "the number 1",
            advice="number the progress of a call without gaps, and export all of it",
            pointer="/sequence",
            requirement="AT-PROG-04",
        )
        yield cast("int", number), flaw


_DANGLING = """
SELECT n, kind, id, pointer, requirement FROM refs
WHERE kind IN (SELECT DISTINCT kind FROM records)
AND NOT EXISTS (SELECT 1 FROM records WHERE records.kind = refs.kind AND records.id = refs.id)
ORDER BY n
"""


def check_references(index: RecordIndex, *, unreadable: int) -> Iterator[tuple[int, RecordFlaw]]:
    """Report references without a target; a warning if unreadable documents may hold the targets.

    A kind of reference is checked only if the set holds a record of the target kind.
    """
    severity = Severity.WARNING if unreadable else Severity.ERROR
    advice = "export the record too, or correct the id"
    if unreadable:
        advice += f"; it may be among the documents that could not be read ({unreadable})"
    for number, kind, record_id, pointer, requirement in index.ask(_DANGLING):
        named = f" {shown!r}" if (shown := shown_id(record_id)) else ""
        flaw = RecordFlaw(
            message=f"the reference leads to no {kind}",
            expected=f"a {kind}{named} in the set",
            advice=advice,
            pointer=cast("str", pointer),
            requirement=cast("str", requirement),
            severity=severity,
        )
        yield cast("int", number), flaw


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


def check_repeats(index: RecordIndex) -> Iterator[tuple[int, RecordFlaw]]:
    """Report each record that has the id of an earlier record of its kind but other content.

    Identical records are allowed, and so are several deferred refs of one tool.
    """
    for number, first, kind in index.ask(_REPEATED):
        place = index.origin(first)
        flaw = RecordFlaw(
            message=f"the id is that of another {kind}, whose content differs",
            expected=f"an id of its own, or the same content as {place.file}:{place.line}",
            advice="write each record once, in its last state",
            pointer=f"/{ID_MEMBERS[str(kind)]}",
            requirement="AT-VER-03" if kind in _MAY_CHANGE else "AT-MODEL-01",
            severity=Severity.WARNING if kind in _MAY_CHANGE else Severity.ERROR,
        )
        yield cast("int", number), flaw
