"""Which hooks apply to a tool, worked out once per tool."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast

from agenttool.errors import ConfigError
from agenttool.ports.hooks import HookRunner
from agenttool.records import HookEvent, JsonObject, ToolDeclaration

DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hook:
    """A registered hook: where it stands, which tools it looks at, and for how long it may think.

    Attributes:
        tools: patterns of qualified names, bare names or ids.
        is_trusted: it sees sensitive fields as they are; any other hook sees `[redacted]`, and may leave that standing.
    """

    name: str
    event: HookEvent
    runner: HookRunner
    tools: tuple[str, ...] = ("*",)
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_trusted: bool = False

    def __post_init__(self) -> None:
        """Refuse a hook that would never be asked, because of a slip of the pen.

        Raises:
            ConfigError: there is no such event, or the tools are not a list, or the time is none.
        """
        told = f"hook {self.name!r}"
        if self.event not in list(HookEvent):
            raise ConfigError(f"{told} stands at {self.event!r}, which is no event; use one of {', '.join(HookEvent)}")
        if isinstance(self.tools, str):
            raise ConfigError(f"{told} must look at a list of patterns, got one text; write [{self.tools!r}]")
        listed = cast("object", self.tools)
        if not isinstance(listed, Collection) or not all(
            isinstance(each, str) for each in cast("list[object]", listed)
        ):
            raise ConfigError(f"{told} must look at a list of patterns, got {listed!r}; use texts such as 'files.*'")
        if not isinstance(cast("object", self.timeout_s), int | float) or not self.timeout_s > 0:
            raise ConfigError(
                f"{told} must have a time above 0 s, got {self.timeout_s!r}; leave it out for the default"
            )

    def applies_to(self, declaration: ToolDeclaration) -> bool:
        """Tell whether any of its patterns fits the qualified name, the bare name or the tool's id."""
        names = (f"{declaration.namespace}.{declaration.name}", declaration.name, declaration.tool_id)
        return any(fnmatchcase(name, pattern) for pattern in self.tools for name in names)

    def matcher(self) -> JsonObject:
        """Tell for the record what it looks at."""
        return {"tools": list(self.tools)}


@dataclass(frozen=True, slots=True)
class HooksOfTool:
    """The hooks of one tool by event, each list in the order of registration; usually all empty."""

    by_event: dict[HookEvent, tuple[Hook, ...]] = field(default_factory=dict[HookEvent, tuple[Hook, ...]])

    def at(self, event: HookEvent) -> tuple[Hook, ...]:
        """Give the hooks that stand at one place."""
        return self.by_event.get(event, ())


def hooks_of(hooks: Iterable[Hook], declaration: ToolDeclaration) -> HooksOfTool:
    """Pick the hooks that apply to a tool."""
    chosen = [hook for hook in hooks if hook.applies_to(declaration)]
    events = {hook.event for hook in chosen}
    return HooksOfTool({event: tuple(hook for hook in chosen if hook.event == event) for event in events})
