"""Function names that every provider accepts, assigned to the tools of a surface.

Providers differ in length, dots and first characters of names. One common spelling lets a transcript move between them.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from agenttool.ports.offer import OfferedTool
from agenttool.records import DeferredToolRef

MAX_CHARS = 64
_ACCEPTED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_PREFIX_END = re.compile("(?=(__))")
_MIN_DIGITS = 8
_BUILT_IN = "agenttool"
"""The namespace of the runtime's own tools, which are documented by their names alone."""


@dataclass(frozen=True, slots=True)
class NameCounts:
    """How many tools of a surface have each name, counted over all of them, so that loading one renames none.

    Attributes:
        bare: counts of names without namespaces.
        preferred: counts of preferred function names.
        prefixes: what names of each namespace begin with.
    """

    bare: Counter[str]
    preferred: Counter[str]
    prefixes: frozenset[str]


def count_names(tools: Iterable[OfferedTool | DeferredToolRef]) -> NameCounts:
    """Count the names of all tools of a surface, deferred ones included."""
    names = [(each.namespace, each.name) for each in tools]
    bare, prefixes = Counter(name for _, name in names), frozenset(_prefix(namespace) for namespace, _ in names)
    preferred = Counter(_preferred(namespace, name, bare, prefixes) for namespace, name in names)
    return NameCounts(bare, preferred, prefixes)


def assign_names(
    tools: Iterable[OfferedTool],
    reserved: Iterable[str] = (),
    *,
    counts: NameCounts | None = None,
    max_chars: int = MAX_CHARS,
) -> dict[str, OfferedTool]:
    """Return the tools by unique function names.

    An accepted name that only one tool prefers stays as it is. Tools that share a bare name get their namespace as a
    prefix, and so do tools whose name begins with the prefix of another namespace. Built-in tools get none. Names that
    still collide end in a digest of the qualified name. The order of the tools does not matter.

    Args:
        tools: those that need a name.
        reserved: names that no tool may have.
        counts: counts over all tools of the surface, if it has more than need a name now.
        max_chars: the length of a name, at most `MAX_CHARS`.
    """
    chosen = list(tools)
    counts = count_names(chosen) if counts is None else counts
    preferred = {
        tool.qualified_name: _preferred(tool.namespace, tool.name, counts.bare, counts.prefixes) for tool in chosen
    }
    forbidden = frozenset(reserved)
    names: dict[str, str] = {}
    for tool in chosen:
        name = preferred[tool.qualified_name]
        is_free = name not in forbidden and (counts.preferred[name] == 1 or name == tool.name)
        if is_free and len(name) <= max_chars and _ACCEPTED.fullmatch(name):
            names[tool.qualified_name] = name
    assigned: set[str] = set()
    for qualified_name in sorted(preferred.keys() - names.keys()):
        name = _with_digest(
            preferred[qualified_name], qualified_name, (forbidden, counts.preferred, assigned), max_chars
        )
        names[qualified_name] = name
        assigned.add(name)
    return {names[tool.qualified_name]: tool for tool in chosen}


def _prefix(namespace: str | None) -> str:
    return f"{_FORBIDDEN.sub('_', str(namespace))}__"


def _preferred(namespace: str | None, name: str, bare: Mapping[str, int], prefixes: Container[str]) -> str:
    """Return the preferred function name of a tool, of any length."""
    is_shared = bare[name] > 1 or _has_prefix_of_another(namespace, name, prefixes)
    whole = f"{namespace}__{name}" if is_shared and namespace != _BUILT_IN else name
    if _ACCEPTED.fullmatch(whole):
        return whole
    replaced = _FORBIDDEN.sub("_", whole)
    return replaced if replaced[:1].isalpha() or replaced[:1] == "_" else f"_{replaced}"


def _has_prefix_of_another(namespace: str | None, name: str, prefixes: Container[str]) -> bool:
    """Return whether a name could be taken for that of another namespace's tool."""
    written, own = _FORBIDDEN.sub("_", name), _prefix(namespace)
    begins = (written[: found.end(1)] for found in _PREFIX_END.finditer(written))
    return any(each != own and each in prefixes for each in begins)


def _with_digest(name: str, qualified_name: str, taken: Iterable[Container[str]], max_chars: int) -> str:
    """Shorten a name and append as many digits of a digest as make it unique."""
    digest = hashlib.sha256(qualified_name.encode(errors="surrogatepass")).hexdigest()
    for digits in range(_MIN_DIGITS, max_chars - 1):
        candidate = f"{name[: max_chars - 1 - digits]}_{digest[:digits]}"
        if not any(candidate in each for each in taken):
            return candidate
    raise AssertionError("two qualified names have the same digest")
