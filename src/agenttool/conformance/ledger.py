"""The numbered requirements of both standards, as data that travels with the package.

In `source`, Agent Tool rows cite 000 (specification), 001 (documentation), 002 (tool interface) and 003 (Chinese
specification) of the draft, its repository or its schemas; RAP rules cite the pages of the protocol by three letters.
"""

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from importlib.resources import files

import msgspec


class Standard(StrEnum):
    """The two standards, each with a folder of requirements."""

    AGENT_TOOL = "agent-tool"
    RAP = "rap"

    @property
    def full_name(self) -> str:
        """The name of the standard, as in its title."""
        return {Standard.AGENT_TOOL: "Agent Tool 0.2.0", Standard.RAP: "Reactive Agent Protocol"}[self]


class Obligation(StrEnum):
    """How strictly a requirement binds, whether it demands something or forbids it."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class Level(StrEnum):
    """The requirement word of the ledger."""

    MUST = "MUST"
    MUST_NOT = "MUST NOT"
    SHOULD = "SHOULD"
    SHOULD_NOT = "SHOULD NOT"
    MAY = "MAY"

    @property
    def obligation(self) -> Obligation:
        """The obligation: a prohibition binds as strictly as a demand."""
        return Obligation(self.value.removesuffix(" NOT"))


class Mark(StrEnum):
    """A note of the RAP ledger about a rule, spelled as there."""

    READING = "~"  # the page states a plain fact; the level is our reading of it
    DERIVED = "{derived}"  # no page states it; it follows from the stated rules or is needed for safety
    SEED = "[seed]"  # stated on the page about tool invocation


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered sentence of a standard.

    `check` describes how to prove an Agent Tool requirement; `who` names the side that a RAP rule binds. The other
    standard has no such column. A derived rule has an empty `source`.
    """

    id: str
    standard: Standard
    area: str
    level: Level
    source: str
    sentence: str = msgspec.field(name="requirement")
    check: str | None = None
    who: str | None = None
    marks: tuple[Mark, ...] = ()


class Area(msgspec.Struct, frozen=True, kw_only=True):
    """One section of a standard and its requirements, in ledger order."""

    standard: Standard
    name: str
    title: str
    requirements: tuple[Requirement, ...]


@cache
def load_areas() -> tuple[Area, ...]:
    """Read every packaged requirement, in the order of the two ledgers.

    An unknown level or mark raises an error: the package is faulty.
    """
    return tuple(area for standard in Standard for area in _read_standard(standard))


def _read_standard(standard: Standard) -> Iterator[Area]:
    folder = standard.value.replace("-", "_")
    for row in read_table(f"requirements/{folder}/areas.tsv"):
        name = row["area"]
        rows = read_table(f"requirements/{folder}/{name.lower().replace('-', '_')}.tsv")
        facts = [{**each, "standard": standard, "area": name, "marks": each.get("marks", "").split()} for each in rows]
        requirements = msgspec.convert(facts, tuple[Requirement, ...])
        yield Area(standard=standard, name=name, title=row["title"], requirements=requirements)


def read_table(path: str) -> list[dict[str, str]]:
    """Return the rows of a tab-separated table in this package, each by column name."""
    text = files("agenttool.conformance").joinpath(path).read_text(encoding="utf-8")
    header, *lines = text.splitlines()
    return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
