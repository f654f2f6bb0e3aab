"""Does a call end once, and do its record, its result and its last event tell the same end."""

from collections.abc import Iterator
from typing import cast

from agenttool.conformance.validate.facts import Facts
from agenttool.conformance.validate.finding import Flaw, Severity, shown_word
from agenttool.records import OUTCOMES, TERMINAL_STATUSES, InvocationStatus, ResultStatus

_PREPARE = (
    "CREATE TABLE outcomes (invocation TEXT, result TEXT, event_type TEXT)",
    "CREATE TABLE statuses (status TEXT PRIMARY KEY, is_end INTEGER)",
    "CREATE TABLE result_statuses (status TEXT PRIMARY KEY)",
)

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


def check_calls(facts: Facts) -> Iterator[tuple[int, Flaw]]:
    """Count and compare the ends of every call, as far as the set holds results, or events that end a call."""
    _prepare(facts)
    for question, thing, requirement in (
        (_SECOND_RESULT, "result", "AT-RES-11"),
        (_SECOND_END, "terminal event", "AT-EVT-12"),
    ):
        for number, first in facts.ask(question):
            yield cast("int", number), _second(thing, requirement, facts, first)
    for question, thing, requirement in (
        (_NO_RESULT, "result", "AT-RES-11"),
        (_NO_END, "terminal event", "AT-EVT-12"),
    ):
        for (number,) in facts.ask(question):
            yield cast("int", number), _none(thing, requirement)
    for question, pointer, requirement in (
        (_OTHER_RESULT, "/status", "G-09"),
        (_OTHER_END, "/event_type", "AT-EVT-12"),
    ):
        for number, status, is_end in facts.ask(question):
            yield cast("int", number), _contradiction(cast("str", status), pointer, requirement, is_end=bool(is_end))


def _prepare(facts: Facts) -> None:
    for statement in _PREPARE:
        list(facts.ask(statement))
    rows = "INSERT INTO outcomes VALUES (?, ?, ?)"
    for each in OUTCOMES:
        list(facts.ask(rows, (str(each.invocation_status), str(each.result_status), str(each.terminal_event))))
    for status in InvocationStatus:
        list(facts.ask("INSERT INTO statuses VALUES (?, ?)", (str(status), status in TERMINAL_STATUSES)))
    for status in ResultStatus:
        list(facts.ask("INSERT INTO result_statuses VALUES (?)", (str(status),)))


def _second(thing: str, requirement: str, facts: Facts, first: str | int | None) -> Flaw:
    place = facts.origin(first)
    return Flaw(
        message=f"the call has another {thing} already",
        expected=f"one {thing} for each call; the first is {place.file}:{place.line}",
        advice="keep one; a retry is a call of its own, with retry_of",
        pointer="/invocation_id",
        requirement=requirement,
    )


def _none(thing: str, requirement: str) -> Flaw:
    return Flaw(
        message=f"the call has ended, but the set holds no {thing} for it",
        expected=f"one {thing} for each finished call",
        advice=f"export the {thing} too; a call without one must be given one",
        requirement=requirement,
    )


def _contradiction(status: str, pointer: str, requirement: str, *, is_end: bool) -> Flaw:
    if not is_end:
        return Flaw(
            message=f"the call has come to an end here, but its record says {shown_word(status)!r}",
            expected="a call whose status is an end",
            advice="export the call in its last state",
            pointer="/invocation_id",
            requirement="AT-INV-13",
            severity=Severity.WARNING,
        )
    return Flaw(
        message=f"it contradicts the record of the call, which says {shown_word(status)!r}",
        expected=_allowed(status, pointer),
        advice="see the table of outcomes: the three name one way to end",
        pointer=pointer,
        requirement=requirement,
    )


def _allowed(status: str, pointer: str) -> str:
    rows = [each for each in OUTCOMES if each.invocation_status == status]
    words = {each.result_status if pointer == "/status" else each.terminal_event for each in rows}
    return f"one of {', '.join(sorted(words))}"
