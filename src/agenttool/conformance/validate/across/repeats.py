"""Does one id name one thing."""

from collections.abc import Iterator
from typing import cast

from agenttool.conformance.validate.facts import KIND_NUMBERS, KINDS, Facts
from agenttool.conformance.validate.finding import Flaw, Severity
from agenttool.conformance.validate.kinds import ID_MEMBERS

_QUESTION = """
SELECT later.n, first.n, later.kind
FROM (
    SELECT kind, id, min(n) AS n FROM records
    WHERE id IS NOT NULL AND kind <> ? GROUP BY kind, id HAVING min(content) <> max(content)
) AS twice
JOIN records AS first ON first.n = twice.n
JOIN records AS later ON later.kind = twice.kind AND later.id = twice.id AND later.content <> first.content
ORDER BY later.n
"""

_MAY_CHANGE = frozenset(
    {
        "tool_namespace",
        "tool_declaration",
        "tool_interface",
        "tool_execution_profile",
        "tool_permission_profile",
        "tool_surface",
        "tool_scheduler_policy",
    }
)
"""What describes the catalog may have changed between two exports; what happened to a call may not."""


def check_repeats(facts: Facts) -> Iterator[tuple[int, Flaw]]:
    """Name every record that has the id of an earlier one of its kind and says something else.

    The same record twice is no harm, and one tool may be deferred on many surfaces in many ways.
    """
    for number, first, kind_number in facts.ask(_QUESTION, (KIND_NUMBERS["deferred_tool_ref"],)):
        kind = KINDS[cast("int", kind_number)]
        place = facts.origin(first)
        yield (
            cast("int", number),
            Flaw(
                message=f"the id is that of another {kind}, which says something else",
                expected=f"an id of its own, or the same content as {place.file}:{place.line}",
                advice="write each record once, in its last state",
                pointer=f"/{ID_MEMBERS[kind]}",
                requirement="AT-VER-03" if kind in _MAY_CHANGE else "AT-MODEL-01",
                severity=Severity.WARNING if kind in _MAY_CHANGE else Severity.ERROR,
            ),
        )
