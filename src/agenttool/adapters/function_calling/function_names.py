"""Function names that every provider accepts, assigned to the tools of a surface.

Providers differ in length, dots and first characters of names. One common spelling lets a transcript move between them.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable
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
        qualified: the namespaces that are part of the name of each of their tools.
    """

    bare: Counter[str]
    preferred: Counter[str]
    prefixes: frozenset[str]
    qualified: frozenset[str]


def count_names(tools: Iterable[OfferedTool | DeferredToolRef], qualified: Iterable[str] = ()) -> NameCounts:
    """Count the names of all tools of a surface, deferred ones included.

    The tools of the namespaces in `qualified` may be absent for a while. Their names always have the namespace as a
    prefix, so that neither these names nor those of other tools depend on which tools are there.
    """
    always = frozenset(qualified)
    names = [(each.namespace, each.name) for each in tools]
    bare = Counter(name for namespace, name in names if namespace not in always)
    prefixes = frozenset(map(name_prefix, (*always, *(namespace for namespace, _ in names))))
    counts = NameCounts(bare, Counter(), prefixes, always)
    counts.preferred.update(_preferred(namespace, name, counts) for namespace, name in names)
    return counts


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
    preferred = {tool.qualified_name: _preferred(tool.namespace, tool.name, counts) for tool in chosen}
    forbidden = frozenset(reserved)
    names: dict[str, str] = {}
    for tool in chosen:
        name = preferred[tool.qualified_name]
        is_free = name not in forbidden and (counts.preferred[name] == 1 or name == tool.name)
        if tool.namespace in counts.qualified and _may_be_of_another(tool.namespace, name, counts.prefixes):
            is_free = False
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


def name_prefix(namespace: str | None) -> str:
    """Return what a name begins with that has its namespace as a prefix."""
    return f"{_FORBIDDEN.sub('_', str(namespace))}__"


def qualified_name(namespace: str, name: str, namespaces: Iterable[str]) -> str:
    """Return a name with its namespace as a prefix; it ends in a digest if it could be of another namespace."""
    whole = f"{name_prefix(namespace)}{name}"
    if not _may_be_of_another(namespace, whole, frozenset(map(name_prefix, namespaces))):
        return whole
    return f"{whole}_{hashlib.sha256(f'{namespace}.{name}'.encode(errors='surrogatepass')).hexdigest()[:_MIN_DIGITS]}"


def _preferred(namespace: str | None, name: str, counts: NameCounts) -> str:
    """Return the preferred function name of a tool, of any length."""
    is_shared = counts.bare[name] > 1 or _has_prefix_of_another(namespace, name, counts.prefixes)
    is_shared = is_shared or namespace in counts.qualified
    whole = f"{namespace}__{name}" if is_shared and namespace != _BUILT_IN else name
    if _ACCEPTED.fullmatch(whole):
        return whole
    replaced = _FORBIDDEN.sub("_", whole)
    return replaced if replaced[:1].isalpha() or replaced[:1] == "_" else f"_{replaced}"


def _may_be_of_another(namespace: str, whole: str, prefixes: Container[str]) -> bool:
    """Return whether a name with its namespace as a prefix could be of another one: `a__b__c` of `a` or of `a__b`."""
    return name_prefix(namespace) != f"{namespace}__" or _has_prefix_of_another(namespace, whole, prefixes)


def _has_prefix_of_another(namespace: str | None, name: str, prefixes: Container[str]) -> bool:
    """Return whether a name could be taken for that of another namespace's tool."""
    written, own = _FORBIDDEN.sub("_", name), name_prefix(namespace)
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
