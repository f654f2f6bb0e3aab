"""Check the records of a whole set of files against each other, by queries over the index.

Each query selects the number of a record, the name of a flaw in `flaws.tsv`, a pointer, and the values of its texts.
"""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Finding, flaw
from agenttool.conformance.validate.record_index import RecordIndex

_DANGLING = """
SELECT n, 'dangling', pointer, kind, coalesce(' ''' || shown_id(id) || '''', '') AS named, requirement,
    iif(:unreadable, 'warning', 'error') AS severity,
    iif(:unreadable, '; it may be among the documents that could not be read (' || :unreadable || ')', '') AS unreadable
FROM refs
WHERE kind IN (SELECT DISTINCT kind FROM records)
AND NOT EXISTS (SELECT 1 FROM records WHERE records.kind = refs.kind AND records.id = refs.id)
ORDER BY n
"""
"""A kind of reference is checked only if the set holds a record of the target kind.

If documents could not be read, the target may be among them, so the finding is a warning.
"""

_REPEATED = """
SELECT later.n, iif(later.kind IN (
    'tool_namespace', 'tool_declaration', 'tool_interface', 'tool_surface', 'tool_execution_profile',
    'tool_permission_profile', 'tool_scheduler_policy'
), 'changed_record', 'repeated_id'), '/' || id_member(later.kind), later.kind AS kind, first.place AS first
FROM (
    SELECT kind, id, min(n) AS n FROM records
    WHERE id IS NOT NULL AND kind <> 'deferred_tool_ref' GROUP BY kind, id HAVING min(content) <> max(content)
) AS twice
JOIN places AS first ON first.n = twice.n
JOIN records AS later ON later.kind = twice.kind AND later.id = twice.id AND later.content <> first.content
ORDER BY later.n
"""
"""Identical records are allowed, and several deferred refs of one tool; those of the catalog may change."""

_SECOND_END = """
SELECT ends.n, 'second_end', '/invocation_id', ends.thing AS thing, first.place AS first, one_end AS requirement
FROM ends JOIN things ON things.thing = ends.thing
JOIN (SELECT thing, invocation, min(n) AS n FROM ends GROUP BY 1, 2 HAVING count(*) > 1) AS twice
ON twice.thing = ends.thing AND twice.invocation = ends.invocation
JOIN records AS own ON own.n = ends.n JOIN places AS first ON first.n = twice.n
WHERE own.id IS NOT first.id ORDER BY ends.thing, ends.n
"""
_NO_END = """
SELECT calls.n, 'no_end', '', things.thing AS thing, one_end AS requirement FROM calls JOIN things
WHERE calls.status IN (SELECT status FROM outcomes)
AND EXISTS (SELECT 1 FROM ends WHERE ends.thing = things.thing)
AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.thing = things.thing AND ends.invocation = calls.id)
ORDER BY things.thing, calls.n
"""
_NOT_ENDED = """
SELECT n, 'not_ended', '/invocation_id', status FROM ended
WHERE status IN (SELECT status FROM statuses) AND status NOT IN (SELECT status FROM outcomes) ORDER BY thing, n
"""
_OTHER_END = """
SELECT n, 'other_end', things.pointer, status, same_outcome AS requirement, (
    SELECT group_concat(word, ', ') FROM (
        SELECT DISTINCT word FROM outcomes WHERE status = ended.status AND thing = ended.thing ORDER BY word
    )
) AS allowed
FROM ended JOIN things ON things.thing = ended.thing
WHERE status IN (SELECT status FROM outcomes)
AND word NOT IN (SELECT word FROM outcomes WHERE status = ended.status AND thing = ended.thing)
ORDER BY ended.thing, n
"""
_OTHER_INPUT = """
SELECT ranked.n, 'other_input', '/input_digest' FROM ranked JOIN calls ON calls.id = ranked.invocation
WHERE digest IS NOT NULL AND (is_last OR NOT (is_changed OR is_edited)) AND CASE
    WHEN is_edit THEN call_digest IS NOT NULL AND digest <> call_digest
    WHEN is_edited THEN permission_digest IS NOT NULL AND call_digest IS NOT NULL
        AND digest NOT IN (permission_digest, call_digest)
    ELSE permission_digest IS NOT NULL AND digest <> permission_digest
END ORDER BY ranked.n
"""
"""The last of several decisions counts."""

_RAN_ANYWAY = """
SELECT calls.n, 'ran_anyway', '/status', calls.status AS status FROM calls
JOIN (SELECT invocation FROM ranked WHERE is_last GROUP BY invocation HAVING min(behavior = 'deny')) AS denied
ON denied.invocation = calls.id
WHERE calls.status IN ('approved', 'queued', 'running', 'needs_input', 'partial_result', 'yielded', 'succeeded')
ORDER BY calls.n
"""
_LISTED_ELSEWHERE = """
SELECT listed.n, 'listed_elsewhere', '/permission_decision_refs/' || place FROM listed
WHERE EXISTS (SELECT 1 FROM decisions WHERE decisions.id = listed.decision AND decisions.invocation IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM decisions WHERE decisions.id = listed.decision AND decisions.invocation = listed.invocation
) ORDER BY listed.n, place
"""
_OTHER_TOOL = """
SELECT event_tools.n, 'other_tool', '/tool_id' FROM event_tools JOIN calls ON calls.id = event_tools.invocation
WHERE event_tools.tool <> calls.tool ORDER BY event_tools.n
"""
_PROGRESS_GAPS = """
SELECT gaps.n, iif(sequence = step_before, 'same_sequence', 'missing_progress'), '/sequence',
    'the number ' || coalesce('after that of ' || place, 1) AS expected
FROM (
    SELECT n, invocation, sequence, id,
        lag(n) OVER calls AS before,
        lag(sequence, 1, 0) OVER calls AS step_before,
        lag(id) OVER calls AS id_before
    FROM progress WHERE invocation IS NOT NULL AND sequence >= 1
    WINDOW calls AS (PARTITION BY invocation ORDER BY sequence, n)
) AS gaps LEFT JOIN places ON places.n = before
WHERE sequence <> step_before + 1 AND NOT (sequence = step_before AND gaps.id IS id_before)
ORDER BY gaps.n
"""
_OPEN_SECRETS = """
SELECT n, 'open_secret', value FROM (
    SELECT inputs.n AS n, pointers, names FROM inputs
    LEFT JOIN calls ON inputs.tool IS NULL AND calls.id = inputs.invocation
    JOIN (SELECT tool, names, max(rowid) FROM sensitive GROUP BY tool) AS declared
    ON declared.tool = coalesce(inputs.tool, calls.tool)
), json_each(pointers)
WHERE is_sensitive(names, value)
"""
"""The last declaration of a tool counts."""

_QUERIES = (
    *(_DANGLING, _REPEATED, _SECOND_END, _NO_END, _NOT_ENDED, _OTHER_END),
    *(_OTHER_INPUT, _RAN_ANYWAY, _LISTED_ELSEWHERE, _OTHER_TOOL, _PROGRESS_GAPS, _OPEN_SECRETS),
)


def cross_check(index: RecordIndex, *, unreadable: int) -> Iterator[tuple[int, Finding]]:
    """Yield each flaw with the number of its record; `unreadable` documents may hold what others refer to."""
    for query in _QUERIES:
        for row in index.ask(query, unreadable=unreadable):
            number, name, pointer = row[:3]
            yield number, flaw(name, pointer, **dict(zip(row.keys(), row, strict=True)))
