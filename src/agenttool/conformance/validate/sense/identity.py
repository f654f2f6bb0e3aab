"""Does a record have a name, and does a call lead to others and not to itself."""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.kinds import ID_MEMBERS
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.references import ids_in
from agenttool.schema.explain import pointer_of


def check_own_id(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that the id of a record is not empty."""
    member = ID_MEMBERS.get(record.kind)
    if member is not None and record.members.get(member) == "":
        yield Flaw(
            message="the id of the record is empty",
            expected="a name that no other record of its kind has",
            advice="give it one",
            pointer=f"/{member}",
            requirement="AT-MODEL-01",
        )


def check_kin(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that a call is not its own parent, does not wait for itself, and repeats another."""
    own = record.members.get("invocation_id")
    if not isinstance(own, str):
        return
    for member in ("parent_invocation_id", "retry_of"):
        if record.members.get(member) == own:
            yield _own(f"/{member}")
    for index, each in ids_in(record.members.get("depends_on")):
        if each == own:
            yield _own(pointer_of(("depends_on", index)))


def _own(pointer: str) -> Flaw:
    return Flaw(
        message="the call leads to itself",
        expected="the id of another call",
        advice="name the other call, or leave it out",
        pointer=pointer,
        requirement="AT-MODEL-01",
    )
