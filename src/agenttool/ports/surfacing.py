"""The settings that decide which tools a surface shows: its size, the model, the role and the environment."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from agenttool.records import ClosedEnum, Json, JsonObject

MAX_TOOLS = 100
MAX_TOKENS = 20_000


class ProviderState(ClosedEnum):
    """The connection state of the server, plugin or peer behind a namespace."""

    READY = "ready"
    CONNECTING = "connecting"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfacePolicy:
    """The size limits of a surface.

    Over either limit every tool is deferred, except those with `always_load` and those that the caller loaded.

    Attributes:
        max_tools: the largest number of shown tools; none for no limit.
        max_tokens: the largest size of their names, descriptions and schemas together, at four bytes a token; up to
            ten tools are shown whatever their size.
        hide_denied: hide tools that rules deny for all arguments; otherwise they are shown, and calls are denied.
    """

    max_tools: int | None = MAX_TOOLS
    max_tokens: int | None = MAX_TOKENS
    hide_denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """The features that a model and its provider support; none by default.

    Attributes:
        media: the kinds of content that it accepts besides text, such as `image`.
        max_tools: the largest number of tools that its provider accepts in a request.
    """

    strict_schemas: bool = False
    parallel_calls: bool = False
    deferred_refs: bool = False
    media: frozenset[str] = frozenset()
    max_tools: int | None = None

    @property
    def _flags(self) -> dict[str, bool]:
        return {
            "strict_schemas": self.strict_schemas,
            "parallel_calls": self.parallel_calls,
            "deferred_refs": self.deferred_refs,
        }

    def words(self) -> frozenset[str]:
        """Return the supported features, in the words of a tool's `model_requirements`."""
        features = (name for name, has in self._flags.items() if has)
        return frozenset((*features, *(f"media:{each}" for each in self.media)))

    def as_json(self) -> JsonObject:
        """Return the JSON form for the record of a surface."""
        media: list[Json] = [*sorted(self.media)]
        members: JsonObject = {**self._flags, "media": media}
        return members if self.max_tools is None else {**members, "max_tools": self.max_tools}


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The role that a surface is made for, such as an agent or a background worker, and its tools.

    Attributes:
        tools: patterns of qualified names, such as `files.*`; a bare name is that of a tool in any namespace.
        without: patterns of tools to exclude from these.
        is_background: no user can be asked for an approval.
    """

    name: str
    tools: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()
    is_background: bool = False

    def as_json(self) -> JsonObject:
        """Return the JSON form for the record of a surface."""
        return {
            "role": self.name,
            "tools": [*self.tools],
            "without": [*self.without],
            "is_background": self.is_background,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The environment of all surfaces of a runtime, until the application changes it.

    A set is empty by default, and excludes the tools that need an element of it. None means that the environment is
    not known; then no tool is excluded for this reason.

    Attributes:
        credentials: refs of the credentials that can be leased.
        credential_faults: why others cannot be leased, each with the remedy after a semicolon.
        gates: the open feature gates.
        skills: the active skills; a skill's tools are those of kind `skill_tool` in the namespace of its name.
        peers: the reachable peer agents; their tools are those of kind `peer_agent_tool`, likewise.
        providers: the states of the providers by namespace; a provider that is not listed is ready.
        has_browser: whether a browser session exists.
        allows_shell: whether the sandbox and the platform permit commands and code.
        model: the default model of surfaces.
    """

    credentials: frozenset[str] = frozenset()
    credential_faults: Mapping[str, str] = field(default_factory=dict[str, str])
    gates: frozenset[str] = frozenset()
    skills: frozenset[str] | None = None
    peers: frozenset[str] | None = None
    providers: Mapping[str, ProviderState] = field(default_factory=dict[str, ProviderState])
    has_browser: bool | None = None
    allows_shell: bool | None = None
    model: ModelCapabilities | None = None

    def within(self, outer: "Circumstances") -> "Circumstances":
        """Return these circumstances for a sub-agent, limited to those of its parent agent (`outer`)."""
        return Circumstances(
            credentials=self.credentials & outer.credentials,
            credential_faults={**self.credential_faults, **outer.credential_faults},
            gates=self.gates & outer.gates,
            skills=_both(self.skills, outer.skills),
            peers=_both(self.peers, outer.peers),
            providers={**self.providers, **outer.providers},
            has_browser=_stricter(self.has_browser, outer.has_browser),
            allows_shell=_stricter(self.allows_shell, outer.allows_shell),
            model=self.model,
        )

    def with_credentials(self, names: AbstractSet[str], faults: Mapping[str, str]) -> "Circumstances":
        """Return these circumstances with more credentials, and with why some cannot be leased."""
        return replace(self, credentials=self.credentials | names, credential_faults=faults)


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return one if other is None else other if one is None else one & other


def _stricter(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001 -- three answers, not a switch
    return False if False in (one, other) else one if other is None else other
