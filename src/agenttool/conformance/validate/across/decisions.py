"""Do decisions fit the calls they are about: their inputs, what became of them, and who lists them."""

from collections.abc import Iterator
from typing import cast

from agenttool.conformance.validate.facts import Facts
from agenttool.conformance.validate.finding import Flaw, shown_word

_PREPARE = """
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


def check_decisions(facts: Facts) -> Iterator[tuple[int, Flaw]]:
    """Compare every decision with its call; of several, the last one counts for what became of it."""
    list(facts.ask(_PREPARE))
    for (number,) in facts.ask(_OTHER_INPUT):
        yield cast("int", number), OTHER_INPUT
    for number, status in facts.ask(_RAN_ANYWAY):
        yield cast("int", number), _ran_anyway(cast("str", status))
    for number, place in facts.ask(_LISTED_ELSEWHERE):
        yield cast("int", number), _listed_elsewhere(cast("int", place))


def check_tools_of_events(facts: Facts) -> Iterator[tuple[int, Flaw]]:
    """Ask that an event names the tool that its call names (AT-EVT-02)."""
    for (number,) in facts.ask(_OTHER_TOOL):
        yield cast("int", number), OTHER_TOOL


OTHER_INPUT = Flaw(
    message="the decision is about another input than its call has",
    expected="the digest of the canonical JSON of permission_input, or of call_input where a person edited it",
    advice="find out which of the two was changed: an approval holds for one input only",
    pointer="/input_digest",
    requirement="AT-PERM-14",
)
OTHER_TOOL = Flaw(
    message="the event names another tool than its call does",
    expected="the tool_id of the call",
    advice="correct the tool, or the call",
    pointer="/tool_id",
    requirement="AT-EVT-02",
)


def _ran_anyway(status: str) -> Flaw:
    return Flaw(
        message=f"the last decision about the call is a denial, but its record says {shown_word(status)!r}",
        expected="a call that did not run, such as 'denied'",
        advice="find out whether it ran; add the decision that allowed it, if there was one",
        pointer="/status",
        requirement="AT-PERM-17",
    )


def _listed_elsewhere(place: int) -> Flaw:
    return Flaw(
        message="the decision is about another call",
        expected="a decision whose invocation_id is that of this call",
        advice="list a decision at the call that it is about",
        pointer=f"/permission_decision_refs/{place}",
        requirement="AT-PERM-27",
    )
