"""What somebody asks of a surface."""

from dataclasses import dataclass

from agenttool.ports.surfacing import ModelCapabilities, Role
from agenttool.records import SurfaceScope


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceRequest:
    """What a surface was asked for; it is asked for the same again when something about the world changed.

    Attributes:
        only: the names of the tools that are wanted; none for all.
        model: the model that it is for; if none, the one that the runtime knows of.
        tool_choice: `auto`, `none`, `required`, or the name of a tool.
        refs: of the runtime, session, task or sandbox that it is for.
        reason: why it was made.
    """

    scope: SurfaceScope = SurfaceScope.TURN
    only: frozenset[str] | None = None
    role: Role | None = None
    model: ModelCapabilities | None = None
    tool_choice: str = "auto"
    refs: tuple[str, ...] = ()
    reason: str | None = None
