"""Settings with a part of their sources, for commands that need only some: others may be slow, or hang."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from agenttool.config import Config
from agenttool.ports.source import SourceHost, SourceStatus
from agenttool.ports.surfacing import ProviderState


@dataclass(frozen=True, slots=True)
class UnconnectedSource:
    """A source of the settings that is not connected; rules may name its tools."""

    name: str

    async def connect(self, host: SourceHost) -> None:
        """Do nothing."""

    def health(self) -> tuple[SourceStatus, ...]:
        """Return that it cannot be used."""
        return (SourceStatus(source=self.name, state=ProviderState.UNAVAILABLE),)

    async def close(self) -> None:
        """Do nothing."""


def function_sources(config: Config) -> set[str]:
    """Return the sources that are Python functions: they connect at once, and have any namespace."""
    return {each for each, table in config.sources.items() if table.members.get("kind") == "python"}


def source_named(config: Config, tool: str) -> set[str]:
    """Return the source that the name of a tool begins with; empty if it begins with none.

    Sources other than functions have only the namespace of their own name.
    """
    return {tool.removeprefix("tool_").partition(".")[0]} & config.sources.keys()


def choose_sources(config: Config, wanted: Collection[str]) -> tuple[Config, list[UnconnectedSource]]:
    """Return settings with the functions and the sources that are wanted, and stand-ins for the others."""
    chosen = function_sources(config).union(wanted)
    others = [UnconnectedSource(each) for each in config.sources if each not in chosen]
    return replace(config, sources={each: table for each, table in config.sources.items() if each in chosen}), others
