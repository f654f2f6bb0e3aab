"""Immutable views of the catalog, in which every tool has a number, and masks over those numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import NamedTuple

from agenttool.catalog.entry import Entry, Traits, deferred_ref, estimate_tokens
from agenttool.catalog.filters import Absence
from agenttool.catalog.names import NameTable
from agenttool.ports.surfacing import Role
from agenttool.records import DeferredToolRef, ToolId

BYTE_VALUES = 256
"""How many different groups of traits one byte can number."""

_NOT_IN_BARE_NAMES = frozenset(".*?[")

_INVERTED = bytes(255 - code for code in range(256))
_NONZERO = bytes(255 if code else 0 for code in range(256))


def apply_mask(codes: bytes, mask: bytes) -> bytes:
    """Return the codes where the mask is 255, and zero elsewhere."""
    both = int.from_bytes(codes, "little") & int.from_bytes(mask, "little")
    return both.to_bytes(len(codes), "little")


def invert_mask(mask: bytes) -> bytes:
    """Return the mask of all other tools."""
    return mask.translate(_INVERTED)


def nonzero_mask(codes: bytes) -> bytes:
    """Return the mask of the tools whose code is not zero."""
    return codes.translate(_NONZERO)


def masked_numbers(mask: bytes) -> list[int]:
    """Return the numbers of the tools where the mask is not zero."""
    return list(compress(range(len(mask)), mask))


@dataclass(slots=True, eq=False)
class ToolColumns:
    """The columns of tool data that surfaces use, by number. Before a tool is replaced, the columns are copied.

    `refs` and `tokens` are computed when a surface first needs them, so that a large catalog opens quickly.

    Attributes:
        groups: the number of each tool's traits; bytes as long as there are at most 256 groups.
        traits: each combination of traits with its number.
    """

    entries: list[Entry] = field(default_factory=list[Entry])
    groups: bytearray | list[int] = field(default_factory=bytearray)
    traits: dict[Traits, int] = field(default_factory=dict[Traits, int])
    _refs: list[DeferredToolRef] = field(default_factory=list[DeferredToolRef])
    _tokens: list[int] = field(default_factory=list[int])

    @property
    def refs(self) -> list[DeferredToolRef]:
        """The reference of each tool if it is deferred; the same list until a tool is replaced."""
        self._refs.extend(deferred_ref(each.tool) for each in self.entries[len(self._refs) :])
        return self._refs

    @property
    def tokens(self) -> list[int]:
        """The estimated size of each tool."""
        self._tokens.extend(estimate_tokens(each.tool.declaration) for each in self.entries[len(self._tokens) :])
        return self._tokens

    def group(self, traits: Traits) -> int:
        """Return the number of a combination of traits, adding it if it is new."""
        if len(self.traits) == BYTE_VALUES and traits not in self.traits:
            self.groups = list(self.groups)
        return self.traits.setdefault(traits, len(self.traits))

    def append(self, entry: Entry, group: int) -> None:
        """Add a tool under the next number."""
        self.entries.append(entry)
        self.groups.append(group)

    def put(self, number: int, entry: Entry, group: int) -> None:
        """Replace a tool."""
        self.entries[number], self.groups[number] = entry, group
        if number < len(self._refs):
            self._refs[number] = deferred_ref(entry.tool)
        if number < len(self._tokens):
            self._tokens[number] = estimate_tokens(entry.tool.declaration)

    def copy(self) -> "ToolColumns":
        """Return a copy in which a tool can be replaced; traits are only ever added and stay shared."""
        return ToolColumns(self.entries.copy(), self.groups.copy(), self.traits, self._refs.copy(), self._tokens.copy())


class ListedTools(NamedTuple):
    """The long lists of a surface record and their token sums, for tools with these visibility codes."""

    refs: Sequence[DeferredToolRef]
    codes: bytes
    loaded: tuple[ToolId, ...]
    considered: tuple[ToolId, ...]
    deferred_refs: tuple[DeferredToolRef, ...]
    loaded_tokens: int
    deferred_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogSnapshot:
    """All tools at one moment, each with a number. Any number of surfaces can share it.

    Its parts are shared with later snapshots and may contain later tools. Only the first `size` tools belong to it.

    Attributes:
        traits: each combination of traits, by group number.
        withdrawn: why some tools are on no surface; unlike the rest, this follows the catalog.
        last_listed: the lists of the surface that was recorded last, to reuse them for the next one.
    """

    size: int
    names: NameTable
    columns: ToolColumns
    traits: tuple[Traits, ...]
    withdrawn: Mapping[int, Absence]
    last_listed: list[ListedTools]

    @property
    def entries(self) -> Sequence[Entry]:
        """The tools by number."""
        return self.columns.entries

    def number(self, tool_id: ToolId) -> int | None:
        """Return the number of a tool; None if it was not declared yet."""
        return self._if_present(self.names.numbers.get(tool_id))

    def owner(self, name: str) -> int | None:
        """Return the number of the tool with a qualified name."""
        return self._if_present(self.names.owners.get(name))

    def _if_present(self, number: int | None) -> int | None:
        return number if number is not None and number < self.size else None

    def sharing(self, table: Mapping[str, Sequence[int]], name: str) -> list[int]:
        """Return the tools that share a name in one of the tables of names."""
        return [each for each in table.get(name, ()) if each < self.size]

    def named(self, names: Iterable[str]) -> frozenset[int]:
        """Return the tools with any of these ids, qualified names or bare names."""
        found: set[int | None] = set()
        for name in names:
            found.update(self.sharing(self.names.by_name, name))
            found |= {self.owner(name), self.number(ToolId(name))}
        return frozenset(each for each in found if each is not None)

    def by_group(self, values: Sequence[int]) -> bytes:
        """Return for each tool the value of its traits group."""
        groups = self.columns.groups
        if isinstance(groups, bytearray):
            return bytes(groups[: self.size].translate(bytes(values).ljust(BYTE_VALUES, b"\0")))
        return bytes(map(values.__getitem__, islice(groups, self.size)))

    def for_role(self, role: Role) -> bytes:
        """Return the mask of the tools that a role may use."""
        allowed = self.names.matching(in_any_namespace(role.tools), self.size)
        excluded = self.names.matching(in_any_namespace(role.without), self.size)
        return apply_mask(allowed, invert_mask(excluded))


def in_any_namespace(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Add patterns so that a bare name matches tools of that name in every namespace."""
    return (*patterns, *(f"*.{each}" for each in patterns if _NOT_IN_BARE_NAMES.isdisjoint(each)))
