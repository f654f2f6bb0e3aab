"""The first layer: does a record fit its schema.

Our schemas accept nothing that the published ones refuse, and say more. What breaks a published schema is an error;
what breaks only what ours add (`OUR_MEMBERS`, and whatever lies inside a member) is a warning.
"""

from collections.abc import Iterable
from functools import cache

from agenttool.conformance.validate.finding import Flaw, Layer, Severity
from agenttool.conformance.validate.rows import CLOSED_LISTS, ITEMS_OF_ANYTHING, OUR_MEMBERS, SHAPE_ROWS
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.explain import Misfit
from agenttool.schema.record_schemas import schema_of


def misfits_of(kind: str, members: JsonObject) -> Iterable[Flaw]:
    """Say where a record of a kind does not fit its schema."""
    checker = _checker(kind)
    if checker.accepts(members):
        return ()
    return [_flaw(kind, misfit) for misfit in checker.misfits(members)]


@cache
def _checker(kind: str) -> Checker:
    return Checker(schema_of(kind))


def _flaw(kind: str, misfit: Misfit) -> Flaw:
    member, *inner = misfit.pointer.split("/")[1:] or [""]
    is_item = len(inner) == 1 and inner[0].isdigit()
    is_ours = member in OUR_MEMBERS.get(kind, ()) or (is_item and (kind, member) in ITEMS_OF_ANYTHING)
    is_published = not is_ours and (not inner or is_item)
    return Flaw(
        message="a member is missing" if misfit.advice.startswith("add ") else f"it does not fit the schema of {kind}",
        expected=misfit.expected,
        advice=misfit.advice,
        pointer=misfit.pointer,
        requirement=CLOSED_LISTS.get((kind, member), SHAPE_ROWS[kind]),
        severity=Severity.ERROR if is_published else Severity.WARNING,
        layer=Layer.SHAPE,
    )
