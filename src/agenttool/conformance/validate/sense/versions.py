"""Does a record say by which version of the draft it was written."""

from collections.abc import Iterable, Iterator

from agenttool.conformance.validate.finding import Flaw, Severity
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.records import SCHEMA_VERSION, Json
from agenttool.schema.explain import pointer_of


def check_version(record: ForeignRecord) -> Iterable[Flaw]:
    """Ask for the literal version (AT-VER-01); a readable older one is a warning (AT-VER-04).

    That it is missing from the record itself is for the schema to say.
    """
    version = record.members.get("schema_version")
    if version == SCHEMA_VERSION or not isinstance(version, str):
        return ()
    is_old = version.startswith("0.1.")
    requirement = "AT-DECL-02" if record.kind == "tool_declaration" else "AT-VER-01"
    flaw = Flaw(
        message="the record is of an older draft" if is_old else "the record is of an unknown version of the draft",
        expected=repr(SCHEMA_VERSION),
        advice=f"write it anew by version {SCHEMA_VERSION}",
        pointer="/schema_version",
        requirement="AT-VER-04" if is_old else requirement,
        severity=Severity.WARNING if is_old else Severity.ERROR,
    )
    return (flaw,)


def check_nested_versions(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask the deferred refs of a surface for their version too; it is inherited on reading, so this is a warning."""
    deferred = record.members.get("deferred_tools")
    for index, ref in enumerate(deferred if isinstance(deferred, list) else ()):
        if isinstance(ref, dict) and ref.get("schema_version") != SCHEMA_VERSION:
            yield _nested(ref.get("schema_version"), index)


def _nested(version: Json, index: int) -> Flaw:
    return Flaw(
        message="a deferred ref does not say its version"
        if version is None
        else "a deferred ref is of another version",
        expected=repr(SCHEMA_VERSION),
        advice=f"add the member with {SCHEMA_VERSION!r}",
        pointer=pointer_of(("deferred_tools", index, "schema_version")),
        requirement="AT-VER-01",
        severity=Severity.WARNING,
    )
