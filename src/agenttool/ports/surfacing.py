"""What the owner of a runtime says about the world a surface is made in: how much fits, which model, whose role."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttool.records import ClosedEnum, Json, JsonObject

MAX_TOOLS = 100
MAX_TOKENS = 20_000


class ProviderState(ClosedEnum):
    """How far the server, plugin or peer behind a namespace is from answering."""

    READY = "ready"
    CONNECTING = "connecting"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfacePolicy:
    """How much a surface may show before its tools wait to be searched for.

    Over either limit every tool is deferred but those that say `always_load` and those that somebody loaded.

    Attributes:
        max_tools: how many tools are shown at most; none for any number.
        max_tokens: how large their names, descriptions and schemas may be together, at four bytes a token; up to ten
            tools are shown however large they are.
        hide_denied: leave out what rules deny whatever its arguments; else it is shown, and a call to it is denied.
    """

    max_tools: int | None = MAX_TOOLS
    max_tokens: int | None = MAX_TOKENS
    hide_denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """What a model and its provider support; what is not said is not supported.

    Attributes:
        media: the kinds of content that it takes besides text, such as `image`.
        max_tools: how many tools its provider takes at once.
    """

    strict_schemas: bool = False
    parallel_calls: bool = False
    deferred_refs: bool = False
    media: frozenset[str] = frozenset()
    max_tools: int | None = None

    def words(self) -> frozenset[str]:
        """Give what is supported in the words in which a tool says what it needs."""
        flags = {
            "strict_schemas": self.strict_schemas,
            "parallel_calls": self.parallel_calls,
            "deferred_refs": self.deferred_refs,
        }
        return frozenset((*(name for name, has in flags.items() if has), *(f"media:{each}" for each in self.media)))

    def told(self) -> JsonObject:
        """Give it as a surface records it."""
        media: list[Json] = [*sorted(self.media)]
        told: JsonObject = {
            "strict_schemas": self.strict_schemas,
            "parallel_calls": self.parallel_calls,
            "deferred_refs": self.deferred_refs,
            "media": media,
        }
        return told if self.max_tools is None else {**told, "max_tools": self.max_tools}


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Who a surface is for: a kind of agent, a background worker, a person; and which tools that one may use.

    Attributes:
        tools: patterns of qualified names, such as `files.*`; a bare name is that of a tool in any namespace.
        without: patterns of those that are left out all the same.
        is_background: nobody can be asked where it works.
    """

    name: str
    tools: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()
    is_background: bool = False

    def told(self) -> JsonObject:
        """Give it as a surface records it."""
        return {
            "role": self.name,
            "tools": [*self.tools],
            "without": [*self.without],
            "is_background": self.is_background,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What holds for all surfaces of a runtime until its owner says that it changed.

    What is a set of things that are there counts as empty unless somebody says otherwise; where none stands for
    "nobody keeps count of them", no tool is left out for it.

    Attributes:
        credentials: refs of those that can be had.
        gates: feature gates that are open.
        skills: the active ones; a skill's tools are those of kind `skill_tool` in the namespace of its name.
        peers: the peer agents that can be reached; their tools are those of kind `peer_agent_tool`, likewise.
        providers: how far the providers of namespaces are; one that is not named is ready.
        has_browser: whether a browser session exists.
        allows_shell: whether the sandbox and the platform let commands and code run.
        model: the model that surfaces are for, unless they are asked for another.
    """

    credentials: frozenset[str] = frozenset()
    gates: frozenset[str] = frozenset()
    skills: frozenset[str] | None = None
    peers: frozenset[str] | None = None
    providers: Mapping[str, ProviderState] = field(default_factory=dict[str, ProviderState])
    has_browser: bool | None = None
    allows_shell: bool | None = None
    model: ModelCapabilities | None = None

    def within(self, outer: "Circumstances") -> "Circumstances":
        """Give what is left of these for a sub-agent: nothing that whoever started it does not have."""
        return Circumstances(
            credentials=self.credentials & outer.credentials,
            gates=self.gates & outer.gates,
            skills=_both(self.skills, outer.skills),
            peers=_both(self.peers, outer.peers),
            providers={**self.providers, **outer.providers},
            has_browser=_stricter(self.has_browser, outer.has_browser),
            allows_shell=_stricter(self.allows_shell, outer.allows_shell),
            model=self.model,
        )


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return one if other is None else other if one is None else one & other


def _stricter(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001 -- three answers, not a switch
    return False if False in (one, other) else one if other is None else other
