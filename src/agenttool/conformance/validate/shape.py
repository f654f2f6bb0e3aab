"""Check records against their schemas.

Our schemas accept nothing that the published ones reject, and require more. What breaks a published schema is an
error. What breaks only what ours add (`OUR_MEMBERS`, and whatever lies inside a member) is a warning.
"""

from collections.abc import Iterable
from functools import cache

from msgspec.structs import replace

from agenttool.conformance.ledger import read_table
from agenttool.conformance.validate.finding import RecordFlaw, Severity, flaw, requirements_of
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.explain import Misfit
from agenttool.schema.record_schemas import schema_of

SHAPE_ROWS = requirements_of("schema")
"""The requirement that a record of each kind fits its schema."""

CLOSED_LISTS = requirements_of("closed_enum")
"""The requirement of each closed enum, by `record_type.member`."""

OUR_MEMBERS = frozenset((row["record_type"], row["member"]) for row in read_table("validate/extensions.tsv"))
"""Members that our schemas describe and the published ones leave open; a test compares both."""

ITEMS_OF_ANYTHING = frozenset({("tool_surface", "deferred_tools"), ("tool_surface", "loaded_tools")})
"""Lists whose items the published schemas leave open."""


def misfits_of(kind: str, members: JsonObject) -> Iterable[RecordFlaw]:
    """Return the flaws of a record that does not fit the schema of its kind."""
    checker = _checker(kind)
    if checker.accepts(members):
        return ()
    return [_flaw(kind, misfit) for misfit in checker.misfits(members)]


@cache
def _checker(kind: str) -> Checker:
    return Checker(schema_of(kind))


def _flaw(kind: str, misfit: Misfit) -> RecordFlaw:
    member, *inner = misfit.pointer.split("/")[1:] or [""]
    is_item = len(inner) == 1 and inner[0].isdigit()
    is_ours = (kind, member) in OUR_MEMBERS or (is_item and (kind, member) in ITEMS_OF_ANYTHING)
    is_published = not is_ours and (not inner or is_item)
    made = flaw(
        "missing_member" if misfit.advice.startswith("add ") else "misfit",
        misfit.pointer,
        kind=kind,
        expected=misfit.expected,
        advice=misfit.advice,
        requirement=CLOSED_LISTS.get(f"{kind}.{member}", SHAPE_ROWS[kind]),
    )
    return made if is_published else replace(made, severity=Severity.WARNING)
