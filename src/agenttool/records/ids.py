"""Identifiers, each with a type of its own."""

from collections.abc import Callable
from typing import Generic, NewType, TypeVar

ToolId = NewType("ToolId", str)
InterfaceId = NewType("InterfaceId", str)
ExecutionProfileId = NewType("ExecutionProfileId", str)
PermissionProfileId = NewType("PermissionProfileId", str)
SurfaceId = NewType("SurfaceId", str)
InvocationId = NewType("InvocationId", str)
DecisionId = NewType("DecisionId", str)
MutationId = NewType("MutationId", str)
HookId = NewType("HookId", str)
SchedulerPolicyId = NewType("SchedulerPolicyId", str)
ProgressId = NewType("ProgressId", str)
ResultId = NewType("ResultId", str)
PersistenceId = NewType("PersistenceId", str)
EventId = NewType("EventId", str)
ApprovalId = NewType("ApprovalId", str)

_Id = TypeVar("_Id", bound=str)


class IdKind(Generic[_Id]):
    """A kind of generated id; its prefix keeps kinds from colliding (G-54)."""

    def __init__(self, prefix: str, make: Callable[[str], _Id]) -> None:
        """Take the prefix, without its underscore, and the type that an id of this kind has."""
        self.prefix = prefix
        self._make = make

    def compose(self, unique: str) -> _Id:
        """Join the prefix to a unique part from an `IdSource`, a UUIDv7 in 32 hexadecimal digits."""
        return self._make(f"{self.prefix}_{unique}")

    def owns(self, text: str) -> bool:
        """Return whether an id is of this kind."""
        return text.startswith(f"{self.prefix}_")


SURFACE = IdKind("srf", SurfaceId)
INVOCATION = IdKind("inv", InvocationId)
PERSISTENCE = IdKind("prs", PersistenceId)
EVENT = IdKind("evt", EventId)

ID_PREFIXES = ("srf", "inv", "dec", "mut", "hook", "sched", "prg", "res", "prs", "evt", "apr")
"""The prefixes of all ids. Those of decisions, mutations and other parts of a call derive from the id of the call."""

_UNRESOLVED = "unresolved:"


def unresolved_tool(requested_name: str) -> ToolId:
    """Return the id for the tool of a call whose tool was not found (G-43)."""
    return ToolId(_UNRESOLVED + requested_name)


def is_unresolved(tool_id: str) -> bool:
    """Return whether an id stands for a tool that was not found."""
    return tool_id.startswith(_UNRESOLVED)
