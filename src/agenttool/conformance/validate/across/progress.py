"""Does the progress of each call count 1, 2, 3 (AT-PROG-04)."""

from collections.abc import Iterator
from typing import cast

from agenttool.conformance.validate.facts import Facts
from agenttool.conformance.validate.finding import Flaw

_QUESTION = """
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


def check_progress(facts: Facts) -> Iterator[tuple[int, Flaw]]:
    """Name every progress record that does not follow the one before it."""
    for number, before, is_repeated in facts.ask(_QUESTION):
        place = facts.origin(before) if before is not None else None
        yield (
            cast("int", number),
            Flaw(
                message="two updates of one call have the same number"
                if is_repeated
                else "an update is missing before this one",
                expected=f"the number after that of {place.file}:{place.line}" if place else "the number 1",
                advice="number the progress of a call without gaps, and export all of it",
                pointer="/sequence",
                requirement="AT-PROG-04",
            ),
        )
