"""Tools as rules see them: from their own records where a module has them, else from what the journal holds."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from agenttool.assemble import Tool, declared
from agenttool.policy.subject import EffectFacts, Subject, subject_of
from agenttool.records import (
    InputContract,
    Json,
    JsonObject,
    Lifecycle,
    NonInteractivePrompt,
    PermissionProfile,
    PermissionProfileId,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolKind,
    complete_interface,
    complete_profile,
)

STRICT = EffectFacts()
LENIENT = EffectFacts(is_read_only=True, is_destructive=False, is_open_world=False)

_COMPUTED = frozenset({"is_read_only", "is_destructive", "is_open_world"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A tool, as far as it is known.

    Attributes:
        readings: how it may be: once if all of it is known, else at its strictest and at its most harmless.
        is_declared: whether its own records were at hand.
    """

    readings: tuple[tuple[Subject, EffectFacts | None], ...]
    is_declared: bool

    @property
    def subject(self) -> Subject:
        """The tool at its strictest."""
        return self.readings[0][0]


class Tools:
    """All tools of a journal."""

    def __init__(self, known: Iterable[Tool]) -> None:
        """Take those whose records are at hand."""
        self._names: dict[str, str] = {}
        self._known: dict[str, Subject] = {}
        for tool in map(declared, known):
            self._known[tool.declaration.tool_id] = subject_of(
                tool.declaration,
                complete_interface(tool.interface),
                complete_profile(tool.execution_profile),
                tool.permission_profile,
            )

    def name(self, tool_id: str, name: str) -> None:
        """Hear by which name a tool was declared."""
        self._names[tool_id] = name

    def name_of(self, tool_id: str) -> str:
        """Give the qualified name of a tool."""
        return self._names.get(tool_id) or tool_id.removeprefix("tool_")

    def see(self, tool_id: str, arguments: Json, facts: EffectFacts | None) -> Seen:
        """Give what is known of the tool of one call, and of what the call does."""
        subject = self._known.get(tool_id)
        if subject is not None:
            told = (facts,) if facts is not None or not subject.computed else (STRICT, LENIENT)
            return Seen(readings=tuple((subject, each) for each in told), is_declared=True)
        names = frozenset(arguments) if isinstance(arguments, dict) else frozenset[str]()
        strict, lenient = _recorded(tool_id, self.name_of(tool_id), names)
        return Seen(readings=((strict, facts or STRICT), (lenient, facts or LENIENT)), is_declared=False)


@lru_cache(maxsize=1024)
def _recorded(tool_id: str, qualified_name: str, arguments: frozenset[str]) -> tuple[Subject, Subject]:
    """Make a tool of what the journal holds: its name, and the names of the arguments of one call.

    It lacks the tool's kind, its aliases and native identities, its schemas, what it says about its effects and its
    risk, and its digest. Arguments are paths, commands or addresses by their names alone. So two are made: one that
    says the worst of itself and one that says the best, and only what holds of both can be known.
    """
    namespace, _, name = qualified_name.rpartition(".")
    schema: JsonObject = {"properties": {argument: {} for argument in sorted(arguments)}}
    declaration = ToolDeclaration(
        tool_id=ToolId(tool_id),
        namespace=namespace,
        name=name,
        description="known from the journal only",
        lifecycle=Lifecycle.AVAILABLE,
        tool_kind=ToolKind.FUNCTION,
        input_contract=InputContract(model_input_schema=schema),
    )
    harmless = PermissionProfile(
        permission_profile_id=PermissionProfileId(f"imagined:{tool_id}"),
        risk_level=RiskLevel.LOW,
        approval_required=False,
        non_interactive_prompt=NonInteractivePrompt.AVOID,
    )
    strict, lenient = subject_of(declaration), subject_of(declaration, permission_profile=harmless)
    return replace(strict, computed=_COMPUTED), replace(lenient, computed=_COMPUTED)
