"""Does every reference lead to a record of the set.

A kind of reference is checked only if the set holds at least one record of the kind it leads to: an export of results
alone is complete in its way, and a finding per line would say nothing.
"""

from collections.abc import Iterator
from typing import cast

from agenttool.conformance.validate.facts import KINDS, Facts
from agenttool.conformance.validate.finding import Flaw, Severity, shown_id

_QUESTION = """
SELECT n, kind, id, pointer, requirement FROM refs
WHERE kind IN (SELECT DISTINCT kind FROM records)
AND NOT EXISTS (SELECT 1 FROM records WHERE records.kind = refs.kind AND records.id = refs.id)
ORDER BY n
"""


def check_references(facts: Facts, *, unreadable: int) -> Iterator[tuple[int, Flaw]]:
    """Name the references that lead nowhere; where documents could not be read, they may be what is missing."""
    severity = Severity.WARNING if unreadable else Severity.ERROR
    advice = "export the record too, or correct the id"
    if unreadable:
        advice += f"; it may be among the documents that could not be read ({unreadable})"
    for number, kind_number, record_id, pointer, requirement in facts.ask(_QUESTION):
        kind = KINDS[cast("int", kind_number)]
        named = f" {shown!r}" if (shown := shown_id(record_id)) else ""
        yield (
            cast("int", number),
            Flaw(
                message=f"the reference leads to no {kind}",
                expected=f"a {kind}{named} in the set",
                advice=advice,
                pointer=cast("str", pointer),
                requirement=cast("str", requirement),
                severity=severity,
            ),
        )
