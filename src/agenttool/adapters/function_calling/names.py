"""Names that every provider takes, and back to the tool that is meant.

Providers differ in what a name may be: 64 characters here and 128 there, dots or none, a letter first or anything. What
they all take is one spelling, so that a transcript can move from one provider to another.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agenttool.ports.offer import OfferedTool

MAX_CHARS = 64
_FITS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_FEWEST_DIGITS = 8


class Named(Protocol):
    """A tool by its names: one that is offered, or the ref of one that waits."""

    @property
    def namespace(self) -> str | None:
        """What keeps its name apart from those of others."""
        ...

    @property
    def name(self) -> str:
        """The name within its namespace."""
        ...


@dataclass(frozen=True, slots=True)
class Claims:
    """How many tools of a surface want each name, so that loading one of them renames none.

    Attributes:
        bare: by the names that they have.
        wanted: by the names that they would like best.
    """

    bare: Counter[str]
    wanted: Counter[str]


def claims_of(tools: Iterable[Named]) -> Claims:
    """Count the names that tools want, those included that wait to be loaded."""
    there = [(each.namespace, each.name) for each in tools]
    bare = Counter(name for _, name in there)
    return Claims(bare, Counter(_wanted(namespace, name, bare) for namespace, name in there))


def named(
    tools: Iterable[OfferedTool], reserved: Iterable[str] = (), *, claims: Claims | None = None
) -> dict[str, OfferedTool]:
    """Give every tool a name of its own; whoever is called by it is found in the same table.

    A name that fits and that no other tool wants stays as it is. Two tools that share a bare name are told apart by
    their namespaces, and where spelling a name anew is not enough, by a digest of the qualified name. The order of the
    tools does not matter.

    Args:
        tools: those that need a name.
        reserved: names that no tool may have.
        claims: those of all tools of the surface, if more are there than need a name now.
    """
    chosen = list(tools)
    claims = claims_of(chosen) if claims is None else claims
    wanted = {tool.qualified_name: _wanted(tool.namespace, tool.name, claims.bare) for tool in chosen}
    held = frozenset(reserved)
    names: dict[str, str] = {}
    for tool in chosen:
        name = wanted[tool.qualified_name]
        is_free = name not in held and (claims.wanted[name] == 1 or name == tool.name)
        if is_free and _FITS.fullmatch(name):
            names[tool.qualified_name] = name
    given: set[str] = set()
    for qualified_name in sorted(wanted.keys() - names.keys()):
        name = _marked(wanted[qualified_name], qualified_name, (held, claims.wanted, given))
        names[qualified_name] = name
        given.add(name)
    return {names[tool.qualified_name]: tool for tool in chosen}


def _wanted(namespace: str | None, name: str, bare: Mapping[str, int]) -> str:
    """Spell the name that a tool would like best, however long."""
    whole = f"{namespace}__{name}" if bare[name] > 1 else name
    if _FITS.fullmatch(whole):
        return whole
    spelled = _STRANGE.sub("_", whole)
    return spelled if spelled[:1].isalpha() or spelled[:1] == "_" else f"_{spelled}"


def _marked(name: str, qualified_name: str, taken: Iterable[Container[str]]) -> str:
    """Cut a name to make room for a digest of the whole, as long as it takes to be unlike any other."""
    digest = hashlib.sha256(qualified_name.encode(errors="surrogatepass")).hexdigest()
    for digits in range(_FEWEST_DIGITS, MAX_CHARS - 1):
        marked = f"{name[: MAX_CHARS - 1 - digits]}_{digest[:digits]}"
        if not any(marked in each for each in taken):
            return marked
    raise AssertionError("two qualified names have the same digest")
