"""The tools of a catalog at one moment, as surfaces need them: what can be worked out before, worked out."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from fnmatch import translate
from re import compile as compile_pattern
from typing import TypeVar

from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence
from agenttool.catalog.traits import Traits
from agenttool.ports.surfacing import Role
from agenttool.records import AbsentTool, DeferredToolRef, ToolId

_K = TypeVar("_K")
_V = TypeVar("_V")

Numbers = tuple[int, ...]
Lists = tuple[tuple[ToolId, ...], tuple[ToolId, ...], tuple[DeferredToolRef, ...]]

MOST = 64
"""How many reasons and lists of patterns are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roster:
    """All tools at one moment, each with a number; it never changes, so that any number of surfaces can share it.

    Attributes:
        names: the qualified ones.
        kinds: for each tool, where its traits are.
        traits: each combination once.
        owners: the tool of each qualified name.
        bearers: the tools that share each bare name.
        aliases: the tools that share each alias.
        withdrawn: why some tools are there in no situation, as their authors say by now; this alone does change.
        lists: the long lists of the surface that was last written down, for the next one, by its fates.
    """

    entries: tuple[Entry, ...]
    ids: tuple[ToolId, ...]
    names: tuple[str, ...]
    kinds: tuple[int, ...]
    traits: tuple[Traits, ...]
    refs: tuple[DeferredToolRef, ...]
    tokens: tuple[int, ...]
    numbers: dict[ToolId, int]
    owners: dict[str, int]
    bearers: dict[str, Numbers]
    aliases: dict[str, Numbers]
    withdrawn: Mapping[int, Absence]
    lists: dict[bytes, Lists] = field(default_factory=dict[bytes, Lists])
    _absent: dict[Absence, dict[int, AbsentTool]] = field(default_factory=dict[Absence, dict[int, AbsentTool]])
    _absent_kinds: dict[tuple[Absence, int], tuple[AbsentTool, ...]] = field(
        default_factory=dict[tuple[Absence, int], tuple[AbsentTool, ...]]
    )
    _members: list[Numbers] = field(default_factory=list[Numbers])
    _fitting: dict[tuple[str, ...], bytes] = field(default_factory=dict[tuple[str, ...], bytes])

    def chosen(self, names: Iterable[str]) -> frozenset[int]:
        """Find the tools that are named, by id, qualified name or bare name."""
        found: set[int] = set()
        for name in names:
            found.update(self.bearers.get(name, ()))
            if name in self.owners:
                found.add(self.owners[name])
            number = self.numbers.get(ToolId(name))
            if number is not None:
                found.add(number)
        return frozenset(found)

    def for_role(self, role: Role) -> Iterator[bool]:
        """Tell of each tool in turn whether a role may use it."""
        return map(int.__gt__, self._fits(role.tools), self._fits(role.without))

    def _fits(self, patterns: tuple[str, ...]) -> bytes:
        if patterns not in self._fitting:
            _make_room(self._fitting)
            fits = compile_pattern("|".join(map(translate, patterns)) or r"(?!)").match
            self._fitting[patterns] = bytes(fits(name) is not None for name in self.names)
        return self._fitting[patterns]

    def of_kind(self, kind: int) -> Numbers:
        """Give the tools that have certain traits."""
        if not self._members:
            members: list[list[int]] = [[] for _ in self.traits]
            for number, each in enumerate(self.kinds):
                members[each].append(number)
            self._members.extend(map(tuple, members))
        return self._members[kind]

    def absent_kind(self, absence: Absence, kind: int) -> tuple[AbsentTool, ...]:
        """Tell of all tools of a kind why they are absent."""
        known = self._absent_kinds.get((absence, kind))
        if known is None:
            _make_room(self._absent_kinds)
            known = self._absent_kinds[absence, kind] = tuple(self.absent(absence, self.of_kind(kind)))
        return known

    def absent(self, absence: Absence, numbers: Iterable[int]) -> list[AbsentTool]:
        """Tell of tools why they are absent; what was told of one before is told in the same record."""
        _make_room(self._absent)
        known = self._absent.setdefault(absence, {})
        return [known.get(each) or known.setdefault(each, self._told(absence, each)) for each in numbers]

    def _told(self, absence: Absence, number: int) -> AbsentTool:
        return AbsentTool(
            tool_id=self.ids[number],
            name=self.names[number],
            reason=absence.reason,
            message=absence.message,
            policy_refs=absence.policy_refs,
            may_change=absence.change is not None,
            would_change=absence.change,
        )


def _make_room(known: MutableMapping[_K, _V]) -> None:
    if len(known) > MOST:
        known.clear()
