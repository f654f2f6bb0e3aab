"""The tools of a catalog at one moment, as surfaces need them: what can be worked out before, worked out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence
from agenttool.catalog.masks import kept, without
from agenttool.catalog.names import Names
from agenttool.catalog.traits import Traits
from agenttool.ports.surfacing import Role
from agenttool.records import DeferredToolRef, ToolId

BYTES = 256
"""How many different kinds of tools a byte can tell apart."""

_NO_NAME = frozenset(".*?[")
"""What stands in a qualified name or a pattern, and not in a bare name."""


@dataclass(slots=True, eq=False)
class Columns:
    """What is known of each tool, by number. It only grows; where a tool is replaced, it is another that says so.

    Attributes:
        kinds: for each tool, where its traits are; bytes for as long as there are few enough.
        traits: each combination once.
        tokens: what it costs to show each tool.
    """

    entries: list[Entry] = field(default_factory=list[Entry])
    kinds: bytearray | list[int] = field(default_factory=bytearray)
    traits: dict[Traits, int] = field(default_factory=dict[Traits, int])
    refs: list[DeferredToolRef] = field(default_factory=list[DeferredToolRef])
    tokens: list[int] = field(default_factory=list[int])

    def kind(self, traits: Traits) -> int:
        """Say where traits are, from now on if nobody had them before."""
        if len(self.traits) == BYTES and traits not in self.traits:
            self.kinds = list(self.kinds)
        return self.traits.setdefault(traits, len(self.traits))

    def copy(self) -> "Columns":
        """Give the same once more, to change something in it; kinds of tools are only ever added."""
        return Columns(self.entries.copy(), self.kinds.copy(), self.traits, self.refs.copy(), self.tokens.copy())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """The long lists of a surface and what they come to, for the tools that have these fates."""

    refs: Sequence[DeferredToolRef]
    codes: bytes
    loaded: tuple[ToolId, ...] = ()
    deferred: tuple[ToolId, ...] = ()
    considered: tuple[ToolId, ...] = ()
    deferred_refs: tuple[DeferredToolRef, ...] = ()
    loaded_tokens: int = 0
    deferred_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roster:
    """All tools at one moment, each with a number; it never changes, so that any number of surfaces can share it.

    What it is made of is shared with rosters of other moments, and may know of tools that came later: this one has as
    many as its size says, and they are always the first.

    Attributes:
        traits: each combination of what decides about a tool, once.
        withdrawn: why some tools are there in no situation, as their authors say by now; this alone does change.
        written: the lists of the surface that was last written down, for the next one.
    """

    size: int
    names: Names
    columns: Columns
    traits: tuple[Traits, ...]
    withdrawn: Mapping[int, Absence]
    written: list[Lists]

    @property
    def entries(self) -> Sequence[Entry]:
        """The tools, by number."""
        return self.columns.entries

    def number(self, tool_id: ToolId) -> int | None:
        """Find where a tool stands; nowhere if it was not there yet."""
        found = self.names.numbers.get(tool_id)
        return found if found is not None and found < self.size else None

    def owner(self, name: str) -> int | None:
        """Find the tool that has a qualified name."""
        found = self.names.owners.get(name)
        return found if found is not None and found < self.size else None

    def bearers(self, name: str) -> list[int]:
        """Find the tools that share a bare name."""
        return self._present(self.names.bearers.get(name, ()))

    def aliased(self, name: str) -> list[int]:
        """Find the tools that share an alias."""
        return self._present(self.names.aliases.get(name, ()))

    def in_namespace(self, namespace: str) -> list[int]:
        """Find the tools of a namespace."""
        return self._present(self.names.namespaces.get(namespace, ()))

    def _present(self, numbers: Iterable[int]) -> list[int]:
        return [each for each in numbers if each < self.size]

    def chosen(self, names: Iterable[str]) -> frozenset[int]:
        """Find the tools that are named, by id, qualified name or bare name."""
        found: set[int | None] = set()
        for name in names:
            found.update(self.bearers(name))
            found |= {self.owner(name), self.number(ToolId(name))}
        return frozenset(each for each in found if each is not None)

    def by_kind(self, values: Sequence[int]) -> bytes:
        """Give to each tool what its kind has."""
        kinds = self.columns.kinds
        if isinstance(kinds, bytearray):
            return bytes(kinds[: self.size].translate(bytes(values).ljust(BYTES, b"\0")))
        return bytes(map(values.__getitem__, islice(kinds, self.size)))

    def for_role(self, role: Role) -> bytes:
        """Mask the tools that a role may use."""
        wanted = self.names.fitting(_in_any_namespace(role.tools), self.size)
        return kept(wanted, without(self.names.fitting(_in_any_namespace(role.without), self.size)))


def _in_any_namespace(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Let a bare name stand for every tool that bears it: to leave one out must not leave it in by its namespace."""
    return (*patterns, *(f"*.{each}" for each in patterns if _NO_NAME.isdisjoint(each)))
